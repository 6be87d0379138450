#include "tools/script_runs.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "actors/faults/judge.hpp"
#include "actors/runtime.hpp"
#include "planning/units.hpp"
#include "tools/folder_lock.hpp"
#include "tools/node.hpp"
#include "tools/report.hpp"
#include "tools/scenario_report.hpp"
#include "tools/script_request.hpp"
#include "tools/stop_signals.hpp"
#include "transport/memory_disk.hpp"
#include "transport/real_disk.hpp"

namespace stagecraft::tools {

namespace {

// One world at a time drives this thread.
void refuse_beside_job(const ScriptSession& session, const char* call) {
  if (session.job_runs)
    throw ScriptError(fmt::format("{}: the job that stagecraft.start has started still runs: finish it first", call));
}

double in_ms(Duration d) { return static_cast<double>(d.count()) / 1e6; }

ScriptValue run_plain(World& world, const Topology& topology, std::uint64_t seed) {
  RunOptions run;
  run.stop_asked = stop_is_asked;
  return script_result(topology, run_job(world, topology, run), seed);
}

// One seed of a scenario, judged as `scenario run` does it, with the same bits and events.
ScriptValue run_judged(const Scenario& scenario, const Topology& topology, std::uint64_t seed) {
  const auto disk = std::make_shared<RealDisk>();
  // What nothing is compared with need not be run.
  const bool compares = std::any_of(scenario.expect.begin(), scenario.expect.end(), [](const Expectation& e) {
    return e.kind == Expectation::Kind::loss || (e.kind == Expectation::Kind::iteration_time && e.ratio);
  });
  RunResult reference;
  if (compares) reference = run_scenario(scenario, topology, seed, disk, FaultsOf::nobody).result;
  const ScenarioRecord record = run_scenario(scenario, topology, seed, disk);
  const std::vector<Broken> broken = judge(scenario, record, compares ? reference : record.result);
  ScriptValue out = script_result(topology, record.result, seed);
  const ScriptValue verdict = ScriptValue::parse(verdict_json("", scenario, record, broken, ""));
  for (const char* key : {"ok", "broken", "faults", "never_struck"}) out[key] = verdict.at(key);
  out["exit_code"] = code_of(record, broken);
  out["newest_checkpoint"] = record.newest_checkpoint;
  return out;
}

std::vector<std::string> with_scenario_keys(std::vector<std::string> keys) {
  keys.insert(keys.end(), script_scenario_keys.begin(), script_scenario_keys.end());
  return keys;
}

}  // namespace

ScriptValue script_result(const Topology& topology, const RunResult& result, std::uint64_t seed) {
  ScriptValue out = ScriptValue::parse(to_json(topology, result, seed));
  out["median_ms"] = in_ms(median_time(result, &IterationReport::time));
  out["elapsed_ms"] = in_ms(result.elapsed);
  out["shutdown_ms"] = in_ms(result.shutdown);
  out["layout"] = result.layout;
  out["moves"] = result.moves;
  out["exit_code"] = exit_code(result);
  out["ok"] = exit_code(result) == done;
  return out;
}

ScriptValue script_sim(ScriptSession& session, const std::vector<ScriptValue>& arguments) {
  refuse_beside_job(session, "stagecraft.sim");
  const ScriptRequest request("stagecraft.sim", arguments,
                              with_scenario_keys({"file", "seed", "set", "iterations", "lateness"}));
  const Topology topology = script_topology(session, request);
  const std::uint64_t seed = request.number("seed").value_or(1);
  VirtualOptions options{.seed = seed, .serialise = topology.nodes.size() > 1};
  const std::string text = script_scenario_text(request, "virtual");
  try {
    if (!text.empty()) {
      if (request.has("lateness"))
        request.refuse("lateness", "is for runs without faults; do: reorder makes messages late in a scenario");
      return run_judged(script_scenario(session, request, topology, text), topology, seed);
    }
    if (request.has("lateness")) {
      const auto lateness = parse_duration(request.text("lateness"));
      if (!lateness) request.refuse("lateness", "expected a duration such as \"20ms\"");
      options.lateness = *lateness;
    }
    const auto world = make_virtual_world(options, std::make_shared<MemoryDisk>(std::make_shared<RealDisk>()));
    return run_plain(*world, topology, seed);
  } catch (const CannotStart& problem) {
    throw ScriptError(fmt::format("{}: {}", topology.file, problem.what()));
  }
}

ScriptValue script_run(ScriptSession& session, const std::vector<ScriptValue>& arguments) {
  refuse_beside_job(session, "stagecraft.run");
  const ScriptRequest request("stagecraft.run", arguments, with_scenario_keys({"file", "set", "iterations"}));
  const Topology topology = script_topology(session, request);
  const std::string text = script_scenario_text(request, "real");
  try {
    if (text.empty()) return run_plain(*make_real_world(worker_threads()), topology, topology.job.seed);
    if (!session.options.trusted)
      throw ScriptError(
          "stagecraft.run: faults in the real world leave a log and checkpoints in the topology's output.dir, which "
          "takes --trusted; stagecraft.sim makes the same faults and leaves nothing");
    const Scenario scenario = script_scenario(session, request, topology, text);
    const FolderLock lock(real_folder_of(scenario, topology));
    if (lock.is_taken())
      throw ScriptError(fmt::format("stagecraft.run: another run of this script holds '{}': wait for it", lock.path()));
    return run_judged(scenario, topology, topology.job.seed);
  } catch (const CannotStart& problem) {
    throw ScriptError(fmt::format("{}: {}", topology.file, problem.what()));
  }
}

}  // namespace stagecraft::tools
