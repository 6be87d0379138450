// From the text of a scenario file to validated values, or to the list of everything that is wrong with it; then the
// same against the topology that it names. Pure: no file is opened here, nothing is remembered. Any thread.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "config/diagnostics.hpp"
#include "config/scenario.hpp"
#include "config/topology.hpp"

namespace stagecraft {

struct ScenarioResult {
  std::optional<Scenario> scenario;     ///< there unless a diagnostic is an error
  std::vector<Diagnostic> diagnostics;  ///< by position
};

/// The file alone. `file_name` is for messages, and the topology's path is resolved against its folder. Never throws
/// because of the text. docs/scenarios.md is the reference of the format, docs/errors.md of the codes.
ScenarioResult load_scenario(const std::string& file_name, const std::string& text);

/// What is wrong with the scenario on this topology (already loaded with its `set`): targets that are not there,
/// triggers that can never fire, faults and expectations that this job can't have. Fills in the indices of the nodes
/// that the file names.
std::vector<Diagnostic> check_against(Scenario& scenario, const Topology& topology);

/// Diagnostics of the scenario's topology, with those about an override moved to its place in the scenario's `set`.
std::vector<Diagnostic> cite_scenario(const Scenario& scenario, std::vector<Diagnostic> diagnostics);

}  // namespace stagecraft
