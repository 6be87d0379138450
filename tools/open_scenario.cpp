#include "tools/open_scenario.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "tools/open_topology.hpp"
#include "transport/real_disk.hpp"

namespace stagecraft::tools {

namespace {

bool has_errors(const std::vector<Diagnostic>& diagnostics) {
  return std::any_of(diagnostics.begin(), diagnostics.end(),
                     [](const Diagnostic& d) { return d.severity == Severity::error; });
}

}  // namespace

OpenedScenario open_scenario(const std::string& file) {
  OpenedScenario opened;
  RealDisk disk;
  const auto text = disk.read(file);
  if (!text) {
    opened.problem = text.error().text();
    return opened;
  }
  ScenarioResult loaded = load_scenario(file, text.value());
  opened.diagnostics = std::move(loaded.diagnostics);
  if (!loaded.scenario) return opened;
  Scenario& scenario = *loaded.scenario;
  const auto topology_text = disk.read(scenario.topology);
  if (!topology_text) {
    opened.problem = fmt::format("{}:{}:{}: topology: {}; the path starts at the folder of the scenario", file,
                                 scenario.topology_at.line, scenario.topology_at.column, topology_text.error().text());
    return opened;
  }
  LoadResult topology = validate_topology(scenario.topology, topology_text.value(), scenario.set);
  opened.diagnostics = cite_scenario(scenario, std::move(topology.diagnostics));
  if (!topology.topology) return opened;
  const auto together = check_against(scenario, *topology.topology);
  opened.diagnostics.insert(opened.diagnostics.end(), together.begin(), together.end());
  if (has_errors(together)) return opened;
  opened.scenario = std::move(scenario);
  opened.topology = std::move(topology.topology);
  return opened;
}

}  // namespace stagecraft::tools
