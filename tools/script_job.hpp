// Jobs that run while their script goes on: stagecraft.start and what is asked of the job that it gives.
//
// The script is a coroutine and the job is driven by run_job, both on this thread: the script runs while the job's
// `attend` is called, until it asks for something that takes the job's time, and goes on when that has come. So in the
// virtual world the clock stands while the script runs, and a script with its seeds is a whole run. Main thread only.
#pragma once

#include "tools/script_runs.hpp"
#include "tools/script_state.hpp"

namespace stagecraft::tools {

/// Runs the loaded script to its end, with the jobs that it starts, one after the other. A job that is not finished
/// when the script ends is stopped; when the script fails, it is ended at once.
ScriptState::Turn drive_script(ScriptSession& session, ScriptState& state);

}  // namespace stagecraft::tools
