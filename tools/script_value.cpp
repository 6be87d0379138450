#include "tools/script_value.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

namespace stagecraft::tools {

namespace {

constexpr int deepest = 32;
constexpr std::size_t most_items = 1'000'000;

ScriptValue read_one(lua_State* lua, int index, int depth);

std::string text_at(lua_State* lua, int index) {
  std::size_t size = 0;
  const char* text = lua_tolstring(lua, index, &size);  // of a string: converts nothing, so it can't raise
  return {text, size};
}

// By lua_next, without metamethods: what it gives is what the table holds. It raises only where the key before is
// gone, which nobody takes away here.
ScriptValue read_table(lua_State* lua, int index, int depth) {
  if (depth >= deepest)
    throw ScriptError(fmt::format("tables are nested more than {} deep; does one hold itself?", deepest));
  if (lua_checkstack(lua, 4) == 0) throw ScriptError("not enough memory for the tables of the call");
  std::vector<std::pair<lua_Integer, ScriptValue>> list;
  std::vector<std::pair<std::string, ScriptValue>> named;
  lua_pushnil(lua);
  while (lua_next(lua, index) != 0) {
    ScriptValue value;
    try {
      value = read_one(lua, lua_gettop(lua), depth + 1);
    } catch (const ScriptError& problem) {
      const std::string key = lua_type(lua, -2) == LUA_TSTRING ? text_at(lua, -2)
                              : lua_isinteger(lua, -2) != 0    ? fmt::format("[{}]", lua_tointeger(lua, -2))
                                                               : std::string("?");
      throw ScriptError(fmt::format("{}: {}", key, problem.what()));
    }
    if (lua_type(lua, -2) == LUA_TSTRING)
      named.emplace_back(text_at(lua, -2), std::move(value));
    else if (lua_isinteger(lua, -2) != 0)
      list.emplace_back(lua_tointeger(lua, -2), std::move(value));
    else
      throw ScriptError("expected names or 1, 2, 3 .. as keys of a table");
    lua_pop(lua, 1);
    if (list.size() + named.size() > most_items)
      throw ScriptError(fmt::format("a table has more than {} entries", most_items));
  }
  if (!list.empty() && !named.empty())
    throw ScriptError(fmt::format("expected a list or a table of names, got both: '{}' stands beside [{}]",
                                  named.front().first, list.front().first));
  if (named.empty()) {
    std::sort(list.begin(), list.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    ScriptValue out = ScriptValue::array();
    for (auto& [number, value] : list) {
      if (number != static_cast<lua_Integer>(out.size()) + 1)
        throw ScriptError(fmt::format("expected a list without gaps, got no [{}] before [{}]", out.size() + 1, number));
      out.push_back(std::move(value));
    }
    return out;
  }
  std::sort(named.begin(), named.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  ScriptValue out = ScriptValue::object();
  for (auto& [key, value] : named) out[key] = std::move(value);
  return out;
}

ScriptValue read_one(lua_State* lua, int index, int depth) {
  switch (lua_type(lua, index)) {
    case LUA_TNIL:
      return nullptr;
    case LUA_TBOOLEAN:
      return lua_toboolean(lua, index) != 0;
    case LUA_TNUMBER:
      if (lua_isinteger(lua, index) != 0) return static_cast<std::int64_t>(lua_tointeger(lua, index));
      return lua_tonumber(lua, index);
    case LUA_TSTRING:
      return text_at(lua, index);
    case LUA_TTABLE:
      return read_table(lua, index, depth);
    default:
      throw ScriptError(fmt::format("expected a number, a text, a boolean or a table, got a {}",
                                    lua_typename(lua, lua_type(lua, index))));
  }
}

}  // namespace

std::vector<ScriptValue> read_values(lua_State* lua, int first) {
  std::vector<ScriptValue> values;
  const int last = lua_gettop(lua);
  for (int index = first; index <= last; ++index) {
    values.push_back(read_one(lua, index, 0));
    lua_settop(lua, last);
  }
  return values;
}

void push_value(lua_State* lua, const ScriptValue& value) {
  luaL_checkstack(lua, 4, "a result is nested too deep");
  switch (value.type()) {
    case ScriptValue::value_t::boolean:
      return lua_pushboolean(lua, value.get<bool>());
    case ScriptValue::value_t::number_integer:
      return lua_pushinteger(lua, value.get<std::int64_t>());
    case ScriptValue::value_t::number_unsigned: {
      const auto number = value.get<std::uint64_t>();
      if (number > static_cast<std::uint64_t>(std::numeric_limits<lua_Integer>::max()))
        return lua_pushnumber(lua, static_cast<lua_Number>(number));
      return lua_pushinteger(lua, static_cast<lua_Integer>(number));
    }
    case ScriptValue::value_t::number_float:
      return lua_pushnumber(lua, value.get<double>());
    case ScriptValue::value_t::string: {
      const auto& text = value.get_ref<const ScriptValue::string_t&>();
      lua_pushlstring(lua, text.data(), text.size());
      return;
    }
    case ScriptValue::value_t::array: {
      const auto& list = value.get_ref<const ScriptValue::array_t&>();
      lua_createtable(lua, static_cast<int>(list.size()), 0);
      for (std::size_t i = 0; i < list.size(); ++i) {
        if (list[i].is_null())
          lua_pushnumber(lua, std::numeric_limits<lua_Number>::quiet_NaN());
        else
          push_value(lua, list[i]);
        lua_rawseti(lua, -2, static_cast<lua_Integer>(i) + 1);
      }
      return;
    }
    case ScriptValue::value_t::object:
      lua_createtable(lua, 0, static_cast<int>(value.size()));
      for (const auto& [key, item] : value.get_ref<const ScriptValue::object_t&>()) {
        lua_pushlstring(lua, key.data(), key.size());
        push_value(lua, item);
        lua_rawset(lua, -3);
      }
      return;
    default:
      return lua_pushnil(lua);
  }
}

}  // namespace stagecraft::tools
