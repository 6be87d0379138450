// A lower bound of the time that a pipeline takes, whatever its schedule, and what makes it so long. Pure; any thread.
#pragma once

#include <cstdint>
#include <string>

#include "planning/feasible.hpp"

namespace stagecraft {

/// What no schedule can do without.
enum class Binding : std::uint8_t {
  critical_path,  ///< one micro-batch, all the way there and back
  work,           ///< what a stage has to run, with the fill before and the drain after it
  memory,         ///< a cap: places that must be given back before the next forward or backward
};

/// Every part is a bound by itself; each but the first contains the one before it.
struct LowerBound {
  Duration critical_path{}, work{}, memory{};
  Duration makespan{};  ///< the largest of the three
  Binding binding{};    ///< the simplest part that reaches it
  StageId stage;        ///< whose device is the bottleneck; for the critical path, the stage with most work
};

/// Longest-path heads and tails in the graph with the memory arcs, then per stage the best that one preemptive machine
/// can do: always the released operator with the largest tail (J. Carlier, "The one-machine sequencing problem", 1982).
/// O(operators x chunks per stage). With several chunks per stage the caps count for each chunk alone, which makes the
/// bound weaker. Caps must be possible (`find_impossible_cap`). Messages of equal micro-batches queue, they don't
/// overtake.
LowerBound lower_bound(const PipelineProblem& problem, BackwardForm backward = BackwardForm::split);

/// "at least 390 ms: the work of stage 2 with its fill and drain".
std::string to_text(const LowerBound& bound);

}  // namespace stagecraft
