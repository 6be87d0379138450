// Reads and validates a topology file for a verb. Main thread only.
#pragma once

#include <optional>

#include "config/load_topology.hpp"
#include "tools/commands.hpp"

namespace stagecraft::tools {

/// Empty, with the reason on standard error, when the file can't be read.
std::optional<LoadResult> read_topology(const FileOptions& options);

/// As above, with all diagnostics on standard error. Empty when the file can't be used (exit code 2).
std::optional<Topology> open_topology(const FileOptions& options);

}  // namespace stagecraft::tools
