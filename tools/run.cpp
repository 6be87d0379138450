#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <thread>

#include "actors/cluster/cluster.hpp"
#include "actors/faults/fault_board.hpp"
#include "actors/runtime.hpp"
#include "tools/child_processes.hpp"
#include "tools/commands.hpp"
#include "tools/control_desk.hpp"
#include "tools/folder_lock.hpp"
#include "tools/metrics.hpp"
#include "tools/node.hpp"
#include "tools/open_topology.hpp"
#include "tools/output.hpp"
#include "tools/progress.hpp"
#include "tools/report.hpp"
#include "tools/resume.hpp"
#include "tools/stop_signals.hpp"
#include "transport/real_disk.hpp"

namespace stagecraft::tools {

namespace {

// A folder of its own for every run: output.dir/<job>-<n>, the first n that nobody has.
std::optional<std::string> make_run_folder(const Topology& topology) {
  std::error_code error;
  std::filesystem::create_directories(topology.output.dir, error);
  for (std::uint32_t n = 1; !error; ++n) {
    const std::string folder = fmt::format("{}/{}-{}", topology.output.dir, topology.job.name, n);
    if (std::filesystem::create_directory(folder, error)) return folder;
  }
  complain("cannot make a folder for this run in '{}': {}; set another one: --set output.dir=FOLDER\n",
           topology.output.dir, error.message());
  return std::nullopt;
}

// The other nodes of the file, as processes of this machine.
void start_others(const Topology& topology, const RunCommandOptions& options, const Cluster& cluster,
                  ChildProcesses& children) {
  for (std::size_t n = 1; n < topology.nodes.size(); ++n) {
    const std::string& name = topology.nodes[n].name;
    std::vector<std::string> arguments = {"node", options.file.file, "--name",
                                          name,   "--leader",        to_text(cluster.address())};
    for (const std::string& set : options.file.set) arguments.insert(arguments.end(), {"--set", set});
    children.start(name, arguments);
  }
}

// Null where nobody wants it; none: it was wanted and can't be had, which has been said.
std::optional<std::unique_ptr<MetricsDoor>> open_metrics(const RunCommandOptions& options) {
  if (!options.metrics) return nullptr;
  auto door = MetricsDoor::open(*options.metrics);
  if (const auto* why = std::get_if<std::string>(&door)) {
    complain("--metrics {}: {}\n", *options.metrics, *why);
    return std::nullopt;
  }
  complain("metrics at {}\n", std::get<0>(door)->address());
  return std::move(std::get<0>(door));
}

// Runs the job in this process, or as the first node of several.
int run_here(World& world, const Topology& topology, const RunCommandOptions& options, Cluster* cluster,
             ChildProcesses* children) {
  const FolderLock lock(checkpoint_folder(topology));
  if (!lock.problem().empty()) {
    complain(
        "{}: can't write '{}': {}; no checkpoint could be kept: name another place with --set checkpoint.dir=FOLDER\n",
        topology.file, lock.path(), lock.problem());
    return bad_input;
  }
  if (lock.is_taken()) {
    complain(
        "{}: another run of job '{}' holds '{}': wait for it, or give this one another job.name or "
        "checkpoint.dir\n",
        topology.file, topology.job.name, lock.path());
    return bad_input;
  }
  if (options.faults && !cluster) world.inject(std::make_shared<FaultBoard>(Scenario{}, topology, topology.job.seed));
  RunOptions run;
  const auto start = choose_start(world.disk(), topology, options, run);
  if (const auto* code = std::get_if<ExitCode>(&start)) return *code;
  catch_stop_signals();
  const auto folder = make_run_folder(topology);
  if (!folder) return bad_input;
  if (!options.file.json) say("{}", describe_job(topology, plan_job(topology)));
  std::fflush(stdout);

  run.log_path = *folder + "/events.jsonl";
  run.trace_path = *folder + "/trace.json";
  run.folder = *folder;
  run.cluster = cluster;
  run.start_up = start_up_of(children);
  run.stop_asked = [] {
    if (!stop_is_asked()) return false;
    complain("\nstopping: the iteration is finished and a checkpoint written; once more leaves at once\n");
    return true;
  };
  ControlDesk desk(*folder + "/control.sock", [&](const std::string& text) {
    if (options.file.json) return complain("{}\n", text);
    say("{}\n", text);
    std::fflush(stdout);
  });
  const auto metrics = open_metrics(options);
  if (!metrics) return bad_input;
  run.attend = [&](RunningJob& job) {
    desk.attend(job);
    if (*metrics) (*metrics)->attend(job);
  };
  RunResult result;
  try {
    if (children) start_others(topology, options, *cluster, *children);
    Progress progress(topology.job.iterations, std::get<std::uint32_t>(start), topology.emulated());
    run.on_iteration = [&](const IterationReport& report) { progress.show(report); };
    result = run_job(world, topology, run);
  } catch (const CannotStart& problem) {
    complain("{}: {}\n", topology.file, problem.what());
    return bad_input;
  }
  return report_run(world.disk(), topology, result, *folder + "/run.json", options.file.json);
}

}  // namespace

int lead_command(const Topology& topology, const RunCommandOptions& options) {
  const auto network = network_of(topology, 0);
  if (!network) return bad_input;
  const auto world = make_real_world(worker_threads(), &*network);
  try {
    Cluster cluster(*world, topology, 0);
    ChildProcesses children;
    const int code = run_here(*world, topology, options, &cluster, options.processes ? &children : nullptr);
    children.wait(2);
    return code;
  } catch (const CannotStart& problem) {
    complain("{}: {}\n", topology.file, problem.what());
    return bad_input;
  }
}

int run_command(const RunCommandOptions& options) {
  end_with_parent();
  const auto topology = open_topology(options.file);
  if (!topology) return bad_input;
  if (options.processes && topology->nodes.size() > 1) return lead_command(*topology, options);
  const auto world = make_real_world(worker_threads());
  return run_here(*world, *topology, options, nullptr, nullptr);
}

}  // namespace stagecraft::tools
