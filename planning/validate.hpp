// Whether a schedule is one: every micro-batch in both directions on every chunk, in an order that can proceed, within
// caps and credits. What is wrong comes back as values with their texts. Pure; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "planning/problem.hpp"
#include "planning/schedule.hpp"
#include "planning/simulate.hpp"

namespace stagecraft {

/// One thing that is wrong with a schedule.
struct ScheduleFault {
  enum class Kind : std::uint8_t {
    stages,          ///< lists for another number of stages
    foreign,         ///< an operator of a chunk that the stage doesn't host, or of no micro-batch of this replica
    repeated,        ///< an operator stands in the list more than once
    missing,         ///< operators of one chunk and kind that stand nowhere
    mixed_backward,  ///< a micro-batch has a fused backward (X) and a B or W of its own
    weight_order,    ///< the weight gradients of a chunk are not in increasing order of the micro-batches
    blocked,         ///< the stage waits for ever
    cap,             ///< the stage holds more than it may
    credits,         ///< the stage waits for ever, but not if the links had more credits
  };
  Kind kind{};
  StageId stage;
  std::optional<Operator> op;  ///< the first that shows it
  std::string text;            ///< what is wrong, where, why, and what to try
};

/// Everything that is wrong, in the order of the kinds and then of the stages; empty: the schedule runs. Whether it
/// proceeds is looked at only if the lists hold each operator once, and `credits` (per boundary and direction) only if
/// it does proceed. Caps are compared with the largest counts along each list, which are exact: a device runs one
/// operator at a time.
std::vector<ScheduleFault> validate(const PipelineProblem& problem, const Schedule& schedule,
                                    std::optional<std::uint32_t> credits = std::nullopt);

/// A run that hung, as a grid: per stage the last operators that ran, an arrow at the one that can't, and its missing
/// input; then the circle of stages that wait for each other, if there is one. `result` is a run of the schedule.
///
///     stage 0 | 0F0 0F1 > 0B0 waits for its gradient from chunk 1 (1B0 of stage 1 has not run)
std::string draw_blocked(const PipelineProblem& problem, const Schedule& schedule, const SimulationResult& result);

}  // namespace stagecraft
