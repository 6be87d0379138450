// A schedule played on a problem: every stage runs its list in order, whatever happens. Pure; any thread.
#pragma once

#include "planning/problem.hpp"
#include "planning/schedule.hpp"
#include "planning/simulate.hpp"

namespace stagecraft {

/// One plan per stage of the shape, without list and caps.
std::vector<StagePlan> bare_plans(const PipelineShape& shape);

/// The problem with these plans, and with credits that nobody can use up.
SimulationInput simulation_of(const PipelineProblem& problem, std::vector<StagePlan> plans);

/// The static order on the problem's operators and links, with credits that nobody can use up. Caps are not looked at:
/// the result has the peaks. `hung` where the order can't proceed.
SimulationResult replay(const PipelineProblem& problem, const Schedule& schedule);

}  // namespace stagecraft
