#include "tools/scenario_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "tools/commands.hpp"

namespace stagecraft::tools {

namespace {

using Json = nlohmann::ordered_json;

std::string place_of(const Scenario& scenario, const Broken& broken) {
  if (broken.at.line == 0 || scenario.file.empty()) return {};
  return fmt::format("{}:{}:{}: ", scenario.file, broken.at.line, broken.at.column);
}

// Faults with a moment of their own that it never came to: a scenario that passes because nothing happened is no use.
std::vector<std::string> never_struck(const Scenario& scenario, const ScenarioRecord& record) {
  std::vector<std::string> ids;
  for (std::size_t i = 0; i < scenario.faults.size(); ++i)
    if (std::none_of(record.moments.begin(), record.moments.end(), [i](const FaultMoment& m) { return m.fault == i; }))
      ids.push_back(scenario.faults[i].id);
  return ids;
}

std::string figures_text(const Scenario& scenario, const ScenarioRecord& record) {
  const auto struck =
      std::count_if(record.moments.begin(), record.moments.end(), [](const FaultMoment& m) { return m.on; });
  const RunResult& r = record.result;
  const std::vector<std::string> missed = never_struck(scenario, record);
  return fmt::format("{} iterations in {}, faults struck: {}, losses: {}, begun again: {}{}{}", r.iterations.size(),
                     format(r.elapsed), struck, r.losses, r.begun_again,
                     missed.empty() ? "" : "; never struck: ", fmt::join(missed, ", "));
}

}  // namespace

std::string verdict_text(const Scenario& scenario, const ScenarioRecord& record, const std::vector<Broken>& broken,
                         const std::string& replay) {
  if (broken.empty()) return fmt::format("  seed {}: as expected; {}\n", record.seed, figures_text(scenario, record));
  std::string out = fmt::format("  seed {}: NOT as expected; {}\n", record.seed, figures_text(scenario, record));
  for (const Broken& b : broken) out += fmt::format("    {}{}: {}\n", place_of(scenario, b), b.what, b.text);
  return out + fmt::format("  the last events:\n{}  to see it again: {}\n", record.last_events, replay);
}

std::string verdict_json(const std::string& file, const Scenario& scenario, const ScenarioRecord& record,
                         const std::vector<Broken>& broken, const std::string& replay) {
  const RunResult& r = record.result;
  Json j;
  j["file"] = file;
  j["name"] = scenario.name;
  j["seed"] = record.seed;
  j["ok"] = broken.empty();
  j["iterations"] = r.iterations.size();
  j["elapsed_s"] = std::chrono::duration<double>(r.elapsed).count();
  j["losses"] = r.losses;
  j["begun_again"] = r.begun_again;
  j["weights_sha256"] = r.weights_sha256;
  j["event_hash"] = fmt::format("{:016x}", r.event_hash);
  j["faults"] = Json::array();
  for (const FaultMoment& m : record.moments)
    j["faults"].push_back({{"id", scenario.faults[m.fault].id},
                           {"on", m.on},
                           {"at_s", std::chrono::duration<double>(m.at).count()},
                           {"iteration", m.iteration.value}});
  j["never_struck"] = never_struck(scenario, record);
  j["broken"] = Json::array();
  for (const Broken& b : broken) {
    Json one = {{"what", b.what}, {"text", b.text}};
    if (b.at.line > 0) one.update(Json{{"line", b.at.line}, {"column", b.at.column}});
    j["broken"].push_back(std::move(one));
  }
  if (!broken.empty()) j["replay"] = replay;
  return j.dump() + "\n";
}

int code_of(const ScenarioRecord& record, const std::vector<Broken>& broken) {
  if (broken.empty()) return done;
  if (record.result.ending == Ending::bug || !record.result.violations.empty()) return bug;
  return record.result.ending == Ending::no_progress ? no_progress : expectation_failed;
}

}  // namespace stagecraft::tools
