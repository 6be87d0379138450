// A Lua state with a bounded memory, in which one script runs as a coroutine: until it ends, fails, or asks for
// something that takes its time. No file, no process and no chance of its own, unless it is trusted.
//
// How C++ and Lua's longjmp are kept apart:
// - Every function that a script calls is a Function, values in and values out, which never sees Lua. One C function
//   (script_state.cpp, `enter`) calls them all: it reads the arguments without anything that could raise, catches every
//   exception, puts the result or the text of the error on Lua's stack in a protected call, leaves the scope in which
//   its C++ objects live, and only then raises.
// - What else is called by Lua (the hook, `expect`, `ask`) has no object with a destructor in it.
// - What calls Lua from outside does so through lua_pcall and lua_resume, so nothing of Lua passes a frame of C++.
//
// Main thread only.
#pragma once

#include <functional>
#include <list>
#include <memory>
#include <string>
#include <vector>

#include "tools/script_value.hpp"

namespace stagecraft::tools {

struct ScriptLimits {
  std::uint64_t seed = 1;  ///< of math.random
  bool trusted = false;    ///< io, os, require
  std::size_t bytes = std::size_t{256} << 20;
};

class ScriptState {
 public:
  /// Throws ScriptError for what is to be told the script.
  using Function = std::function<ScriptValue(const std::vector<ScriptValue>& arguments)>;

  /// Throws ScriptError when there is no memory for it.
  explicit ScriptState(const ScriptLimits& limits);
  ~ScriptState();
  ScriptState(const ScriptState&) = delete;
  ScriptState& operator=(const ScriptState&) = delete;

  /// A global function, for the library or for scripts.
  void define(const std::string& name, Function function);
  void set_global(const std::string& name, const ScriptValue& value);
  /// Runs a text of our own, at once.
  void run_library(const char* text);
  /// Takes the names of a library away from the script.
  void hide(const std::string& name);

  /// The script; `name` is what places in it are called. A `#!` line is skipped. Throws ScriptError where it is no Lua.
  void load(const std::string& name, const std::string& text);

  struct Turn {
    enum class Kind : std::uint8_t {
      ended,        ///< well
      asks,         ///< with `asked`; it goes on with `resume`
      failed,       ///< `text`: file:line: what, and a traceback
      unexpected,   ///< an expectation does not hold; `text`: file:line: what
      interrupted,  ///< somebody asked for the end; `text`: where it was
    } kind = Kind::ended;
    std::string text{};
    std::vector<ScriptValue> asked{};
  };
  /// Lets the script run. `answer`: to what it asked for; null the first time.
  Turn resume(const ScriptValue& answer);
  /// The same with {error = text}: what it asked for failed.
  Turn resume_with_error(const std::string& text);

 private:
  friend struct ScriptCallbacks;
  struct Inside;  // what Lua's callbacks see
  struct Entry;   // of a Function

  void protect(int (*body)(lua_State*), void* data) const;
  Turn after(int status, int results);
  std::string text_of_error() const;

  std::unique_ptr<Inside> inside_;
  std::list<Entry> entries_;
  lua_State* lua_ = nullptr;
  lua_State* script_ = nullptr;  // the coroutine
};

}  // namespace stagecraft::tools
