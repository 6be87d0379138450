#include "planning/replay.hpp"

#include <algorithm>
#include <utility>

#include "planning/bug.hpp"

namespace stagecraft {

std::vector<StagePlan> bare_plans(const PipelineShape& shape) {
  std::vector<StagePlan> plans(shape.stages);
  for (std::uint32_t s = 0; s < shape.stages; ++s) {
    StagePlan& plan = plans[s];
    for (std::uint32_t c = 0; c < shape.chunks; ++c) plan.chunks.push_back(shape.chunk_of(StageId{s}, c));
    plan.first = shape.first;
    plan.micro_batches = shape.micro_batches;
    plan.starts_model = plan.chunks.front().value == 0;
    plan.ends_model = plan.chunks.back().value + 1 == shape.total_chunks();
  }
  return plans;
}

SimulationInput simulation_of(const PipelineProblem& problem, std::vector<StagePlan> plans) {
  SimulationInput input;
  input.shape = problem.shape;
  input.plans = std::move(plans);
  input.times = problem.times;
  input.forward_links = problem.forward_links;
  input.backward_links = problem.backward_links;
  input.boundary = problem.boundary;
  input.credits = std::max(problem.shape.micro_batches, 1U);
  return input;
}

SimulationResult replay(const PipelineProblem& problem, const Schedule& schedule) {
  STAGECRAFT_ASSERT(schedule.operators.size() == problem.shape.stages, "a schedule of {} stages for a pipeline of {}",
                    schedule.operators.size(), problem.shape.stages);
  std::vector<StagePlan> plans = bare_plans(problem.shape);
  for (std::size_t s = 0; s < plans.size(); ++s) {
    plans[s].dispatch = Dispatch::in_order;
    plans[s].order = schedule.operators[s];
  }
  return simulate(simulation_of(problem, std::move(plans)));
}

}  // namespace stagecraft
