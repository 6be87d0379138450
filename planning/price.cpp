#include "planning/price.hpp"

#include <algorithm>

#include "planning/delay.hpp"
#include "planning/forecast.hpp"

namespace stagecraft {

namespace {

std::vector<StagePrice> stage_prices(const PipelineShape& shape, const SimulationResult& result) {
  std::vector<StagePrice> prices(shape.stages);
  std::vector<bool> turned(shape.stages, false);
  for (std::size_t s = 0; s < prices.size(); ++s) {
    prices[s].peaks = result.peaks[s];
    if (!result.peak_bytes.empty()) prices[s].peak_bytes = result.peak_bytes[s];
  }
  for (const TimedOperator& timed : result.timeline) {
    const std::uint32_t s = timed.place.stage.value;
    StagePrice& price = prices[s];
    if (price.busy == Duration{}) price.first_start = timed.start;
    price.busy += timed.end - timed.start;
    price.last_end = std::max(price.last_end, timed.end);
    if (timed.op.kind != OperatorKind::forward) turned[s] = true;
    if (!turned[s]) ++price.warmup;
  }
  return prices;
}

// Whether the weight gradients of a list run right after their backwards, with them, or when there is time.
WeightWork weight_work(const std::vector<StagePrice>& stages, const SimulationResult& result) {
  for (const TimedOperator& timed : result.timeline)
    if (timed.op.kind == OperatorKind::backward) return WeightWork::fused;
  for (const StagePrice& stage : stages)
    if (stage.peaks.pending_weights > 1) return WeightWork::deferred;
  return WeightWork::in_place;
}

Duration latency(const std::vector<LinkCost>& links, std::uint32_t boundary) {
  return links.empty() ? Duration{} : links[boundary].latency;
}

void add_budgets(const PlanRequest& real, PricedPlan& priced) {
  const PipelineShape& shape = real.shape;
  AlternatingPipeline pipeline;
  pipeline.times = real.times;
  pipeline.micro_batches = shape.micro_batches;
  pipeline.weights = weight_work(priced.stages, priced.result);
  for (const StagePrice& stage : priced.stages) pipeline.warmup.push_back(stage.warmup);
  for (std::uint32_t b = 0; b + 1 < shape.stages; ++b) {
    pipeline.down.push_back(latency(real.forward_links, b));
    pipeline.up.push_back(latency(real.backward_links, b));
    priced.links[b].slack = std::int64_t{priced.stages[b].warmup} - priced.stages[b + 1].warmup;
  }
  if (shape.micro_batches == 0 || check_warmup(pipeline)) return;
  priced.has_budgets = true;
  const DelayAnalysis analysis = analyse_delay(pipeline);
  for (std::size_t b = 0; b < analysis.links.size(); ++b) {
    if (analysis.links[b].budget) priced.links[b].budget = *analysis.links[b].budget / 2;
    priced.links[b].published = analysis.links[b].published_budget / 2;
  }
}

bool is_fused(const SimulationResult& result) {
  return std::any_of(result.timeline.begin(), result.timeline.end(),
                     [](const TimedOperator& timed) { return timed.op.kind == OperatorKind::backward; });
}

}  // namespace

PricedPlan price(const PlanRequest& assumed, const PlanRequest& real) {
  PricedPlan priced;
  priced.plan = make_plan(assumed);
  priced.result = forecast(real, priced.plan.stages, priced.plan.credits);
  priced.bound = lower_bound(problem_of(real), is_fused(priced.result) ? BackwardForm::fused : BackwardForm::split);
  priced.waits = explain_idle(problem_of(real), priced.plan.stages, priced.result);
  priced.stages = stage_prices(real.shape, priced.result);
  Duration busy{};
  for (const StagePrice& stage : priced.stages) busy += stage.busy;
  const double all = static_cast<double>(priced.result.makespan.count()) * real.shape.stages;
  priced.idle = all > 0 ? 1 - static_cast<double>(busy.count()) / all : 0;
  for (std::uint32_t b = 0; b + 1 < real.shape.stages; ++b)
    priced.links.push_back(
        {{b}, {b + 1}, (latency(real.forward_links, b) + latency(real.backward_links, b)) / 2, {}, {}, {}});
  if (real.shape.chunks == 1) add_budgets(real, priced);
  return priced;
}

}  // namespace stagecraft
