// The planner: of every schedule it knows, and of those it searches for, the one that ends first. Pure; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "planning/bound.hpp"
#include "planning/feasible.hpp"
#include "planning/problem.hpp"
#include "planning/schedule.hpp"
#include "planning/simulate.hpp"

namespace stagecraft {

/// How long to look. `quick`: the best closed form that keeps the caps, played once. `full`: the published schedules,
/// greedy runs under many warm-ups and priorities, a beam search and what following them gives.
enum class Effort : std::uint8_t { quick, full };

/// One schedule that was considered.
struct Candidate {
  std::string name;
  Duration makespan{};  ///< of its replay on the problem
  bool fits = false;    ///< keeps the caps
};

struct PlannedPipeline {
  std::string name;  ///< of the candidate that won
  Schedule schedule;
  SimulationResult forecast;  ///< its replay on the problem
  LowerBound bound;
  std::vector<Candidate> candidates;  ///< every one, in the order in which they were tried
};

/// The best schedule for a problem within its caps: never longer than any published one that keeps them. Split
/// backward; one chunk per stage, or two in a V. The schedule's order of W is that of the micro-batches. Gives the
/// first cap that no schedule can keep, if there is one.
std::variant<PlannedPipeline, ImpossibleCap> plan_pipeline(const PipelineProblem& problem, Effort effort);

}  // namespace stagecraft
