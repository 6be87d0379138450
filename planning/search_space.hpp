// Partial schedules of a pipeline with one chunk per stage and split backward, as flat arrays: which operator may come
// next, what that changes, and how long the rest takes at least. Exact search and beam search walk over it. Nothing is
// allocated per step. One owner; not thread-safe.
//
// Branching after B. Giffler and G. L. Thompson, "Algorithms for solving production-scheduling problems" (1960): of the
// operator that could end earliest take the stage, and try every operator of that stage that could start before this
// end. Micro-batches in index order (planning/pipeline_graph.hpp) leave at most three.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "planning/pipeline_graph.hpp"
#include "planning/schedule.hpp"

namespace stagecraft {

/// A partial schedule; the arrays belong to whoever made it and have the lengths that `SearchSpace` tells.
struct PartialSchedule {
  std::int64_t* times = nullptr;    ///< per stage when its device is free, then the arrivals of messages
  std::uint32_t* counts = nullptr;  ///< per stage: F, B, W started
};

/// The next operator of a stage.
struct SearchStep {
  std::uint32_t stage = 0;
  std::uint8_t phase = phase_f;
};

struct Branches {
  std::uint32_t stage = 0;
  std::uint8_t count = 0;  ///< 0: complete
  std::array<std::uint8_t, phases> phase{};
};

/// Smaller is more promising.
struct Score {
  std::int64_t bound = 0;  ///< no completion ends earlier
  double sum = 0;          ///< of the bounds of all stages; 64 bits might overflow
  bool operator<(const Score& other) const { return bound != other.bound ? bound < other.bound : sum < other.sum; }
};

/// What `apply` overwrote.
struct Undo {
  SearchStep move;
  std::int64_t free = 0, arrival = 0;
};

class SearchSpace {
 public:
  /// One chunk per stage, at least one micro-batch; caps must be possible.
  explicit SearchSpace(const PipelineProblem& problem);

  std::size_t times_size() const { return times_size_; }
  std::size_t counts_size() const { return phases * stages_; }
  std::size_t operators() const { return std::size_t{phases} * stages_ * n_; }

  void start(PartialSchedule state) const;
  Branches branch(PartialSchedule state) const;
  Undo apply(PartialSchedule state, SearchStep move) const;
  void undo(PartialSchedule state, const Undo& undo) const;
  Score score(PartialSchedule state);

  /// What decides how the rest of the state scored last can go, later is worse; states with equal counts have equally
  /// many values. At most `values_size()`.
  std::size_t values(PartialSchedule state, std::int64_t* out) const;
  std::size_t values_size() const { return times_size_ + 2 * std::size_t{stages_}; }
  /// Of two states with equal counts, the first is in no respect later than the second.
  bool no_later(PartialSchedule first, PartialSchedule second) const;
  /// A part of a hash of the counts: the sum over all operators run so far.
  static std::uint64_t hash_of(SearchStep move);

  /// Turns moves in the order in which they were applied into the lists of the stages.
  Schedule schedule_of(const std::vector<SearchStep>& moves) const;
  Duration makespan(PartialSchedule state) const;

 private:
  struct Stage {
    std::array<std::int64_t, phases> time{};
    PipelineGraph::Caps caps;
    PipelineGraph::Message from_above, from_below;  // of F from the stage before, of B from the stage after
    std::size_t f_slots = 0, b_slots = 0;           // where the ring of arrivals starts in `times`
    std::uint32_t f_mask = 0, b_mask = 0;
    const std::int64_t *f_tail = nullptr, *b_tail = nullptr;
    std::int64_t last_b_tail = 0;
    std::size_t rest = 0, rest_fb = 0;     // where the tables of the stage start
    std::uint32_t wide_w = 0, wide_f = 0;  // extents of the tables in B - W and F - B, plus one
  };
  static constexpr std::int64_t never = std::numeric_limits<std::int64_t>::max() / 2;

  void lay_out();
  void fill_tables();
  void fill_rest(const Stage& stage);
  void fill_rest_fb(const Stage& stage);
  std::int64_t rest(const Stage& stage, const std::uint32_t* count) const;
  std::int64_t rest_fb(const Stage& stage, const std::uint32_t* count) const;
  bool open(PartialSchedule state, std::uint32_t s, std::uint8_t phase) const;
  std::int64_t earliest(PartialSchedule state, std::uint32_t s, std::uint8_t phase) const;
  void estimate_starts(PartialSchedule state);
  void raise_blocked(PartialSchedule state);
  std::int64_t stage_bound(PartialSchedule state, std::uint32_t s);

  std::uint32_t stages_ = 0, n_ = 0;
  MicroBatch first_;
  std::vector<Stage> stage_;
  PathLengths tails_;
  std::size_t times_size_ = 0;
  bool queues_ = false;  // some link serves one message at a time
  bool tables_ = false;  // small enough
  std::vector<std::int64_t> rest_, rest_fb_;
  std::vector<std::int64_t> next_f_, next_b_, ready_;  // of the state scored last, per stage: earliest starts
};

}  // namespace stagecraft
