// What passes between a script and us: plain values, on their way out of a Lua stack and back onto one.
//
// `read_values` calls nothing that can raise a Lua error, so C++ objects may be alive around it. `push_value` can
// raise, and holds no C++ object with a destructor: call it where nothing is skipped by a longjmp (script_state.cpp
// says how). Main thread only.
#pragma once

#include <lua.hpp>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <vector>

namespace stagecraft::tools {

/// Keys of an object are sorted where they come from a script: Lua keeps no order.
using ScriptValue = nlohmann::ordered_json;

/// What a script asked for can't be had; the text says why. Reaches the script as a Lua error at the line that asked.
class ScriptError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// The values from stack index `first` to the top. Throws ScriptError for what is no plain value: functions, userdata,
/// tables that mix a list with names or are nested too deep. An empty table is an empty list.
std::vector<ScriptValue> read_values(lua_State* lua, int first);

/// Null is nil, or what is not a number where it stands in a list, so that lists keep their length.
void push_value(lua_State* lua, const ScriptValue& value);

}  // namespace stagecraft::tools
