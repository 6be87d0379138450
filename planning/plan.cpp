#include "planning/plan.hpp"

#include <algorithm>

#include "planning/bug.hpp"
#include "planning/follow.hpp"
#include "planning/forecast.hpp"
#include "planning/planner.hpp"
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

// The schedule is a formula of warm-ups, which may be such that the order can't proceed.
bool is_formula(ScheduleKind kind) {
  return is_fused(kind) || kind == ScheduleKind::zb_h1 || kind == ScheduleKind::zb_h2;
}

// A list, what it does on its own, and how it was found.
struct List {
  Schedule schedule;
  SimulationResult replay;
  std::string made_by;
  std::vector<Candidate> candidates;
};

List planned_list(const PipelineProblem& problem) {
  auto outcome = plan_pipeline(problem, Effort::full);
  const auto* impossible = std::get_if<ImpossibleCap>(&outcome);
  STAGECRAFT_ASSERT(!impossible, "a request asks for the impossible: {}", to_text(*impossible));
  auto& plan = std::get<PlannedPipeline>(outcome);
  return {std::move(plan.schedule), std::move(plan.forecast), std::move(plan.name), std::move(plan.candidates)};
}

// The list of the request. Warm-ups of a formula are raised until its order runs.
List runnable_list(const PlanRequest& request, const PipelineProblem& problem, std::vector<std::uint32_t>& warmup) {
  if (!request.list && request.schedule == ScheduleKind::planned) return planned_list(problem);
  const std::uint32_t all = problem.shape.micro_batches * problem.shape.chunks;
  for (std::uint32_t raised = 0;; ++raised) {
    Schedule schedule = request.list ? *request.list : generate(request.schedule, problem, {warmup, false});
    SimulationResult result = replay(problem, schedule);
    if (!result.hung) return {std::move(schedule), std::move(result), {}, {}};
    STAGECRAFT_ASSERT(raised < all && !request.list && is_formula(request.schedule),
                      "no warm-up makes the {} order run: {}", name_of(request.schedule),
                      fmt::join(result.blocked, "; "));
    for (std::uint32_t& w : warmup) w = std::min(w + 1, all);
  }
}

// Per stage, forwards before the first backward.
std::vector<std::uint32_t> warmup_of(const Schedule& schedule) {
  std::vector<std::uint32_t> warmup;
  for (const auto& order : schedule.operators) {
    const auto first =
        std::find_if(order.begin(), order.end(), [](const Operator& op) { return op.kind != OperatorKind::forward; });
    warmup.push_back(std::max(static_cast<std::uint32_t>(first - order.begin()), 1U));
  }
  return warmup;
}

// Reactive stages hold at most what the list would. The fused schedules run W right after B: one place for each chunk.
std::vector<StagePlan> reactive_plans(const PlanRequest& request, const std::optional<List>& list,
                                      const std::vector<std::uint32_t>& warmup) {
  const std::uint32_t chunks = request.shape.chunks;
  std::vector<StagePlan> plans = bare_plans(request.shape);
  for (std::size_t s = 0; s < plans.size(); ++s) {
    const StagePeaks own = list ? list->replay.peaks[s] : StagePeaks{warmup[s], chunks, warmup[s]};
    StageCaps& caps = plans[s].caps;
    plans[s].dispatch = Dispatch::reactive;
    caps.activations = std::max(own.activations, chunks);
    caps.held = cap(request.activations, std::max(own.held, chunks));
    caps.pending_weights = cap(request.pending_weights, std::max(own.pending_weights, chunks));
  }
  return plans;
}

std::vector<StagePlan> static_plans(const PipelineShape& shape, const List& list) {
  std::vector<StagePlan> plans = bare_plans(shape);
  for (std::size_t s = 0; s < plans.size(); ++s) {
    plans[s].dispatch = Dispatch::in_order;
    plans[s].order = list.schedule.operators[s];
  }
  return plans;
}

// Caps of 0 are raised to what the list itself holds.
std::vector<StagePlan> following_plans(const PlanRequest& request, PipelineProblem problem, const List& list) {
  StageCaps caps;
  caps.held = cap(request.activations, 0);
  if (request.activations.kind == CapSpec::Kind::automatic) caps.activations = 0;
  caps.pending_weights = cap(request.pending_weights, 0);
  problem.caps.assign(problem.shape.stages, caps);
  if (!request.limits.empty()) problem.caps = request.limits;
  return follow_plans(problem, list.schedule, list.replay);
}

std::vector<StagePlan> stage_plans(const PlanRequest& request, const PipelineProblem& problem,
                                   const std::optional<List>& list, const std::vector<std::uint32_t>& warmup) {
  switch (request.dispatch) {
    case Dispatch::in_order:
      return static_plans(request.shape, *list);
    case Dispatch::follow:
      return following_plans(request, problem, *list);
    case Dispatch::reactive:
      break;
  }
  return reactive_plans(request, list, warmup);
}

// A list that was made without looking at the caps may need more than they say.
void note_raised_caps(const PlanRequest& request, PipelinePlan& plan) {
  if (request.dispatch != Dispatch::follow) return;
  const auto note = [&](const CapSpec& asked, std::string_view name, std::optional<std::uint32_t> StageCaps::*member) {
    if (asked.kind != CapSpec::Kind::fixed) return;
    std::uint32_t most = asked.value;
    for (const StagePlan& stage : plan.stages) most = std::max(most, (stage.caps.*member).value_or(0));
    if (most > asked.value)
      plan.notes.push_back(
          fmt::format("caps.{} is {}, but the {} list needs up to {} and gets them; zb-auto and planned "
                      "make a list within the caps",
                      name, asked.value, name_of(request.schedule), most));
  };
  note(request.activations, "activations", &StageCaps::held);
  note(request.pending_weights, "pending_weights", &StageCaps::pending_weights);
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

PipelineProblem problem_of(const PlanRequest& request) {
  PipelineProblem problem;
  problem.shape = request.shape;
  problem.times = request.times;
  problem.forward_links = request.forward_links;
  problem.backward_links = request.backward_links;
  for (std::size_t c = 1; c < request.bytes.size(); ++c) problem.boundary.push_back(request.bytes[c].input);
  StageCaps caps;
  caps.held = cap(request.activations, std::nullopt);
  caps.pending_weights = cap(request.pending_weights, std::nullopt);
  problem.caps.assign(request.shape.stages, caps);
  const auto lower = [](std::optional<std::uint32_t>& cap, const std::optional<std::uint32_t>& limit) {
    if (limit) cap = std::min(cap.value_or(*limit), *limit);
  };
  for (std::size_t s = 0; s < request.limits.size(); ++s) {
    lower(problem.caps[s].activations, request.limits[s].activations);
    lower(problem.caps[s].pending_weights, request.limits[s].pending_weights);
    lower(problem.caps[s].held, request.limits[s].held);
  }
  return problem;
}

PipelinePlan make_plan(const PlanRequest& request) {
  const PipelineProblem problem = problem_of(request);
  PipelinePlan plan;
  plan.times = request.times;
  plan.warmup = request.warmup;
  if (plan.warmup.empty() && is_formula(request.schedule))
    plan.warmup = natural_warmup(request.schedule, request.shape);
  const std::vector<std::uint32_t> wanted = plan.warmup;
  // Sends never block, so what hangs is the order, with any credits; those are counted for the order that runs.
  std::optional<List> list;
  if (request.list || request.dispatch != Dispatch::reactive || !is_fused(request.schedule))
    list = runnable_list(request, problem, plan.warmup);
  plan.stages = stage_plans(request, problem, list, plan.warmup);
  if (request.list || !is_formula(request.schedule)) plan.warmup = warmup_of(list->schedule);
  plan.credits_needed = credits_needed(request, plan.stages);
  plan.credits = request.credits.value_or(plan.credits_needed);
  plan.forecast = forecast(request, plan.stages, plan.credits);
  STAGECRAFT_ASSERT(!plan.forecast.hung, "the {} {} plan hangs: {}", name_of(request.dispatch),
                    name_of(request.schedule), fmt::join(plan.forecast.blocked, "; "));
  if (!wanted.empty() && plan.warmup != wanted)
    plan.notes.push_back(fmt::format("the {} {} order can't proceed with warm-ups [{}]; they are {} to [{}]",
                                     name_of(request.dispatch), name_of(request.schedule), fmt::join(wanted, ", "),
                                     is_formula(request.schedule) ? "raised" : "changed",
                                     fmt::join(plan.warmup, ", ")));
  note_raised_caps(request, plan);
  if (list) {
    plan.schedule = std::move(list->schedule);
    plan.made_by = std::move(list->made_by);
    plan.candidates = std::move(list->candidates);
  }
  if (plan.credits < plan.credits_needed)
    plan.notes.push_back(fmt::format("{} credits per link direction, the plan needs {} to never wait for a slot",
                                     plan.credits, plan.credits_needed));
  return plan;
}

}  // namespace stagecraft
