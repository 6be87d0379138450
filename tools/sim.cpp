#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>

#include "actors/runtime.hpp"
#include "tools/commands.hpp"
#include "tools/open_topology.hpp"
#include "tools/output.hpp"
#include "tools/report.hpp"
#include "transport/memory_disk.hpp"
#include "transport/real_disk.hpp"

namespace stagecraft::tools {

namespace {

// One line per seed of a range, the whole summary of a single one.
void print(const SimOptions& options, const Topology& topology, const RunResult& result, std::uint64_t seed) {
  if (options.file.json) {
    say("{}\n", to_json(topology, result, seed));
  } else if (options.first_seed == options.last_seed) {
    say("seed {}\n{}{}\n  event hash {:016x} of {} events\n", seed, describe_job(topology, plan_job(topology)),
        summary(topology, result, terminal_width()), result.event_hash, result.events);
  } else {
    const bool fine = result.violations.empty() && result.ending == Ending::done;
    say("seed {}  iteration {}  weights {}  events {:016x}{}\n", seed,
        format(median_time(result, &IterationReport::time)), result.weights_sha256.substr(0, 16), result.event_hash,
        fine ? "" : "  " + result.reason);
  }
  std::fflush(stdout);
}

// On the simulated disk, in a folder that no real one hides.
const std::string simulated_folder = "/simulated";
const std::string simulated_trace = simulated_folder + "/trace.json";

bool keep_trace(World& world, Disk& disk, const std::string& file, RunResult& result) {
  const auto trace = world.disk().read(simulated_trace);
  const DiskStatus error = trace ? disk.write_whole(file, trace.value()) : trace.error();
  if (error) complain("{}\n", error->text());
  result.trace = file;
  return !error;
}

}  // namespace

int sim_command(const SimOptions& options) {
  const auto topology = open_topology(options.file);
  if (!topology) return bad_input;
  std::error_code ignored;
  if (!options.trace.empty() && std::filesystem::equivalent(options.trace, options.file.file, ignored)) {
    complain("--trace {}: this is the topology file; name another file\n", options.trace);
    return bad_input;
  }
  const auto disk = std::make_shared<RealDisk>();
  int code = done;
  for (std::uint64_t seed = options.first_seed;; ++seed) {
    const VirtualOptions world_options{seed, options.lateness, topology->nodes.size() > 1};
    const auto world = make_virtual_world(world_options, std::make_shared<MemoryDisk>(disk));
    RunOptions run;
    if (!options.trace.empty()) {
      world->disk().make_directories(simulated_folder);
      run.trace_path = simulated_trace;
    }
    RunResult result;
    try {
      result = run_job(*world, *topology, run);
    } catch (const CannotStart& problem) {
      complain("{}: {}\n", topology->file, problem.what());
      return bad_input;
    }
    if (!options.trace.empty() && !keep_trace(*world, *disk, options.trace, result)) return bad_input;
    code = std::max(code, exit_code(result));
    print(options, *topology, result, seed);
    if (seed == options.last_seed) return code;
  }
}

}  // namespace stagecraft::tools
