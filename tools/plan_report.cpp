#include "tools/plan_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "planning/timeline.hpp"
#include "tools/table.hpp"

namespace stagecraft::tools {

namespace {

using Json = nlohmann::ordered_json;

double ms(Duration d) { return static_cast<double>(d.count()) / 1e6; }

// How far above the lower bound an iteration is.
double gap(const PricedPlan& priced) {
  const double bound = ms(priced.bound.makespan);
  return bound > 0 ? ms(priced.result.makespan) / bound - 1 : 0;
}

std::string percent(double share) { return fmt::format("{:.1f} %", share * 100); }

std::string head(const PlanView& view) {
  const PricedPlan& priced = view.priced;
  std::string out = fmt::format("schedule {}, {} dispatch", view.name, name_of(view.dispatch));
  if (!priced.plan.made_by.empty()) out += fmt::format(": {}", priced.plan.made_by);
  if (view.replicas > 1) out += fmt::format("; replica 0 of {}", view.replicas);
  out += fmt::format("\n  iteration    {}\n", format(priced.result.makespan));
  if (view.differs) out += fmt::format("  as planned   {}\n", format(priced.plan.forecast.makespan));
  out += fmt::format("  lower bound  {}; gap {}\n", to_text(priced.bound), percent(gap(priced)));
  out += fmt::format("  idle         {}\n", percent(priced.idle));
  if (view.exact)
    out += view.exact->proven
               ? fmt::format("  optimum      {}, proven ({} nodes)\n", format(view.exact->makespan), view.exact->nodes)
               : fmt::format("  best found   {} after {} nodes; the optimum is at least {}\n",
                             format(view.exact->makespan), view.exact->nodes, format(view.exact->lower_bound));
  for (const std::string& note : priced.plan.notes) out += "  note: " + note + "\n";
  return out;
}

std::string stage_table(const PricedPlan& priced) {
  Table table({"stage", "warm-up", "peak F-B", "peak B-W", "peak F-W", "working memory", "busy", "bubble"});
  for (std::size_t s = 0; s < priced.stages.size(); ++s) {
    const StagePrice& stage = priced.stages[s];
    table.add({std::to_string(s), std::to_string(stage.warmup), std::to_string(stage.peaks.activations),
               std::to_string(stage.peaks.pending_weights), std::to_string(stage.peaks.held),
               stage.peak_bytes.value > 0 ? format(stage.peak_bytes) : "-", format(stage.busy),
               format(stage.last_end - stage.first_start - stage.busy)});
  }
  return table.text();
}

std::string budget_text(const PricedPlan& priced, const std::optional<Duration>& budget) {
  if (!priced.has_budgets) return "-";
  return budget ? format(*budget) : "any";
}

std::string link_table(const PricedPlan& priced) {
  if (priced.links.empty()) return "";
  Table table({"link", "latency", "slack", "budget", "published budget"});
  for (const LinkPrice& link : priced.links)
    table.add({fmt::format("{}-{}", link.from.value, link.to.value), format(link.latency),
               link.slack ? std::to_string(*link.slack) : "-", budget_text(priced, link.budget),
               priced.has_budgets && link.published ? budget_text(priced, link.published) : "-"});
  return "\n" + table.text();
}

std::string candidate_table(const PricedPlan& priced) {
  if (priced.plan.candidates.empty()) return "";
  Table table({"considered", "iteration", "within the caps"});
  std::vector<Candidate> candidates = priced.plan.candidates;
  std::stable_sort(candidates.begin(), candidates.end(), [](const Candidate& a, const Candidate& b) {
    return std::pair(!a.fits, a.makespan) < std::pair(!b.fits, b.makespan);
  });
  for (const Candidate& candidate : candidates)
    table.add({candidate.name, format(candidate.makespan), candidate.fits ? "yes" : "no"});
  return "\n" + table.text();
}

Json optional_ms(const std::optional<Duration>& d) { return d ? Json(ms(*d)) : Json(nullptr); }

Json stages_json(const PricedPlan& priced) {
  std::vector<std::vector<std::string>> operators(priced.stages.size());
  for (const TimedOperator& timed : priced.result.timeline)
    operators[timed.place.stage.value].push_back(to_text(timed.op));
  Json stages = Json::array();
  for (std::size_t s = 0; s < priced.stages.size(); ++s) {
    const StagePrice& stage = priced.stages[s];
    stages.push_back({{"stage", s},
                      {"warmup", stage.warmup},
                      {"peak_activations", stage.peaks.activations},
                      {"peak_pending_w", stage.peaks.pending_weights},
                      {"peak_held", stage.peaks.held},
                      {"peak_bytes", stage.peak_bytes.value},
                      {"busy_ms", ms(stage.busy)},
                      {"bubble_ms", ms(stage.last_end - stage.first_start - stage.busy)},
                      {"operators", fmt::format("{}", fmt::join(operators[s], " "))}});
  }
  return stages;
}

Json links_json(const PricedPlan& priced) {
  Json links = Json::array();
  for (const LinkPrice& link : priced.links)
    links.push_back({{"from", link.from.value},
                     {"to", link.to.value},
                     {"latency_ms", ms(link.latency)},
                     {"slack", link.slack ? Json(*link.slack) : Json(nullptr)},
                     {"budget_ms", optional_ms(link.budget)},
                     {"any_delay_is_harmless", priced.has_budgets && !link.budget},
                     {"published_budget_ms", optional_ms(link.published)}});
  return links;
}

Json view_json(const PlanView& view) {
  const PricedPlan& priced = view.priced;
  Json j;
  j["schedule"] = view.name;
  j["dispatch"] = name_of(view.dispatch);
  j["replicas"] = view.replicas;
  j["made_by"] = priced.plan.made_by;
  j["iteration_ms"] = ms(priced.result.makespan);
  j["planned_ms"] = ms(priced.plan.forecast.makespan);
  j["lower_bound_ms"] = ms(priced.bound.makespan);
  j["gap"] = gap(priced);
  j["idle_fraction"] = priced.idle;
  if (view.exact)
    j["exact"] = {{"optimum_ms", ms(view.exact->makespan)},
                  {"proven", view.exact->proven},
                  {"lower_bound_ms", ms(view.exact->lower_bound)},
                  {"nodes", view.exact->nodes}};
  j["credits"] = priced.plan.credits;
  j["notes"] = priced.plan.notes;
  j["stages"] = stages_json(priced);
  j["waits"] = Json::array();
  for (const IdleGap& wait : priced.waits.gaps)
    j["waits"].push_back({{"stage", wait.stage.value},
                          {"from_ms", ms(wait.begin)},
                          {"to_ms", ms(wait.end)},
                          {"reason", name_of(wait.reason)},
                          {"text", to_text(view.shape, wait)}});
  j["links"] = links_json(priced);
  j["candidates"] = Json::array();
  for (const Candidate& candidate : priced.plan.candidates)
    j["candidates"].push_back(
        {{"name", candidate.name}, {"iteration_ms", ms(candidate.makespan)}, {"fits", candidate.fits}});
  return j;
}

// The row of one plan: peaks of the stage that holds most.
std::vector<std::string> comparison_row(const PlanView& view, std::string_view mark) {
  StagePeaks most;
  Bytes bytes;
  for (const StagePrice& stage : view.priced.stages) {
    most.activations = std::max(most.activations, stage.peaks.activations);
    most.pending_weights = std::max(most.pending_weights, stage.peaks.pending_weights);
    most.held = std::max(most.held, stage.peaks.held);
    bytes = std::max(bytes, stage.peak_bytes);
  }
  return {fmt::format("{}{}", view.name, mark),
          std::string(name_of(view.dispatch)),
          format(view.priced.result.makespan),
          percent(gap(view.priced)),
          percent(view.priced.idle),
          std::to_string(most.activations),
          std::to_string(most.pending_weights),
          std::to_string(most.held),
          bytes.value > 0 ? format(bytes) : "-"};
}

}  // namespace

std::string plan_text(const PlanView& view, std::size_t width) {
  return head(view) + "\n" + stage_table(view.priced) + link_table(view.priced) + "\n" +
         draw_timeline(view.priced.result.timeline, width) + "\nwhat idle stages waited for\n" +
         to_text(view.priced.waits) + candidate_table(view.priced);
}

std::string comparison_text(const PlanView& view, const std::vector<ComparedPlan>& compared) {
  Table table({"schedule", "dispatch", "iteration", "gap", "idle", "peak F-B", "peak B-W", "peak F-W", "memory"});
  table.add(comparison_row(view, " (above)"));
  std::string reasons;
  for (const ComparedPlan& other : compared) {
    if (other.view) {
      table.add(comparison_row(*other.view, ""));
      continue;
    }
    table.add({other.name, "-", "can't run", "-", "-", "-", "-", "-", "-"});
    for (const std::string& problem : other.problems) reasons += fmt::format("  {}: {}\n", other.name, problem);
  }
  return "\n" + table.text() + reasons;
}

std::string plan_json(const PlanView& view, const std::vector<ComparedPlan>& compared) {
  Json j = view_json(view);
  if (!compared.empty()) {
    j["compared"] = Json::array();
    for (const ComparedPlan& other : compared)
      j["compared"].push_back(other.view ? view_json(*other.view)
                                         : Json{{"schedule", other.name}, {"problems", other.problems}});
  }
  return j.dump();
}

}  // namespace stagecraft::tools
