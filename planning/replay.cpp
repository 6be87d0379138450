#include "planning/replay.hpp"

#include <algorithm>

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

SimulationResult replay(const PipelineProblem& problem, const Schedule& schedule) {
  const PipelineShape& shape = problem.shape;
  STAGECRAFT_ASSERT(schedule.operators.size() == shape.stages, "a schedule of {} stages for a pipeline of {}",
                    schedule.operators.size(), shape.stages);
  SimulationInput input;
  input.shape = shape;
  input.plans = bare_plans(shape);
  for (std::uint32_t s = 0; s < shape.stages; ++s) {
    input.plans[s].dispatch = Dispatch::in_order;
    input.plans[s].order = schedule.operators[s];
  }
  input.times = problem.times;
  input.forward_links = problem.forward_links;
  input.backward_links = problem.backward_links;
  input.boundary = problem.boundary;
  input.credits = std::max(shape.micro_batches, 1U);
  return simulate(input);
}

}  // namespace stagecraft
