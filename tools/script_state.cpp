#include "tools/script_state.hpp"

#include <fmt/format.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "tools/stop_signals.hpp"

namespace stagecraft::tools {

using TurnKind = ScriptState::Turn::Kind;

// Plain data, so that callbacks may touch it in the midst of anything.
struct ScriptState::Inside {
  std::size_t used = 0, most = 0;
  lua_State* script = nullptr;         // the coroutine; none: before it is there
  std::array<char, 200> refused_at{};  // where memory was refused last; empty: unknown
  bool asking = false;
  TurnKind ending = TurnKind::ended;  // other than ended: the script is to end, whatever it catches
  std::array<char, 4000> why{};
};

struct ScriptState::Entry {
  std::string name;
  Function function;
};

namespace {

constexpr int instructions_between_looks = 10'000;
constexpr const char* stopped_here = "stopped here";

template <std::size_t size>
void copy_text(std::array<char, size>& to, const char* text) noexcept {
  std::snprintf(to.data(), size, "%s", text ? text : "");
}

// The innermost line of the script that runs; allocates nothing, so it may be called while memory is refused.
template <std::size_t size>
void note_place(lua_State* lua, std::array<char, size>& to) noexcept {
  lua_Debug frame;
  for (int level = 0; lua_getstack(lua, level, &frame) != 0; ++level) {
    lua_getinfo(lua, "Sl", &frame);
    if (frame.currentline <= 0 || frame.source[0] == '=') continue;
    std::snprintf(to.data(), size, "%s:%d", frame.short_src, frame.currentline);
    return;
  }
}

}  // namespace

// The functions that Lua calls. A struct, because they look into the private parts of ScriptState.
struct ScriptCallbacks {
  using State = ScriptState::Inside;

  static State& of(lua_State* lua) { return **static_cast<State**>(lua_getextraspace(lua)); }

  static void* allocate(void* data, void* block, std::size_t old_size, std::size_t size) noexcept {
    State& s = *static_cast<State*>(data);
    const std::size_t before = block ? old_size : 0;
    if (size == 0) {
      std::free(block);
      s.used -= before;
      return nullptr;
    }
    if (size > before && s.used - before + size > s.most) {
      if (s.script) note_place(s.script, s.refused_at);
      return nullptr;
    }
    void* moved = std::realloc(block, size);
    if (moved) s.used += size - before;
    return moved;
  }

  // From now on every instruction of the script raises, so that no pcall holds it up.
  static int end(lua_State* lua, TurnKind kind) {
    State& s = of(lua);
    s.ending = kind;
    copy_text(s.why, lua_tostring(lua, -1));
    lua_sethook(lua, on_count, LUA_MASKCOUNT, 1);
    lua_sethook(s.script, on_count, LUA_MASKCOUNT, 1);  // where this is a coroutine of its
    return lua_error(lua);
  }

  static void on_count(lua_State* lua, lua_Debug* frame) {
    State& s = of(lua);
    if (s.ending != TurnKind::ended) {
      lua_sethook(lua, on_count, LUA_MASKCOUNT, 1);
      lua_pushstring(lua, s.why.data());
      lua_error(lua);
    }
    if (!stop_is_asked()) return;
    lua_getinfo(lua, "Sl", frame);
    lua_pushfstring(lua, "%s:%d: %s", frame->short_src, frame->currentline, stopped_here);
    end(lua, TurnKind::interrupted);
  }

  // fail(text): an expectation of the caller's caller does not hold.
  static int fail(lua_State* lua) {
    luaL_where(lua, 2);
    luaL_tolstring(lua, 1, nullptr);
    lua_concat(lua, 2);
    return end(lua, TurnKind::unexpected);
  }

  // ask(...): hands the values to whoever drives the script, and returns its answer.
  static int ask(lua_State* lua) {
    State& s = of(lua);
    const char* why = nullptr;
    if (lua != s.script)
      why = "a job can't be waited for in a coroutine of the script; do it in the script itself";
    else if (lua_isyieldable(lua) == 0)
      why = "a job can't be waited for in here: a function of Lua's own is in between, such as table.sort";
    if (why) {
      luaL_where(lua, 3);  // 1 and 2 are the library's
      lua_pushstring(lua, why);
      lua_concat(lua, 2);
      return lua_error(lua);
    }
    s.asking = true;
    return lua_yield(lua, lua_gettop(lua));
  }

  // -- bodies of protected calls; their data is a light userdata

  static int push_values(lua_State* lua) {
    push_value(lua, *static_cast<const ScriptValue*>(lua_touserdata(lua, 1)));
    return 1;
  }
  // Of an error in a function of ours: the place is the line that called it. Levels: 0 this, 1 `enter`, 2 its caller;
  // where that is our library, whoever called that.
  static int push_error(lua_State* lua) {
    const char* text = static_cast<const std::string*>(lua_touserdata(lua, 1))->c_str();
    lua_Debug frame;
    for (int level = 2; lua_getstack(lua, level, &frame) != 0; ++level) {
      lua_getinfo(lua, "Sl", &frame);
      if (frame.currentline <= 0 || frame.source[0] == '=') continue;
      lua_pushfstring(lua, "%s:%d: %s", frame.short_src, frame.currentline, text);
      return 1;
    }
    lua_pushstring(lua, text);
    return 1;
  }

  // What `enter` does while C++ objects are alive. True: the result is on top of the stack, else the error.
  static bool answer(lua_State* lua, const ScriptState::Entry& entry) {
    const auto leave = [lua](int (*body)(lua_State*), const void* data) {
      lua_settop(lua, 0);
      lua_pushcfunction(lua, body);
      lua_pushlightuserdata(lua, const_cast<void*>(data));
      return lua_pcall(lua, 1, 1, 0) == LUA_OK;
    };
    std::string problem;
    try {
      const ScriptValue result = entry.function(read_values(lua, 1));
      return leave(push_values, &result);
    } catch (const std::exception& e) {
      problem = e.what();
    }
    leave(push_error, &problem);
    return false;
  }

  // The one C function behind all of ours. Its upvalue is the Entry.
  static int enter(lua_State* lua) {
    const auto* entry = static_cast<const ScriptState::Entry*>(lua_touserdata(lua, lua_upvalueindex(1)));
    if (!answer(lua, *entry)) return lua_error(lua);
    if (stop_is_asked()) {  // what it gave may be half a run
      luaL_where(lua, 1);
      lua_pushstring(lua, stopped_here);
      lua_concat(lua, 2);
      return end(lua, TurnKind::interrupted);
    }
    return 1;
  }

  struct Definition {
    const char* name;
    const ScriptState::Entry* entry;
    const ScriptValue* value;
  };
  static int define(lua_State* lua) {
    const auto* d = static_cast<const Definition*>(lua_touserdata(lua, 1));
    if (d->entry) {
      lua_pushlightuserdata(lua, const_cast<ScriptState::Entry*>(d->entry));
      lua_pushcclosure(lua, enter, 1);
    } else if (d->value) {
      push_value(lua, *d->value);
    } else {
      lua_pushnil(lua);
    }
    lua_setglobal(lua, d->name);
    return 0;
  }

  static int open_libraries(lua_State* lua) {
    const auto* limits = static_cast<const ScriptLimits*>(lua_touserdata(lua, 1));
    const luaL_Reg safe[] = {{LUA_GNAME, luaopen_base},        {LUA_TABLIBNAME, luaopen_table},
                             {LUA_STRLIBNAME, luaopen_string}, {LUA_MATHLIBNAME, luaopen_math},
                             {LUA_UTF8LIBNAME, luaopen_utf8},  {LUA_COLIBNAME, luaopen_coroutine}};
    const luaL_Reg reaching_out[] = {
        {LUA_LOADLIBNAME, luaopen_package}, {LUA_IOLIBNAME, luaopen_io}, {LUA_OSLIBNAME, luaopen_os}};
    for (const luaL_Reg& library : safe) {
      luaL_requiref(lua, library.name, library.func, 1);
      lua_pop(lua, 1);
    }
    if (limits->trusted) {
      for (const luaL_Reg& library : reaching_out) {
        luaL_requiref(lua, library.name, library.func, 1);
        lua_pop(lua, 1);
      }
    } else {
      for (const char* name : {"dofile", "loadfile"}) {
        lua_pushnil(lua);
        lua_setglobal(lua, name);
      }
    }
    // The library took its seed from addresses and the clock.
    lua_getglobal(lua, LUA_MATHLIBNAME);
    lua_getfield(lua, -1, "randomseed");
    lua_pushinteger(lua, static_cast<lua_Integer>(limits->seed));
    lua_call(lua, 1, 0);
    lua_pushcfunction(lua, fail);
    lua_setglobal(lua, "fail");
    lua_pushcfunction(lua, ask);
    lua_setglobal(lua, "ask");
    return 0;
  }

  struct Source {
    const char* name;
    const char* text;
    std::size_t size;
    lua_State* script;  // set here
  };
  static int load_script(lua_State* lua) {
    auto* source = static_cast<Source*>(lua_touserdata(lua, 1));
    source->script = lua_newthread(lua);
    lua_setfield(lua, LUA_REGISTRYINDEX, "stagecraft.script");
    if (luaL_loadbufferx(lua, source->text, source->size, source->name, "t") != LUA_OK) return lua_error(lua);
    lua_xmove(lua, source->script, 1);
    return 0;
  }

  static int run_text(lua_State* lua) {
    const auto* text = static_cast<const char*>(lua_touserdata(lua, 1));
    if (luaL_loadbufferx(lua, text, std::strlen(text), "=stagecraft", "t") != LUA_OK) return lua_error(lua);
    lua_call(lua, 0, 0);
    return 0;
  }

  // The error on top of the script's stack, and where the script was.
  static int describe_error(lua_State* lua) {
    auto* script = static_cast<lua_State*>(lua_touserdata(lua, 1));
    lua_settop(lua, 0);
    lua_xmove(script, lua, 1);
    const bool is_text = lua_type(lua, 1) == LUA_TSTRING;
    luaL_tolstring(lua, 1, nullptr);
    lua_remove(lua, 1);
    if (!is_text) {
      lua_pushliteral(lua, " (what the script has raised is no text)");
      lua_concat(lua, 2);
    }
    luaL_traceback(lua, script, nullptr, 0);
    return 2;
  }
};

ScriptState::ScriptState(const ScriptLimits& limits) : inside_(std::make_unique<Inside>()) {
  inside_->most = limits.bytes;
  lua_ = lua_newstate(ScriptCallbacks::allocate, inside_.get());
  if (!lua_) throw ScriptError("no memory for a script");
  *static_cast<ScriptState::Inside**>(lua_getextraspace(lua_)) = inside_.get();
  protect(ScriptCallbacks::open_libraries, const_cast<ScriptLimits*>(&limits));
}

ScriptState::~ScriptState() {
  inside_->script = nullptr;
  if (lua_) lua_close(lua_);
}

// Data may be C++ objects: what is raised ends at the lua_pcall, in which nothing has a destructor.
void ScriptState::protect(int (*body)(lua_State*), void* data) const {
  lua_settop(lua_, 0);
  lua_pushcfunction(lua_, body);
  lua_pushlightuserdata(lua_, data);
  const int status = lua_pcall(lua_, 1, LUA_MULTRET, 0);
  if (status == LUA_OK) return;
  const char* text = lua_tostring(lua_, -1);
  throw ScriptError(text ? text : "an error without a text");
}

void ScriptState::define(const std::string& name, Function function) {
  entries_.push_back({name, std::move(function)});
  ScriptCallbacks::Definition definition{name.c_str(), &entries_.back(), nullptr};
  protect(ScriptCallbacks::define, &definition);
}

void ScriptState::set_global(const std::string& name, const ScriptValue& value) {
  ScriptCallbacks::Definition definition{name.c_str(), nullptr, &value};
  protect(ScriptCallbacks::define, &definition);
}

void ScriptState::hide(const std::string& name) {
  ScriptCallbacks::Definition definition{name.c_str(), nullptr, nullptr};
  protect(ScriptCallbacks::define, &definition);
}

void ScriptState::run_library(const char* text) { protect(ScriptCallbacks::run_text, const_cast<char*>(text)); }

void ScriptState::load(const std::string& name, const std::string& text) {
  // Lua cuts long names in its messages; the end of a path is then more use than dots and a part of it.
  const bool is_long = name.size() + 1 >= LUA_IDSIZE;
  const std::string chunk = "@" + (is_long ? name.substr(name.find_last_of('/') + 1) : name);
  const std::size_t begin = text.starts_with('#') ? std::min(text.find('\n'), text.size()) : 0;
  ScriptCallbacks::Source source{chunk.c_str(), text.data() + begin, text.size() - begin, nullptr};
  protect(ScriptCallbacks::load_script, &source);
  script_ = inside_->script = source.script;
  lua_sethook(script_, ScriptCallbacks::on_count, LUA_MASKCOUNT, instructions_between_looks);
}

ScriptState::Turn ScriptState::resume(const ScriptValue& answer) {
  // The answer goes by way of the main stack, where a lack of memory is caught.
  protect(ScriptCallbacks::push_values, const_cast<ScriptValue*>(&answer));
  if (stop_is_asked() && inside_->ending == TurnKind::ended && lua_status(script_) == LUA_YIELD) {
    std::array<char, 200> place{};
    note_place(script_, place);
    inside_->ending = TurnKind::interrupted;
    copy_text(inside_->why, fmt::format("{}: {}", place.data(), stopped_here).c_str());
    lua_sethook(script_, ScriptCallbacks::on_count, LUA_MASKCOUNT, 1);
  }
  if (lua_checkstack(script_, 1) == 0) throw ScriptError("no memory for the script to go on");
  lua_xmove(lua_, script_, 1);
  int results = 0;
  const int status = lua_resume(script_, lua_, 1, &results);
  return after(status, results);
}

ScriptState::Turn ScriptState::resume_with_error(const std::string& text) {
  return resume(ScriptValue{{"error", text}});
}

ScriptState::Turn ScriptState::after(int status, int results) {
  Inside& s = *inside_;
  Turn turn;
  if (s.ending != TurnKind::ended) {
    turn.kind = s.ending;
    turn.text = s.why.data();
    return turn;
  }
  if (status == LUA_OK) return turn;
  if (status == LUA_YIELD && std::exchange(s.asking, false)) {
    turn.kind = TurnKind::asks;
    const int below = lua_gettop(script_) - results;
    try {
      turn.asked = read_values(script_, below + 1);
    } catch (const ScriptError& problem) {
      lua_settop(script_, below);
      return resume_with_error(problem.what());
    }
    lua_settop(script_, below);
    return turn;
  }
  turn.kind = TurnKind::failed;
  if (status == LUA_YIELD) {
    lua_settop(script_, 0);
    if (lua_checkstack(script_, 1) != 0) lua_pushliteral(script_, "coroutine.yield outside of a coroutine");
  }
  if (status == LUA_ERRMEM)
    turn.text = fmt::format("{}{}not enough memory: the values of a script may take {} MiB together\n",
                            s.refused_at.data(), s.refused_at[0] != 0 ? ": " : "", s.most >> 20);
  else
    turn.text = text_of_error();
  return turn;
}

std::string ScriptState::text_of_error() const {
  try {
    protect(ScriptCallbacks::describe_error, script_);
  } catch (const ScriptError& problem) {
    return fmt::format("{} (while an error was described)\n", problem.what());
  }
  std::string text;
  for (int i = 1; i <= lua_gettop(lua_); ++i) {
    std::size_t size = 0;
    const char* part = lua_tolstring(lua_, i, &size);
    text.append(part, size);
    text += '\n';
  }
  // Lua puts no place before a text that was raised without one.
  std::array<char, 200> place{};
  note_place(script_, place);
  const std::string at = place.data();
  if (at.empty() || text.starts_with(at.substr(0, at.find_last_of(':') + 1))) return text;
  return at + ": " + text;
}

}  // namespace stagecraft::tools
