#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>

#include "actors/faults/swarm_run.hpp"
#include "config/describe_scenario.hpp"
#include "tools/commands.hpp"
#include "tools/open_topology.hpp"
#include "tools/output.hpp"
#include "tools/scenario_report.hpp"
#include "transport/real_disk.hpp"

namespace stagecraft::tools {

namespace {

constexpr std::uint32_t most_tries = 60;  // runs that shrinking one failure may take

// Writes a failure down as a scenario of its own: the path.
std::string keep(Scenario small, const Topology& topology, std::uint64_t seed) {
  small.topology = std::filesystem::absolute(small.topology).string();
  const std::string folder = topology.output.dir + "/failing";
  std::string file = fmt::format("{}/{}-{}.yaml", folder, topology.job.name, seed);
  RealDisk disk;
  DiskStatus error = disk.make_directories(folder);
  if (!error) error = disk.write_whole(file, describe(small));
  if (error) complain("{}\n", error->text());
  return file;
}

int run_all(SwarmRunner& runner, const Topology& topology, const ScenarioOptions& options) {
  std::uint64_t broken = 0;
  int code = done;
  const auto [first, last] = options.seeds.value_or(std::pair<std::uint64_t, std::uint64_t>{1, 100});
  for (std::uint64_t seed = first;; ++seed) {
    const SwarmRunner::Outcome o = runner.run(seed);
    std::string replay;
    if (!o.broken.empty()) {
      ++broken;
      replay = "stagecraft scenario run " + keep(runner.smaller(o, most_tries), topology, seed);
    }
    code = std::max(code, code_of(o.record, o.broken));
    if (options.json) {
      say("{}", verdict_json(options.files.front(), o.scenario, o.record, o.broken, replay));
    } else if (!o.broken.empty()) {
      say("{}", verdict_text(o.scenario, o.record, o.broken, replay));
    }
    std::fflush(stdout);
    if (seed == last) break;
  }
  if (!options.json) say("{} seeds, {} not as expected\n", last - first + 1, broken);
  return code;
}

}  // namespace

int scenario_swarm_command(const ScenarioOptions& options) {
  FileOptions file;
  file.file = options.files.front();
  const auto topology = open_topology(file);
  if (!topology) return bad_input;
  const auto disk = std::make_shared<RealDisk>();
  const auto text = disk->read(file.file);
  if (!text) {
    complain("{}\n", text.error().text());
    return bad_input;
  }
  try {
    SwarmRunner runner(file.file, text.value(), disk);
    return run_all(runner, *topology, options);
  } catch (const CannotStart& problem) {
    complain("{}: {}\n", file.file, problem.what());
    return bad_input;
  }
}

}  // namespace stagecraft::tools
