// stagecraft trace summary: what a trace says of each stage, as a table or as one object.
//
// Exit codes: 0 done; 2 the file is no trace of ours.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "tools/commands.hpp"
#include "tools/output.hpp"
#include "tools/table.hpp"
#include "tools/trace_file.hpp"

namespace stagecraft::tools {

namespace {

using TraceJson = nlohmann::ordered_json;

std::string in_ms(double ms) { return fmt::format("{:.2f}", ms); }
std::string in_percent(double share) { return fmt::format("{:.1f} %", 100 * share); }

bool has_replicas(const TraceSummary& summary) {
  return std::any_of(summary.stages.begin(), summary.stages.end(),
                     [](const StageShare& s) { return s.place.replica.value > 0; });
}

// In a plan an arrow ends where the operator starts that takes the tensor: it says nothing of the way.
bool is_plan(const TraceContent& trace) {
  return std::none_of(trace.ran.begin(), trace.ran.end(), [](const auto& ran) { return ran.iteration.has_value(); });
}

std::string name_of_stage(const StageShare& stage, bool replicas) {
  std::string name = fmt::format("stage {}", stage.place.stage.value);
  if (replicas) name += fmt::format(", replica {}", stage.place.replica.value);
  return name;
}

std::string table_of_stages(const TraceSummary& summary, bool planned) {
  const bool replicas = has_replicas(summary);
  const bool both = std::any_of(summary.stages.begin(), summary.stages.end(),
                                [](const StageShare& s) { return s.backward_and_weight > 0; });
  std::vector<std::string> head{"",        "F ms",         "B ms",      "W ms",    "other ms", "operators",
                                "tensors", "under way ms", "waited ms", "idle ms", "bubble"};
  if (both) head.insert(head.begin() + 4, "B+W ms");
  Table table(head);
  for (const StageShare& s : summary.stages) {
    std::vector<std::string> row{name_of_stage(s, replicas),
                                 in_ms(s.forward),
                                 in_ms(s.backward),
                                 in_ms(s.weight),
                                 in_ms(s.other()),
                                 std::to_string(s.operators),
                                 std::to_string(s.tensors),
                                 planned ? "-" : in_ms(s.under_way),
                                 planned ? "-" : in_ms(s.waited),
                                 in_ms(s.idle),
                                 in_percent(summary.bubble(s))};
    if (both) row.insert(row.begin() + 4, in_ms(s.backward_and_weight));
    table.add(std::move(row));
  }
  return table.text();
}

// "initialise 12.3 ms, step 4.56 ms", over all stages.
std::string services_text(const TraceSummary& summary) {
  std::map<std::string, double> all;
  for (const StageShare& s : summary.stages)
    for (const auto& [name, ms] : s.services) all[name] += ms;
  std::vector<std::string> texts;
  for (const auto& [name, ms] : all) texts.push_back(fmt::format("{} {} ms", name, in_ms(ms)));
  return texts.empty() ? "none" : fmt::format("{}", fmt::join(texts, ", "));
}

std::string text_of_trace(const TraceContent& trace, const TraceOptions& options) {
  const TraceSummary all = summarise(trace);
  const bool planned = is_plan(trace);
  std::string out = fmt::format("{}: {} ms from the first start to the last end, bubble {} over all stages\n\n",
                                options.file, in_ms(all.span), in_percent(all.bubble())) +
                    table_of_stages(all, planned) + fmt::format("\nother: {}\n", services_text(all));
  out += planned
             ? "a plan: it does not say when tensors arrive\n"
             : "under way: a tensor was on its way to the stage, from where it left the other one until it arrived; "
               "waited: and the stage was idle\n";
  out += "bubble: idle share of the whole span, whatever it was idle for\n";
  if (const std::uint64_t loose = loose_ends(trace); loose > 0)
    out += fmt::format("{} tensors were sent or arrived outside of what the trace holds, and are left out\n", loose);
  if (!options.iterations) return out;
  for (const auto& [iteration, summary] : summarise_iterations(trace))
    out += fmt::format("\niteration {}: {} ms, bubble {}\n", iteration.value, in_ms(summary.span),
                       in_percent(summary.bubble())) +
           table_of_stages(summary, planned);
  return out;
}

TraceJson json_of(const StageShare& s, const TraceSummary& summary, bool planned) {
  TraceJson j{{"stage", s.place.stage.value}, {"replica", s.place.replica.value},
              {"forward_ms", s.forward},      {"backward_ms", s.backward},
              {"weight_ms", s.weight},        {"backward_and_weight_ms", s.backward_and_weight},
              {"other_ms", s.other()},        {"others", TraceJson::object()},
              {"operators", s.operators},     {"tensors", s.tensors}};
  for (const auto& [name, ms] : s.services) j["others"][name] = ms;
  j["under_way_ms"] = planned ? TraceJson() : TraceJson(s.under_way);
  j["waited_ms"] = planned ? TraceJson() : TraceJson(s.waited);
  j["busy_ms"] = summary.span - s.idle;
  j["idle_ms"] = s.idle;
  j["bubble"] = summary.bubble(s);
  return j;
}

TraceJson json_of(const TraceSummary& summary, bool planned) {
  TraceJson j{{"span_ms", summary.span}, {"bubble", summary.bubble()}, {"stages", TraceJson::array()}};
  for (const StageShare& s : summary.stages) j["stages"].push_back(json_of(s, summary, planned));
  return j;
}

TraceJson json_of(const TraceContent& trace, const TraceOptions& options) {
  const bool planned = is_plan(trace);
  TraceJson j{{"file", options.file}, {"planned", planned}, {"loose_ends", loose_ends(trace)}};
  j.update(json_of(summarise(trace), planned));
  if (!options.iterations) return j;
  j["iterations"] = TraceJson::array();
  for (const auto& [iteration, summary] : summarise_iterations(trace)) {
    TraceJson one{{"iteration", iteration.value}};
    one.update(json_of(summary, planned));
    j["iterations"].push_back(std::move(one));
  }
  return j;
}

}  // namespace

int trace_summary_command(const TraceOptions& options) {
  const auto trace = read_trace(options.file);
  if (const auto* no = std::get_if<NoTrace>(&trace)) {
    complain("{}\n", no->why);
    return bad_input;
  }
  const auto& content = std::get<TraceContent>(trace);
  if (options.json)
    say("{}\n", json_of(content, options).dump(-1, ' ', false, TraceJson::error_handler_t::replace));
  else
    say("{}", text_of_trace(content, options));
  return done;
}

}  // namespace stagecraft::tools
