// The tables that scripts collect: shown, and kept as CSV or JSON. Main thread only.
#pragma once

#include <string>
#include <vector>

#include "tools/script_value.hpp"

namespace stagecraft::tools {

/// host_show(columns, rows): in columns, or (`json`) as one object per row.
ScriptValue script_show(bool json, const std::vector<ScriptValue>& arguments);
/// host_write(form, path, columns, rows): `form` is csv or json. All or nothing. Unless `trusted` only into the current
/// folder and those below it, whatever links say.
ScriptValue script_write(bool trusted, const std::vector<ScriptValue>& arguments);

}  // namespace stagecraft::tools
