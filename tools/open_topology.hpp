// Reads and validates a topology file for a verb. Main thread only.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "config/load_topology.hpp"
#include "tools/commands.hpp"

namespace stagecraft::tools {

/// The text of a topology file, also against what this build can do.
LoadResult validate_topology(const std::string& file_name, const std::string& text,
                             const std::vector<std::string>& set);

/// Empty, with the reason on standard error, when the file can't be read.
std::optional<LoadResult> read_topology(const FileOptions& options);

/// As above, with all diagnostics on standard error. Empty when the file can't be used (exit code 2).
std::optional<Topology> open_topology(const FileOptions& options);

}  // namespace stagecraft::tools
