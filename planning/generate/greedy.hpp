// A list by playing the pipeline forward, each stage choosing by priority when its device is free: the planner's
// workhorse, run under many options. One chunk per stage, split backward. Pure; any thread.
#pragma once

#include <cstdint>
#include <vector>

#include "planning/problem.hpp"
#include "planning/schedule.hpp"

namespace stagecraft {

struct GreedyOptions {
  /// What a stage prefers of what is ready. `alternate`: after F it prefers B, after B it prefers F.
  enum class Priority : std::uint8_t { backward_first, forward_first, alternate } priority{};
  /// Whether a stage starts something less urgent although something better is known to come (its producer runs):
  /// always; only if it ends before that arrives; or at most half of itself later.
  enum class Hold : std::uint8_t { never, strict, half } hold{};
  /// While a forward waits for memory only, weight gradients are not held back.
  bool force_weights = true;
  std::vector<std::uint32_t> warmup;  ///< per stage: forwards before the first backward; at least 1
};

struct GreedyResult {
  Schedule schedule;
  Duration makespan{};  ///< with links as pure latency (their crossing time)
};

/// Keeps the problem's caps, which must be possible (`find_impossible_cap`): micro-batches run in order on every stage,
/// so a stage that may not run F has a B to come or a W to run, and nothing hangs. O(operators x log stages).
GreedyResult greedy(const PipelineProblem& problem, const GreedyOptions& options);

}  // namespace stagecraft
