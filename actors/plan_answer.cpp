#include "actors/plan_answer.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "actors/messages.hpp"

namespace stagecraft {

namespace {

// A stage that chooses at run time has no list; the forecast says what it would choose.
std::vector<Operator> operators_of(const PipelinePlan& plan, std::uint32_t stage) {
  if (!plan.stages[stage].order.empty()) return plan.stages[stage].order;
  std::vector<Operator> forecast;
  for (const TimedOperator& t : plan.forecast.timeline)
    if (t.place.stage.value == stage && !t.overhead) forecast.push_back(t.op);
  return forecast;
}

std::string held_text(const PipelinePlan& plan, std::uint32_t stage) {
  if (stage >= plan.forecast.peaks.size()) return {};
  const StagePeaks& peaks = plan.forecast.peaks[stage];
  return fmt::format("holds at most {} activations, {} pending weight gradients: ", peaks.activations,
                     peaks.pending_weights);
}

}  // namespace

WishAnswer plan_answer(WishId wish, const Job& job, const std::vector<PipelinePlan>& plans) {
  WishAnswer answer;
  answer.wish = wish;
  const PipelineSpec& pipeline = job.topology.pipeline;
  const Dispatch dispatch = plans.front().stages.front().dispatch;
  answer.text = fmt::format("schedule {}{}, dispatch {}, {} micro-batches in flight on a link at most",
                            name_of(pipeline.schedule),
                            plans.front().made_by.empty() ? "" : fmt::format(" (made by {})", plans.front().made_by),
                            name_of(dispatch), plans.front().credits);
  if (job.plan.knows_times)
    answer.text += fmt::format("; forecast {} an iteration", format(plans.front().forecast.makespan));
  for (std::uint32_t r = 0; r < plans.size(); ++r)
    for (std::uint32_t s = 0; s < plans[r].stages.size(); ++s) {
      std::string list;
      for (const Operator& op : operators_of(plans[r], s)) list += (list.empty() ? "" : " ") + to_text(op);
      answer.rows.push_back(
          {.who = to_text(Member{.place = {{s}, {r}}}), .what = held_text(plans[r], s) + std::move(list)});
    }
  return answer;
}

}  // namespace stagecraft
