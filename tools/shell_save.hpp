// Lines of the shell that become a script. Main thread only.
#pragma once

#include <span>
#include <string>

#include "tools/verbs.hpp"

namespace stagecraft::tools {

/// Writes them to a new file, below a comment that says when, and with which job (`about`). Refused: there are none, or
/// something stands there already.
Answer save_lines(const std::string& path, std::span<const std::string> lines, const std::string& about);

}  // namespace stagecraft::tools
