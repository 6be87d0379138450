#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "actors/runtime.hpp"
#include "tools/commands.hpp"
#include "tools/open_topology.hpp"
#include "tools/report.hpp"
#include "transport/real_disk.hpp"

namespace stagecraft::tools {

namespace {

// One line per seed of a range, the whole summary of a single one.
void print(const SimOptions& options, const Topology& topology, const RunResult& result, std::uint64_t seed) {
  if (options.file.json) {
    fmt::print("{}\n", to_json(topology, result, seed));
  } else if (options.first_seed == options.last_seed) {
    fmt::print("seed {}\n{}{}\n  event hash {:016x} of {} events\n", seed, describe_job(topology, plan_job(topology)),
               summary(topology, result, terminal_width()), result.event_hash, result.events);
  } else {
    const bool fine = result.violations.empty() && result.ending == Ending::done;
    fmt::print("seed {}  iteration {}  weights {}  events {:016x}{}\n", seed,
               format(median_time(result, &IterationReport::time)), result.weights_sha256.substr(0, 16),
               result.event_hash, fine ? "" : "  " + result.reason);
  }
  std::fflush(stdout);
}

// The trace of a simulated run is on the simulated disk.
bool keep_trace(World& world, Disk& disk, const std::string& file) {
  const auto trace = world.disk().read(file);
  if (!trace) return false;
  const DiskStatus error = disk.write_whole(file, trace.value());
  if (error) fmt::print(stderr, "{}\n", error->text());
  return !error;
}

}  // namespace

int sim_command(const SimOptions& options) {
  const auto topology = open_topology(options.file);
  if (!topology) return bad_input;
  const auto disk = std::make_shared<RealDisk>();
  int code = done;
  for (std::uint64_t seed = options.first_seed;; ++seed) {
    const VirtualOptions world_options{seed, options.lateness, topology->nodes.size() > 1};
    const auto world = make_virtual_world(world_options, disk);
    RunOptions run;
    run.trace_path = options.trace;
    RunResult result;
    try {
      result = run_job(*world, *topology, run);
    } catch (const CannotStart& problem) {
      fmt::print(stderr, "{}: {}\n", topology->file, problem.what());
      return bad_input;
    }
    if (!options.trace.empty() && !keep_trace(*world, *disk, options.trace)) return bad_input;
    code = std::max(code, exit_code(result));
    print(options, *topology, result, seed);
    if (seed == options.last_seed) return code;
  }
}

}  // namespace stagecraft::tools
