// The part of the scripts' library that is written in Lua: expectations, tables, sweeps, statistics. A constant.
#pragma once

namespace stagecraft::tools {

/// Run once before the script. It takes the functions that script.cpp defines under the names host_* for itself.
extern const char* const script_library;
/// Those names, and the two of ScriptState: for the library alone.
inline constexpr const char* script_library_only[] = {"fail", "ask", "host_sim", "host_run", "host_show", "host_write"};

}  // namespace stagecraft::tools
