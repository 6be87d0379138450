// Reads a scenario file and the topology that it names, and validates both, for a verb. Main thread only.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "config/load_scenario.hpp"

namespace stagecraft::tools {

struct OpenedScenario {
  std::optional<Scenario> scenario;     ///< both are there, unless something is wrong with one of them
  std::optional<Topology> topology;     ///< with the scenario's `set`
  std::vector<Diagnostic> diagnostics;  ///< of the scenario, or of its topology and of the two together
  std::string problem;                  ///< a file that can't be read; empty: none
};

OpenedScenario open_scenario(const std::string& file);

}  // namespace stagecraft::tools
