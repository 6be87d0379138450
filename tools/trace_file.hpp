// Reads the Chrome traces that `run`, `sim --trace` and `plan --trace` write. Main thread only.
#pragma once

#include <string>
#include <variant>

#include "tools/trace_summary.hpp"

namespace stagecraft::tools {

/// Why a file is no trace of ours: what, where, what to try.
struct NoTrace {
  std::string why;
};
std::variant<TraceContent, NoTrace> read_trace(const std::string& path);

}  // namespace stagecraft::tools
