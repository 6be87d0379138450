// What a script starts and waits for: jobs in the virtual and in the real world, plain or under faults. Main thread
// only.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "actors/runtime.hpp"
#include "tools/commands.hpp"
#include "tools/script_value.hpp"

namespace stagecraft::tools {

/// What all calls of one script have in common.
struct ScriptSession {
  const ScriptOptions& options;
  std::set<std::string> said{};  ///< warnings and notes on topologies, each of which is said once
  bool job_runs = false;         ///< one that the script has started, and not finished yet
};

/// What a script gets to know of a run that is over.
ScriptValue script_result(const Topology& topology, const RunResult& result, std::uint64_t seed);

/// stagecraft.sim{...} and stagecraft.run{...}: the argument is the table, the result what `--json` prints and more
/// (docs/scripting.md). Throws ScriptError when the job can't be had; what becomes of a job is no error.
ScriptValue script_sim(ScriptSession& session, const std::vector<ScriptValue>& arguments);
ScriptValue script_run(ScriptSession& session, const std::vector<ScriptValue>& arguments);

}  // namespace stagecraft::tools
