// Reads and validates a topology file for a verb, and prints what is wrong with it. Main thread only.
#pragma once

#include <optional>

#include "config/topology.hpp"
#include "tools/commands.hpp"

namespace stagecraft::tools {

/// Diagnostics go to standard error. Empty when the file can't be used (exit code 2).
std::optional<Topology> open_topology(const FileOptions& options);

}  // namespace stagecraft::tools
