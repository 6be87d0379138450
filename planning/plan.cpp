#include "planning/plan.hpp"

#include <algorithm>

#include "planning/bug.hpp"
#include "planning/replay.hpp"

namespace stagecraft {

namespace {

std::optional<std::uint32_t> cap(const CapSpec& spec, std::optional<std::uint32_t> automatic) {
  switch (spec.kind) {
    case CapSpec::Kind::automatic:
      return automatic;
    case CapSpec::Kind::off:
      return std::nullopt;
    case CapSpec::Kind::fixed:
      return spec.value;
  }
  return std::nullopt;
}

std::vector<StagePlan> stage_plans(const PlanRequest& request, const std::vector<std::uint32_t>& warmup) {
  const PipelineShape& shape = request.shape;
  Schedule schedule;
  if (request.dispatch == Dispatch::in_order) schedule = generate(request.schedule, shape, warmup);
  std::vector<StagePlan> plans = bare_plans(shape);
  for (std::uint32_t s = 0; s < shape.stages; ++s) {
    StagePlan& plan = plans[s];
    plan.dispatch = request.dispatch;
    if (request.dispatch == Dispatch::in_order) {
      plan.order = schedule.operators[s];
    } else {
      plan.caps.activations = std::max(warmup[s], shape.chunks);
      plan.caps.held = cap(request.activations, plan.caps.activations);
      // The named schedules run W right after B: one place for each chunk.
      plan.caps.pending_weights = cap(request.pending_weights, shape.chunks);
    }
  }
  return plans;
}

SimulationResult forecast(const PlanRequest& request, const std::vector<StagePlan>& plans, std::uint32_t credits) {
  SimulationInput input;
  input.shape = request.shape;
  input.plans = plans;
  input.times = request.times;
  input.forward_links = request.forward_links;
  input.backward_links = request.backward_links;
  input.bytes = request.bytes;
  input.buffers = request.buffers;
  input.credits = credits;
  return simulate(input);
}

// Few credits (at least 2, so that one tensor can travel while another waits) that cost no time: the fewest, unless
// more than a handful beyond the slots that are ever full at once is needed.
std::uint32_t credits_needed(const PlanRequest& request, const std::vector<StagePlan>& plans) {
  const std::uint32_t enough = std::max(request.shape.micro_batches, 1U);
  const SimulationResult free_run = forecast(request, plans, enough);
  std::uint32_t credits = std::clamp(free_run.slots_used, std::min(2U, enough), enough);
  for (std::uint32_t tries = 0; credits < enough; ++tries) {
    const SimulationResult run = forecast(request, plans, credits);
    if (!run.hung && run.makespan <= free_run.makespan) break;
    credits = std::min(enough, tries < 4 ? credits + 1 : 2 * credits);
  }
  return credits;
}

}  // namespace

PipelinePlan make_plan(const PlanRequest& request) {
  const PipelineShape& shape = request.shape;
  PipelinePlan plan;
  plan.warmup = request.warmup.empty() ? natural_warmup(request.schedule, shape) : request.warmup;
  plan.stages = stage_plans(request, plan.warmup);
  // Sends never block, so what hangs here is the order, with any credits; those are counted for the order that runs.
  const std::vector<std::uint32_t> wanted = plan.warmup;
  const std::uint32_t all = shape.micro_batches * shape.chunks;
  const std::uint32_t enough = request.credits.value_or(std::max(shape.micro_batches, 1U));
  for (std::uint32_t raised = 0; raised < all && forecast(request, plan.stages, enough).hung; ++raised) {
    for (std::uint32_t& w : plan.warmup) w = std::min(w + 1, all);
    plan.stages = stage_plans(request, plan.warmup);
  }
  plan.credits_needed = credits_needed(request, plan.stages);
  plan.credits = request.credits.value_or(plan.credits_needed);
  plan.forecast = forecast(request, plan.stages, plan.credits);
  STAGECRAFT_ASSERT(!plan.forecast.hung, "no warm-up makes the {} order run: {}", name_of(request.schedule),
                    fmt::join(plan.forecast.blocked, "; "));
  if (plan.warmup != wanted)
    plan.notes.push_back(fmt::format("the static {} order can't proceed with warm-ups [{}]; they are raised to [{}]",
                                     name_of(request.schedule), fmt::join(wanted, ", "), fmt::join(plan.warmup, ", ")));
  if (plan.credits < plan.credits_needed)
    plan.notes.push_back(fmt::format("{} credits per link direction, the plan needs {} to never wait for a slot",
                                     plan.credits, plan.credits_needed));
  return plan;
}

}  // namespace stagecraft
