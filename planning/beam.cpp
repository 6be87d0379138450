#include "planning/beam.hpp"

#include <algorithm>
#include <tuple>
#include <vector>

#include "planning/bug.hpp"
#include "planning/search_space.hpp"

namespace stagecraft {

namespace {

class Beam {
 public:
  Beam(const PipelineProblem& problem, std::uint32_t width)
      : space_(problem), width_(width), now_(space_, width), next_(space_, width) {
    candidates_.reserve(std::size_t{width} * phases);
    trail_.reserve(space_.operators() * width);
  }

  BeamResult run() {
    space_.start(now_.state(0));
    now_.size = 1;
    for (std::size_t step = 0; step < space_.operators(); ++step) {
      expand();
      select();
      std::swap(now_, next_);
    }
    return {space_.schedule_of(moves()), space_.makespan(now_.state(0))};
  }

 private:
  // The partial schedules of one step, each in a slot of flat arrays.
  struct Level {
    Level(const SearchSpace& space, std::uint32_t width)
        : times(space.times_size() * width),
          counts(space.counts_size() * width),
          hashes(width),
          trails(width),
          times_size(space.times_size()),
          counts_size(space.counts_size()) {}
    PartialSchedule state(std::size_t slot) {
      return {times.data() + slot * times_size, counts.data() + slot * counts_size};
    }
    std::vector<std::int64_t> times;
    std::vector<std::uint32_t> counts;
    std::vector<std::uint64_t> hashes;
    std::vector<std::size_t> trails;  // the last move of each, an index into trail_
    std::size_t times_size, counts_size;
    std::uint32_t size = 0;
  };
  struct Candidate {
    Score score;
    std::uint32_t parent = 0;
    SearchStep move;
    std::uint64_t hash = 0;
    bool operator<(const Candidate& other) const {
      if (score < other.score) return true;
      if (other.score < score) return false;
      return std::tuple(parent, move.phase) < std::tuple(other.parent, other.move.phase);
    }
  };
  struct Step {
    SearchStep move;
    std::size_t before = 0;
  };

  void expand() {
    candidates_.clear();
    for (std::uint32_t slot = 0; slot < now_.size; ++slot) {
      const PartialSchedule state = now_.state(slot);
      const Branches branches = space_.branch(state);
      for (std::uint8_t i = 0; i < branches.count; ++i) {
        const SearchStep move{branches.stage, branches.phase[i]};
        const Undo undo = space_.apply(state, move);
        candidates_.push_back({space_.score(state), slot, move, now_.hashes[slot] + SearchSpace::hash_of(move)});
        space_.undo(state, undo);
      }
    }
    STAGECRAFT_ASSERT(!candidates_.empty(), "a partial schedule within its caps has no next operator");
    std::sort(candidates_.begin(), candidates_.end());
  }

  void select() {
    next_.size = 0;
    for (const Candidate& candidate : candidates_) {
      if (next_.size == width_) return;
      const PartialSchedule from = now_.state(candidate.parent), to = next_.state(next_.size);
      std::copy_n(from.times, space_.times_size(), to.times);
      std::copy_n(from.counts, space_.counts_size(), to.counts);
      space_.apply(to, candidate.move);
      if (dominated(to, candidate.hash)) continue;
      next_.hashes[next_.size] = candidate.hash;
      next_.trails[next_.size] = trail_.size();
      trail_.push_back({candidate.move, now_.trails[candidate.parent]});
      ++next_.size;
    }
  }

  // Whether one chosen already has the same counts and is nowhere later.
  bool dominated(PartialSchedule state, std::uint64_t hash) {
    for (std::uint32_t slot = 0; slot < next_.size; ++slot) {
      if (next_.hashes[slot] != hash) continue;
      const PartialSchedule other = next_.state(slot);
      if (std::equal(state.counts, state.counts + space_.counts_size(), other.counts) && space_.no_later(other, state))
        return true;
    }
    return false;
  }

  std::vector<SearchStep> moves() const {
    std::vector<SearchStep> moves(space_.operators());
    std::size_t at = now_.trails[0];
    for (std::size_t i = moves.size(); i-- > 0; at = trail_[at].before) moves[i] = trail_[at].move;
    return moves;
  }

  SearchSpace space_;
  std::uint32_t width_;
  Level now_, next_;
  std::vector<Candidate> candidates_;
  std::vector<Step> trail_;
};

}  // namespace

std::variant<BeamResult, ImpossibleCap> beam_search(const PipelineProblem& problem, std::uint32_t width) {
  STAGECRAFT_ASSERT(width > 0, "a beam of no width");
  if (const auto impossible = find_impossible_cap(problem)) return *impossible;
  return Beam(problem, width).run();
}

}  // namespace stagecraft
