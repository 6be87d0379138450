#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "tools/commands.hpp"
#include "tools/diagnostics_json.hpp"
#include "tools/open_scenario.hpp"
#include "tools/output.hpp"

namespace stagecraft::tools {

namespace {

using Json = nlohmann::ordered_json;

std::string count_of(std::size_t number, std::string_view what) {
  return fmt::format("{} {}{}", number, what, number == 1 ? "" : "s");
}

std::string seeds_of(const Scenario& scenario) {
  if (scenario.first_seed == scenario.last_seed) return fmt::format("seed {}", scenario.first_seed);
  return fmt::format("seeds {}..{}", scenario.first_seed, scenario.last_seed);
}

void print_text(const std::string& file, const OpenedScenario& opened) {
  for (const Diagnostic& d : opened.diagnostics) complain("{}\n", to_text(d));
  if (!opened.problem.empty()) complain("{}\n", opened.problem);
  if (!opened.scenario) return;
  const Scenario& s = *opened.scenario;
  say("{}: fine: \"{}\", {}, {}, {}, {} world\n", file, s.name, count_of(s.faults.size(), "fault"),
      count_of(s.expect.size(), "expectation"), seeds_of(s), name_of(s.world));
}

void print_json(const std::string& file, const OpenedScenario& opened) {
  Json j;
  j["file"] = file;
  j["ok"] = opened.scenario.has_value();
  j["diagnostics"] = to_json(opened.diagnostics);
  if (!opened.problem.empty()) j["problem"] = opened.problem;
  if (opened.scenario) {
    const Scenario& s = *opened.scenario;
    j["name"] = s.name;
    j["shows"] = s.shows;
    j["topology"] = s.topology;
    j["world"] = name_of(s.world);
    j["first_seed"] = s.first_seed;
    j["last_seed"] = s.last_seed;
    j["faults"] = Json::array();
    for (const FaultSpec& fault : s.faults)
      j["faults"].push_back({{"id", fault.id}, {"do", name_of(fault.kind)}, {"on", name_of(fault.on.kind)}});
    j["expectations"] = Json::array();
    for (const Expectation& e : s.expect) j["expectations"].push_back(name_of(e.kind));
  }
  say("{}\n", j.dump());
}

}  // namespace

int scenario_check_command(const ScenarioOptions& options) {
  int code = done;
  for (const std::string& file : options.files) {
    const OpenedScenario opened = open_scenario(file);
    if (options.json) {
      print_json(file, opened);
    } else {
      print_text(file, opened);
    }
    if (!opened.scenario) code = bad_input;
  }
  return code;
}

}  // namespace stagecraft::tools
