#include "planning/exact.hpp"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "planning/beam.hpp"
#include "planning/bound.hpp"
#include "planning/bug.hpp"
#include "planning/replay.hpp"
#include "planning/search_space.hpp"

namespace stagecraft {

namespace {

// The partial schedules seen so far, by the operators that they have run. One flat arena; each entry is
// [next entry of the bucket, hash, counts, values].
class Seen {
 public:
  Seen(const SearchSpace& space, std::size_t memory) : space_(space), words_(memory / sizeof(std::int64_t)) {
    buckets_.resize(std::size_t{1} << 12, none);
    values_.resize(space.values_size());
  }

  /// The state scored last is in no respect ahead of one seen before. If not, it is remembered while there is room.
  bool dominates(PartialSchedule state, std::uint64_t hash) {
    const std::size_t used = space_.values(state, values_.data());
    for (std::size_t at = buckets_[hash & (buckets_.size() - 1)]; at != none; at = next_of(at)) {
      if (static_cast<std::uint64_t>(arena_[at + 1]) != hash || !same_counts(state, at)) continue;
      const auto known = arena_.begin() + static_cast<std::ptrdiff_t>(at + values_at());
      if (pairwise(known, values_.begin(), used)) return true;
      if (!pairwise(values_.begin(), known, used)) continue;
      std::copy_n(values_.begin(), used, known);
      return false;
    }
    remember(state, hash, used);
    return false;
  }

 private:
  static constexpr std::size_t none = static_cast<std::size_t>(-1);

  // Every one of the first is at most that of the second.
  template <class First, class Second>
  static bool pairwise(First first, Second second, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i)
      if (first[static_cast<std::ptrdiff_t>(i)] > second[static_cast<std::ptrdiff_t>(i)]) return false;
    return true;
  }

  std::size_t values_at() const { return 2 + space_.counts_size(); }
  std::size_t next_of(std::size_t at) const { return static_cast<std::size_t>(arena_[at]); }
  bool same_counts(PartialSchedule state, std::size_t at) const {
    return std::equal(state.counts, state.counts + space_.counts_size(),
                      arena_.begin() + static_cast<std::ptrdiff_t>(at + 2),
                      [](std::uint32_t count, std::int64_t known) { return count == known; });
  }

  void remember(PartialSchedule state, std::uint64_t hash, std::size_t used) {
    const std::size_t at = arena_.size();
    if (at + values_at() + used > words_) return;
    if (entries_ == buckets_.size()) grow();
    std::size_t& bucket = buckets_[hash & (buckets_.size() - 1)];
    arena_.push_back(static_cast<std::int64_t>(bucket));
    arena_.push_back(static_cast<std::int64_t>(hash));
    arena_.insert(arena_.end(), state.counts, state.counts + space_.counts_size());
    arena_.insert(arena_.end(), values_.begin(), values_.begin() + static_cast<std::ptrdiff_t>(used));
    bucket = at;
    starts_.push_back(at);
    ++entries_;
  }

  void grow() {
    buckets_.assign(2 * buckets_.size(), none);
    for (const std::size_t at : starts_) {
      std::size_t& bucket = buckets_[static_cast<std::uint64_t>(arena_[at + 1]) & (buckets_.size() - 1)];
      arena_[at] = static_cast<std::int64_t>(bucket);
      bucket = at;
    }
  }

  const SearchSpace& space_;
  std::size_t words_, entries_ = 0;
  std::vector<std::size_t> buckets_, starts_;
  std::vector<std::int64_t> arena_, values_;
};

class Search {
 public:
  Search(const PipelineProblem& problem, const ExactOptions& options)
      : space_(problem), seen_(space_, options.memory), budget_(options.nodes) {
    frames_.resize(space_.operators() + 1);
    times_.resize(space_.times_size());
    counts_.resize(space_.counts_size());
    state_ = {times_.data(), counts_.data()};
  }

  /// Looks for a schedule shorter than the result's, until it has one as long as its lower bound.
  void improve(ExactResult& result) {
    space_.start(state_);
    depth_ = 0;
    enter(0);
    while (result.makespan > result.lower_bound) {
      Frame& frame = frames_[depth_];
      if (frame.next == frame.count || frame.children[frame.next].score.bound >= result.makespan.count()) {
        if (depth_ == 0) break;
        space_.undo(state_, frames_[--depth_].undo);
        continue;
      }
      if (result.nodes == budget_) return;
      ++result.nodes;
      const Child& child = frame.children[frame.next++];
      frame.undo = space_.apply(state_, child.move);
      if (depth_ + 1 == space_.operators()) {
        result.makespan = space_.makespan(state_);
        result.schedule = space_.schedule_of(path());
        space_.undo(state_, frame.undo);
        continue;
      }
      space_.score(state_);
      if (seen_.dominates(state_, child.hash)) {
        space_.undo(state_, frame.undo);
        continue;
      }
      ++depth_;
      enter(child.hash);
    }
    result.proven = true;
    result.lower_bound = result.makespan;
  }

 private:
  struct Child {
    Score score;
    SearchStep move;
    std::uint64_t hash = 0;
  };
  struct Frame {
    std::array<Child, phases> children;
    std::uint8_t count = 0, next = 0;
    Undo undo;  // of the child that is being looked at
  };

  // Opens the frame of the present state: its children, the most promising first.
  void enter(std::uint64_t hash) {
    Frame& frame = frames_[depth_];
    const Branches branches = space_.branch(state_);
    frame.count = branches.count;
    frame.next = 0;
    for (std::uint8_t i = 0; i < branches.count; ++i) {
      const SearchStep move{branches.stage, branches.phase[i]};
      const Undo undo = space_.apply(state_, move);
      frame.children[i] = {space_.score(state_), move, hash + SearchSpace::hash_of(move)};
      space_.undo(state_, undo);
    }
    std::stable_sort(frame.children.begin(), frame.children.begin() + branches.count,
                     [](const Child& a, const Child& b) { return a.score < b.score; });
  }

  std::vector<SearchStep> path() const {
    std::vector<SearchStep> moves;
    for (std::size_t depth = 0; depth <= depth_; ++depth) moves.push_back(frames_[depth].undo.move);
    return moves;
  }

  SearchSpace space_;
  Seen seen_;
  std::uint64_t budget_;
  std::vector<Frame> frames_;
  std::vector<std::int64_t> times_;
  std::vector<std::uint32_t> counts_;
  PartialSchedule state_;
  std::size_t depth_ = 0;
};

void check_incumbent(const PipelineProblem& problem, const SimulationResult& played) {
  STAGECRAFT_ASSERT(!played.hung, "the schedule to start from can't proceed");
  for (std::size_t s = 0; s < problem.caps.size(); ++s) {
    const StageCaps& caps = problem.caps[s];
    const StagePeaks& peaks = played.peaks[s];
    STAGECRAFT_ASSERT(peaks.activations <= caps.activations.value_or(peaks.activations) &&
                          peaks.pending_weights <= caps.pending_weights.value_or(peaks.pending_weights) &&
                          peaks.held <= caps.held.value_or(peaks.held),
                      "the schedule to start from holds more than stage {} may", s);
  }
}

}  // namespace

std::variant<ExactResult, ImpossibleCap> exact_search(const PipelineProblem& problem, const ExactOptions& options) {
  if (const auto impossible = find_impossible_cap(problem)) return *impossible;
  ExactResult result;
  result.lower_bound = lower_bound(problem).makespan;
  BeamResult beam = std::get<BeamResult>(beam_search(problem, options.beam_width));
  result.schedule = std::move(beam.schedule);
  result.makespan = beam.makespan;
  if (options.incumbent) {
    const SimulationResult played = replay(problem, *options.incumbent);
    check_incumbent(problem, played);
    if (played.makespan < result.makespan) {
      result.schedule = *options.incumbent;
      result.makespan = played.makespan;
    }
  }
  Search(problem, options).improve(result);
  return result;
}

}  // namespace stagecraft
