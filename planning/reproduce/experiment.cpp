#include "planning/reproduce/experiment.hpp"

#include <algorithm>
#include <chrono>
#include <tuple>
#include <utility>
#include <variant>

#include "planning/bug.hpp"
#include "planning/follow.hpp"
#include "planning/generate.hpp"
#include "planning/generate/greedy.hpp"
#include "planning/generate/pipemorph.hpp"
#include "planning/planner.hpp"
#include "planning/replay.hpp"
#include "planning/warmup.hpp"

namespace stagecraft::reproduce {

namespace {

bool is_device_ordered(System system) { return system == System::one_f_one_b || system == System::zero_bubble; }

std::uint32_t most_held(const PipelineShape& shape) { return 2 * shape.stages - 1; }

PipelineProblem healthy(const Setting& setting) {
  PipelineProblem problem;
  problem.shape = setting.shape;
  problem.times = setting.times;
  problem.caps = caps_of(setting);
  return problem;
}

std::vector<StagePlan> in_order(const PipelineProblem& problem, const Schedule& schedule) {
  std::vector<StagePlan> plans = bare_plans(problem.shape);
  for (std::size_t s = 0; s < plans.size(); ++s) {
    plans[s].dispatch = Dispatch::in_order;
    plans[s].order = schedule.operators[s];
  }
  return plans;
}

// Algorithms 1 to 4 as printed; within caps the warm-ups are clipped to them, and a full stage runs no F.
Schedule pipemorph_list(const PipelineProblem& problem) {
  if (problem.caps.empty()) return pipemorph(problem, {});
  const std::int64_t most = std::min(most_held(problem.shape), problem.shape.micro_batches);
  GreedyOptions options;
  for (const std::int64_t x : delayed_warmup(problem))
    options.warmup.push_back(static_cast<std::uint32_t>(std::clamp<std::int64_t>(x, 1, most)));
  return greedy(problem, options).schedule;
}

// The warm-ups that the cycle bound asks for: the fewest that keep the shortest period that the memory allows.
std::vector<std::uint32_t> exact_warmup(const PipelineProblem& problem) {
  WarmupRequest request;
  AlternatingPipeline& pipeline = request.pipeline;
  pipeline.times = problem.times;
  pipeline.micro_batches = problem.shape.micro_batches;
  pipeline.weights = problem.caps.empty() ? WeightWork::deferred : WeightWork::in_place;
  for (std::uint32_t b = 0; b + 1 < problem.shape.stages; ++b) {
    pipeline.down.push_back(problem.crossing(Direction::forward, b));
    pipeline.up.push_back(problem.crossing(Direction::backward, b));
  }
  for (const StageCaps& caps : problem.caps) request.memory.push_back({caps, {}, {}, {}, {}, {}});
  const WarmupOutcome outcome = fastest_warmup(request);
  STAGECRAFT_ASSERT(std::holds_alternative<WarmupPlan>(outcome), "{}", to_text(std::get<WarmupShortage>(outcome)));
  return std::get<WarmupPlan>(outcome).warmup();
}

// Stages that follow a list made for `believed`. Frugal ones never hold more than the list itself.
std::vector<StagePlan> following(PipelineProblem believed, const Schedule& schedule, bool frugal = false) {
  if (frugal) believed.caps.assign(believed.shape.stages, {1, 1, 1});  // each is raised to what the list needs
  return follow_plans(believed, schedule, replay(believed, schedule));
}

// Of the plans that are followed on the links as believed, the shortest; among equals the one that holds least.
class Choice {
 public:
  Choice(const PipelineProblem& believed, bool frugal) : believed_(believed), frugal_(frugal) {}

  void offer(std::vector<StagePlan> plans) {
    SimulationInput input = simulation_of(believed_, std::move(plans));
    const Outcome outcome = outcome_of(input);
    const auto cost = std::tuple(outcome.makespan, outcome.held, outcome.activations);
    if (!best_.plans.empty() && cost >= cost_) return;
    cost_ = cost;
    best_ = {std::move(input.plans), outcome.makespan};
  }
  void offer(const Schedule& schedule) {
    offer(following(believed_, schedule));
    if (frugal_) offer(following(believed_, schedule, true));
  }
  Played take() { return std::move(best_); }

 private:
  const PipelineProblem& believed_;
  bool frugal_;
  Played best_;
  std::tuple<Duration, std::uint32_t, std::uint32_t> cost_;
};

Played our_plan(const Setting& believed) {
  const PipelineProblem problem = links_of(believed, System::ours);
  Choice choice(problem, believed.frugal);
  const auto planned = plan_pipeline(problem, Effort::full);
  choice.offer(std::get<PlannedPipeline>(planned).schedule);
  const std::vector<std::uint32_t> warmup = exact_warmup(problem);
  for (const auto hold : {GreedyOptions::Hold::never, GreedyOptions::Hold::strict, GreedyOptions::Hold::half})
    choice.offer(greedy(problem, {GreedyOptions::Priority::backward_first, hold, true, warmup}).schedule);
  choice.offer(pipemorph_list(problem));
  choice.offer(following(healthy(believed), zero_bubble_list(believed)));  // no new plan at all
  return choice.take();
}

}  // namespace

std::uint32_t delegates_for(Duration delay) { return delay <= std::chrono::milliseconds(30) ? 3 : 6; }

std::vector<StageCaps> caps_of(const Setting& setting) {
  if (setting.memory == Memory::free) return {};
  return std::vector<StageCaps>(setting.shape.stages, StageCaps{{}, {}, most_held(setting.shape)});
}

PipelineProblem links_of(const Setting& setting, System system) {
  PipelineProblem problem = healthy(setting);
  LinkCost link;
  if (is_device_ordered(system)) link.queue = setting.admission;
  problem.forward_links.assign(setting.shape.stages - 1, link);
  for (const SlowLink& slow : setting.slow) {
    LinkCost& cost = problem.forward_links[slow.link];
    (setting.injection == Injection::latency ? cost.latency : cost.occupancy) = slow.delay;
    cost.shared = system == System::zero_bubble;
    if (!is_device_ordered(system)) cost.lanes = setting.delegates.value_or(delegates_for(slow.delay));
  }
  problem.backward_links = problem.forward_links;
  return problem;
}

Schedule zero_bubble_list(const Setting& setting) {
  const PipelineProblem problem = healthy(setting);
  if (setting.memory == Memory::equal) return generate(ScheduleKind::zb_h2, problem);
  return generate(ScheduleKind::pipemorph, problem, {natural_warmup(ScheduleKind::zb_h2, setting.shape), false});
}

Played plan_for(const Setting& believed, System system) {
  const PipelineProblem unaware = healthy(believed);
  Played played;
  switch (system) {
    case System::one_f_one_b:
      played.plans = in_order(unaware, generate(ScheduleKind::one_f_one_b, unaware));
      break;
    case System::zero_bubble:
    case System::delegated:
      played.plans = in_order(unaware, zero_bubble_list(believed));
      break;
    case System::pipemorph:
      played.plans = in_order(unaware, pipemorph_list(links_of(believed, system)));
      break;
    case System::readiness:
      played.plans = following(unaware, zero_bubble_list(believed));
      for (StagePlan& plan : played.plans) std::fill(plan.paces.begin(), plan.paces.end(), Pace{});
      break;
    case System::follow:
      played.plans = following(unaware, zero_bubble_list(believed));
      break;
    case System::ours:
    case System::hindsight:
      return our_plan(believed);
  }
  played.forecast = simulate(simulation_of(links_of(believed, system), played.plans)).makespan;
  return played;
}

Outcome outcome_of(const SimulationInput& input) {
  const SimulationResult result = simulate(input);
  STAGECRAFT_ASSERT(!result.hung, "an experiment hangs: {}", result.blocked.front());
  Outcome outcome;
  outcome.makespan = result.makespan;
  for (const StagePeaks& peaks : result.peaks) {
    outcome.activations = std::max(outcome.activations, peaks.activations);
    outcome.held = std::max(outcome.held, peaks.held);
  }
  Duration busy{};
  for (const TimedOperator& timed : result.timeline) busy += timed.end - timed.start;
  const double all = static_cast<double>(result.makespan.count()) * input.shape.stages;
  outcome.idle = all > 0 ? 1 - static_cast<double>(busy.count()) / all : 0;
  return outcome;
}

Outcome play(const Setting& setting, System system) {
  return outcome_of(simulation_of(links_of(setting, system), plan_for(setting, system).plans));
}

}  // namespace stagecraft::reproduce
