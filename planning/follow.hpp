// From a list to what stages need to follow it: latest starts and durations of its operators. Pure; any thread.
#pragma once

#include <vector>

#include "planning/problem.hpp"
#include "planning/schedule.hpp"
#include "planning/simulate.hpp"

namespace stagecraft {

/// Per stage, one pace per entry of its list: the latest start that keeps the makespan of `planned` with the list's
/// order on every device, or, where a link has a service time and a late message would hold up others, the planned
/// start itself. `planned` is a replay of the schedule on the problem that did not hang.
std::vector<std::vector<Pace>> paces_of(const PipelineProblem& problem, const Schedule& schedule,
                                        const SimulationResult& planned);

/// The stages of a problem, following the schedule within the problem's caps. Where the list itself needs more than a
/// cap the cap is raised to that: following never needs more than its list.
std::vector<StagePlan> follow_plans(const PipelineProblem& problem, const Schedule& schedule,
                                    const SimulationResult& planned);

}  // namespace stagecraft
