// A good schedule in little time: a beam search over the branching of the exact search. Pure; any thread.
#pragma once

#include <cstdint>
#include <variant>

#include "planning/feasible.hpp"
#include "planning/schedule.hpp"

namespace stagecraft {

struct BeamResult {
  Schedule schedule;  ///< F, B, W; within the caps
  Duration makespan{};
};

/// Operator by operator, the `width` partial schedules with the smallest lower bound go on, among equals those with the
/// smallest sum of the bounds of all stages; of two with the same operators behind them, one that is in no respect
/// ahead is dropped. The makespan is that of `replay`. About operators x width x stages steps; the same input gives the
/// same schedule. One chunk per stage, split backward, width at least 1.
std::variant<BeamResult, ImpossibleCap> beam_search(const PipelineProblem& problem, std::uint32_t width);

}  // namespace stagecraft
