// The search behind `make_partition`.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <tuple>

#include "planning/bug.hpp"
#include "planning/partition.hpp"

namespace stagecraft {

namespace {

__extension__ using Wide = unsigned __int128;
using Counts = std::vector<std::uint32_t>;

// The first chunks of a partition, summed up. `measures`: per stage that is still to get another chunk its time, then
// per such stage its bytes, then the slowest and the largest of the complete stages.
struct State {
  std::vector<std::uint64_t> measures;
  Wide squares = 0;
  Counts counts;
};

// No worse in every respect, and in front where all are equal.
bool covers(const State& a, const State& b) {
  if (a.squares > b.squares) return false;
  bool equal = a.squares == b.squares;
  for (std::size_t i = 0; i < a.measures.size(); ++i) {
    if (a.measures[i] > b.measures[i]) return false;
    equal = equal && a.measures[i] == b.measures[i];
  }
  return !equal || a.counts <= b.counts;
}

// States that were reached with the same units in the same chunks.
class Front {
 public:
  static constexpr std::size_t limit = 64;

  void offer(State state) {
    if (std::any_of(states_.begin(), states_.end(), [&](const State& old) { return covers(old, state); })) return;
    std::erase_if(states_, [&](const State& old) { return covers(state, old); });
    states_.push_back(std::move(state));
  }
  // Keeps the most even ones; whether any had to go.
  bool cut() {
    if (states_.size() <= limit) return false;
    std::sort(states_.begin(), states_.end(), [](const State& a, const State& b) {
      const auto most = [](const State& s) { return *std::max_element(s.measures.begin(), s.measures.end()); };
      return std::tuple(most(a), a.squares, a.counts) < std::tuple(most(b), b.squares, b.counts);
    });
    states_.resize(limit);
    return true;
  }
  bool full() const { return states_.size() >= 2 * limit; }
  const std::vector<State>& states() const { return states_; }

 private:
  std::vector<State> states_;
};

// What a run of the search looks for.
enum class Goal : std::uint8_t {
  best,    // the objective of `make_partition`, up to the peak memory
  ties,    // the shortest early chunks, no stage slower or larger than the best partition's
  excess,  // the least excess over the memory, with no limit on time
};

class Search {
 public:
  explicit Search(const PartitionProblem& problem)
      : problem_(problem),
        chunks_(problem.shape.total_chunks()),
        units_(static_cast<std::uint32_t>(problem.units.size())),
        time_(units_ + 1),
        activation_(units_ + 1),
        state_(units_ + 1) {
    for (std::uint32_t u = 0; u < units_; ++u) {
      const PartitionUnit& unit = problem.units[u];
      STAGECRAFT_ASSERT(unit.time >= Duration{}, "unit {} takes {} ns", u, unit.time.count());
      time_[u + 1] = time_[u] + static_cast<std::uint64_t>(unit.time.count());
      activation_[u + 1] = activation_[u] + unit.activation.value;
      state_[u + 1] = state_[u] + unit.state.value;
    }
  }

  std::variant<Partition, PartitionShortage> run() {
    const auto limit = least_chunk_time();
    const auto counts = limit ? best(*limit, Goal::best) : std::nullopt;
    if (!counts) return shortage();
    const Partition first = partition_of(*counts);
    slowest_ = *std::max_element(first.stage_time.begin(), first.stage_time.end());
    largest_ = *std::max_element(first.stage_memory.begin(), first.stage_memory.end());
    const bool proven = first.proven;
    const auto early = best(*limit, Goal::ties);
    if (!early || !proven_) return first;
    Partition result = partition_of(*early);
    result.proven = proven;
    return result;
  }

  std::uint64_t time(std::uint32_t from, std::uint32_t to) const { return time_[to] - time_[from]; }
  std::uint64_t bytes(std::uint32_t chunk, std::uint32_t from, std::uint32_t to) const {
    const std::uint64_t flights = problem_.in_flight.empty() ? 1 : problem_.in_flight[chunk];
    return flights * (activation_[to] - activation_[from]) + state_[to] - state_[from];
  }

 private:
  std::uint32_t stage(std::uint32_t chunk) const { return problem_.shape.stage_of({chunk}).value; }
  // Chunks of a stage come one per pass over the stages.
  bool completes(std::uint32_t chunk) const { return chunk / problem_.shape.stages + 1 == problem_.shape.chunks; }
  std::uint64_t cap(std::uint32_t s) const { return problem_.memory.empty() ? ~0ULL : problem_.memory[s].value; }

  // The least limit on chunk times with which a partition fits. With one chunk per stage the simple test is the whole
  // truth; with several, memory binds chunks together, and the states have to be looked at.
  std::optional<std::uint64_t> least_chunk_time() {
    std::vector<std::uint64_t> limits;
    for (std::uint32_t i = 0; i < units_; ++i)
      for (std::uint32_t j = i + 1; j <= units_; ++j) limits.push_back(time(i, j));
    std::sort(limits.begin(), limits.end());
    limits.erase(std::unique(limits.begin(), limits.end()), limits.end());
    auto found = std::partition_point(limits.begin(), limits.end(), [&](auto limit) { return !chunks_fit(limit); });
    const bool coupled = problem_.shape.chunks > 1 && !problem_.memory.empty();
    if (coupled && found != limits.end() && !best(*found, Goal::best)) {
      const auto fails = [&](auto limit) { return !best(limit, Goal::best); };
      found = std::partition_point(std::next(found), limits.end(), fails);
    }
    if (found == limits.end()) return std::nullopt;
    return *found;
  }

  // Chunk by chunk: from which units on the rest can still be cut within the limits of each chunk alone.
  bool chunks_fit(std::uint64_t limit) {
    possible_.assign(chunks_ + 1, std::vector<bool>(units_ + 1, false));
    possible_[chunks_][units_] = true;
    for (std::uint32_t c = chunks_; c-- > 0;) {
      for (std::uint32_t i = c; i < units_; ++i) {
        for (std::uint32_t j = i + 1; j <= units_ && time(i, j) <= limit; ++j) {
          if (bytes(c, i, j) > cap(stage(c))) break;
          if (possible_[c + 1][j]) {
            possible_[c][i] = true;
            break;
          }
        }
      }
    }
    return possible_[0][0];
  }

  // The best partition with no chunk slower than the limit; none where none fits.
  std::optional<Counts> best(std::uint64_t limit, Goal goal) {
    if (goal != Goal::excess && !chunks_fit(limit)) return std::nullopt;
    std::vector<Front> fronts(units_ + 1);
    fronts[0].offer({std::vector<std::uint64_t>(2 * problem_.shape.stages + 2), 0, {}});
    proven_ = true;
    for (std::uint32_t c = 0; c < chunks_; ++c) {
      std::vector<Front> next(units_ + 1);
      for (std::uint32_t i = c; i < units_; ++i) extend(fronts[i], c, i, limit, goal, next);
      for (Front& front : next) proven_ = !front.cut() && proven_;
      fronts = std::move(next);
    }
    const auto& last = fronts[units_].states();
    if (last.empty()) return std::nullopt;
    const auto better = [&](const State& a, const State& b) { return rank(a) < rank(b); };
    return std::min_element(last.begin(), last.end(), better)->counts;
  }

  void extend(const Front& front, std::uint32_t c, std::uint32_t i, std::uint64_t limit, Goal goal,
              std::vector<Front>& next) {
    const std::uint32_t left = chunks_ - c - 1;
    for (std::uint32_t j = i + 1; j + left <= units_; ++j) {
      if (goal != Goal::excess && (time(i, j) > limit || bytes(c, i, j) > cap(stage(c)))) return;
      if (goal != Goal::excess && !possible_[c + 1][j]) continue;
      for (const State& state : front.states()) {
        if (auto longer = extended(state, c, i, j, goal)) next[j].offer(std::move(*longer));
        if (next[j].full()) proven_ = !next[j].cut() && proven_;
      }
    }
  }

  bool allowed(Goal goal, std::uint32_t s, std::uint64_t seconds, std::uint64_t bytes_here) const {
    if (bytes_here > cap(s)) return false;
    return goal != Goal::ties ||
           (seconds <= static_cast<std::uint64_t>(slowest_.count()) && bytes_here <= largest_.value);
  }

  // The state with units i .. j-1 as chunk c; none where the stage's memory does not do.
  std::optional<State> extended(const State& state, std::uint32_t c, std::uint32_t i, std::uint32_t j,
                                Goal goal) const {
    const std::uint32_t stages = problem_.shape.stages, s = stage(c);
    State longer = state;
    std::uint64_t& seconds = longer.measures[s];
    std::uint64_t& bytes_here = longer.measures[stages + s];
    seconds += time(i, j);
    bytes_here += bytes(c, i, j);
    if (goal != Goal::excess && !allowed(goal, s, seconds, bytes_here)) return std::nullopt;
    if (goal != Goal::excess) longer.squares += static_cast<Wide>(time(i, j)) * time(i, j);
    if (completes(c)) {
      std::uint64_t& slowest = longer.measures[2 * stages];
      std::uint64_t& largest = longer.measures[2 * stages + 1];
      // With one chunk per stage the limit on chunks is the limit on stages.
      if (goal == Goal::best && problem_.shape.chunks > 1) slowest = std::max(slowest, seconds);
      if (goal == Goal::best) largest = std::max(largest, bytes_here);
      if (goal == Goal::excess && bytes_here > cap(s)) largest = std::max(largest, bytes_here - cap(s));
      seconds = bytes_here = 0;
    }
    if (goal == Goal::excess) seconds = 0;
    longer.counts.push_back(j - i);
    return longer;
  }

  std::tuple<std::uint64_t, Wide, std::uint64_t, Counts> rank(const State& state) const {
    const std::uint32_t stages = problem_.shape.stages;
    return {state.measures[2 * stages], state.squares, state.measures[2 * stages + 1], state.counts};
  }

  Partition partition_of(const Counts& counts) const {
    const PipelineShape& shape = problem_.shape;
    Partition result;
    result.units = counts;
    result.proven = proven_;
    result.stage_time.resize(shape.stages);
    result.stage_memory.resize(shape.stages);
    const std::uint32_t slots = *std::max_element(counts.begin(), counts.end());
    std::uint32_t from = 0;
    for (std::uint32_t c = 0; c < chunks_; ++c) {
      const std::uint32_t to = from + counts[c];
      const auto begin = problem_.units.begin();
      result.layers.push_back(static_cast<std::uint32_t>(std::count_if(
          begin + from, begin + to, [](const PartitionUnit& unit) { return unit.kind == UnitKind::layer; })));
      result.no_ops.push_back(slots - counts[c]);
      result.chunk_time.emplace_back(static_cast<std::int64_t>(time(from, to)));
      result.stage_time[stage(c)] += result.chunk_time.back();
      result.stage_memory[stage(c)] += Bytes{bytes(c, from, to)};
      from = to;
    }
    return result;
  }

  PartitionShortage shortage() {
    const auto counts = best(0, Goal::excess);
    STAGECRAFT_ASSERT(counts, "{} units can always be cut into {} chunks", units_, chunks_);
    const Partition closest = partition_of(*counts);
    PartitionShortage result{PartitionShortage::Kind::memory, 0, 0, {}};
    std::uint64_t most = 0;
    for (std::uint32_t s = 0; s < problem_.shape.stages; ++s) {
      const std::uint64_t needed = closest.stage_memory[s].value;
      if (needed <= cap(s) || needed - cap(s) <= most) continue;
      most = needed - cap(s);
      result.available = cap(s), result.needed = needed, result.stage = {s};
    }
    return result;
  }

  const PartitionProblem& problem_;
  std::uint32_t chunks_, units_;
  std::vector<std::uint64_t> time_, activation_, state_;  // prefix sums
  std::vector<std::vector<bool>> possible_;               // [chunk][first unit], for the last limit
  Duration slowest_{};                                    // stages of the best partition: see Goal::ties
  Bytes largest_;
  bool proven_ = true;
};

char letter(UnitKind kind) {
  switch (kind) {
    case UnitKind::embedding:
      return 'E';
    case UnitKind::layer:
      return 't';
    case UnitKind::prediction:
      return 'm';
    case UnitKind::head:
      return 'L';
  }
  return '?';
}

}  // namespace

std::variant<Partition, PartitionShortage> make_partition(const PartitionProblem& problem) {
  const std::uint32_t chunks = problem.shape.total_chunks();
  STAGECRAFT_ASSERT(chunks > 0, "a pipeline without chunks");
  STAGECRAFT_ASSERT(problem.in_flight.empty() || problem.in_flight.size() == chunks,
                    "in-flight counts of {} chunks for {}", problem.in_flight.size(), chunks);
  STAGECRAFT_ASSERT(problem.memory.empty() || problem.memory.size() == problem.shape.stages,
                    "memory of {} stages for {}", problem.memory.size(), problem.shape.stages);
  if (problem.units.size() < chunks)
    return PartitionShortage{PartitionShortage::Kind::units, problem.units.size(), chunks, {}};
  return Search(problem).run();
}

std::vector<std::uint32_t> Partition::no_op_slots() const {
  std::vector<std::uint32_t> slots;
  std::uint32_t next = 0;
  for (std::size_t c = 0; c < units.size(); ++c) {
    next += units[c];
    for (std::uint32_t k = 0; k < no_ops[c]; ++k) slots.push_back(next++);
  }
  return slots;
}

std::string to_text(const Partition& partition, const PartitionProblem& problem) {
  std::string text;
  std::size_t unit = 0;
  for (std::size_t c = 0; c < partition.units.size(); ++c) {
    if (c > 0) text += " | ";
    for (std::uint32_t k = 0; k < partition.units[c] + partition.no_ops[c]; ++k) {
      if (k > 0) text += ' ';
      text += k < partition.units[c] ? letter(problem.units[unit++].kind) : 'n';
    }
  }
  return text;
}

std::string to_text(const PartitionShortage& shortage) {
  if (shortage.kind == PartitionShortage::Kind::units)
    return fmt::format("{} units for {} chunks, and every chunk needs one; use fewer stages or chunks per stage",
                       shortage.available, shortage.needed);
  return fmt::format(
      "no partition fits: stage {} has {}, and {} would do; give it more memory, or use more stages, "
      "fewer micro-batches in flight or sharded optimizer state",
      shortage.stage.value, format(Bytes{shortage.available}), format(Bytes{shortage.needed}));
}

}  // namespace stagecraft
