#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <thread>

#include "actors/runtime.hpp"
#include "tools/commands.hpp"
#include "tools/open_topology.hpp"
#include "tools/progress.hpp"
#include "tools/report.hpp"
#include "transport/real_disk.hpp"

namespace stagecraft::tools {

namespace {

volatile std::sig_atomic_t stop_signals = 0;  // a signal handler has nothing else to write to

// The first signal finishes the iteration; the second leaves at once.
extern "C" void on_stop_signal(int) {
  stop_signals = stop_signals + 1;
  if (stop_signals > 1) _exit(130);
}

void catch_signals() {
  struct sigaction action = {};
  action.sa_handler = on_stop_signal;
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

// A folder of its own for every run: output.dir/<job>-<n>, n counted up.
std::optional<std::string> make_run_folder(Disk& disk, const Topology& topology) {
  const std::string stem = topology.output.dir + "/" + topology.job.name + "-";
  std::uint32_t n = 1;
  while (!disk.glob(stem + std::to_string(n) + "/*").empty()) ++n;
  const std::string folder = stem + std::to_string(n);
  if (const DiskStatus error = disk.make_directories(folder)) {
    fmt::print(stderr, "{}; or set another folder: --set output.dir=FOLDER\n", error->text());
    return std::nullopt;
  }
  return folder;
}

}  // namespace

int run_command(const FileOptions& options) {
  const auto topology = open_topology(options);
  if (!topology) return bad_input;
  catch_signals();
  const auto world = make_real_world(std::max(2U, std::thread::hardware_concurrency()));
  const auto folder = make_run_folder(world->disk(), *topology);
  if (!folder) return bad_input;
  if (!options.json) fmt::print("{}", describe_job(*topology, plan_job(*topology)));
  std::fflush(stdout);

  RunOptions run;
  run.log_path = *folder + "/events.jsonl";
  run.trace_path = *folder + "/trace.json";
  run.stop_asked = [] { return stop_signals > 0; };
  RunResult result;
  try {
    Progress progress(topology->job.iterations, topology->emulated());
    run.on_iteration = [&](const IterationReport& report) { progress.show(report); };
    result = run_job(*world, *topology, run);
  } catch (const CannotStart& problem) {
    fmt::print(stderr, "{}: {}\n", topology->file, problem.what());
    return bad_input;
  }
  const std::string record = to_json(*topology, result, topology->job.seed);
  if (const DiskStatus error = world->disk().write_whole(*folder + "/run.json", record + "\n"))
    fmt::print(stderr, "the record of the run is not kept: {}\n", error->text());
  if (options.json) {
    fmt::print("{}\n", record);
  } else {
    fmt::print("{}", summary(*topology, result, terminal_width()));
  }
  return exit_code(result);
}

}  // namespace stagecraft::tools
