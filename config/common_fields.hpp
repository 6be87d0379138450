// What the readers of topologies and of scenarios share: the version, names, lines of text. Internal to the loaders.
// One thread per Report.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "config/reader.hpp"

namespace stagecraft {

/// True when the rest of the file can be judged: keys may mean something else in other versions.
bool check_version(Section& root, Report& report);
/// A name that can stand in file names and on command lines: letters, digits, - _ . and at most 64 of them.
Field<std::string> read_name(Section& section, std::string_view key, Report& report);
/// A free text without control characters (a path, an address).
Field<std::string> read_line(Section& section, std::string_view key, std::size_t longest,
                             std::optional<std::string> fallback, Report& report);

}  // namespace stagecraft
