// stagecraft script: runs an experiment in Lua.
//
// Exit codes: 0 the script ended; 1 an expectation of it does not hold; 2 it is no Lua, or failed; 130 it was stopped.
#include <fmt/format.h>

#include <cstdio>
#include <memory>

#include "tools/commands.hpp"
#include "tools/output.hpp"
#include "tools/script_job.hpp"
#include "tools/script_library.hpp"
#include "tools/script_runs.hpp"
#include "tools/script_state.hpp"
#include "tools/script_tables.hpp"
#include "tools/stop_signals.hpp"
#include "transport/real_disk.hpp"

namespace stagecraft::tools {

namespace {

void prepare_script(ScriptState& state, ScriptSession& session, const std::string& text) {
  const ScriptOptions& options = session.options;
  using Values = std::vector<ScriptValue>;
  state.define("host_sim", [&session](const Values& v) { return script_sim(session, v); });
  state.define("host_run", [&session](const Values& v) { return script_run(session, v); });
  state.define("host_show", [&options](const Values& v) { return script_show(options.file.json, v); });
  state.define("host_write", [&options](const Values& v) { return script_write(options.trusted, v); });
  state.set_global("arg", options.arguments);
  state.run_library(script_library);
  for (const char* name : script_library_only) state.hide(name);
  state.load(options.file.file, text);
}

int end_script(const ScriptState::Turn& turn) {
  using Kind = ScriptState::Turn::Kind;
  std::fflush(stdout);
  switch (turn.kind) {
    case Kind::ended:
    case Kind::asks:
      return done;
    case Kind::unexpected:
      complain("{}\n", turn.text);
      return expectation_failed;
    case Kind::interrupted:
      complain("{}\n", turn.text);
      return left_at_once;
    case Kind::failed:
      complain("{}", turn.text);
      return stop_is_asked() ? left_at_once : bad_input;
  }
  return bug;
}

}  // namespace

int script_command(const ScriptOptions& options) {
  RealDisk disk;
  const auto text = disk.read(options.file.file);
  if (!text) {
    complain("{}\n", text.error().text());
    return bad_input;
  }
  catch_stop_signals();
  ScriptSession session{options};
  try {
    ScriptState state({.seed = options.seed, .trusted = options.trusted});
    prepare_script(state, session, text.value());
    return end_script(drive_script(session, state));
  } catch (const ScriptError& problem) {
    complain("{}\n", problem.what());
    return bad_input;
  }
}

}  // namespace stagecraft::tools
