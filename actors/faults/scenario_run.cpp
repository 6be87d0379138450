#include "actors/faults/scenario_run.hpp"

#include <algorithm>
#include <cctype>
#include <thread>

#include "model/checkpoint/checkpoint.hpp"
#include "transport/memory_disk.hpp"

namespace stagecraft {

namespace {

bool has_disk_faults(const Scenario& scenario) {
  return std::any_of(scenario.faults.begin(), scenario.faults.end(),
                     [](const FaultSpec& f) { return is_disk_fault(f.kind); });
}

std::string last_lines(const std::string& text) {
  constexpr std::size_t count = 30;
  std::size_t at = text.size();
  for (std::size_t i = 0; i <= count && at != std::string::npos && at > 0; ++i) at = text.rfind('\n', at - 1);
  return at == std::string::npos || at == 0 ? text : text.substr(at + 1);
}

}  // namespace

std::string real_folder_of(const Scenario& scenario, const Topology& topology) {
  std::string name = scenario.name;
  std::replace_if(
      name.begin(), name.end(), [](char c) { return !std::isalnum(static_cast<unsigned char>(c)); }, '-');
  return topology.output.dir + "/scenarios/" + name;
}

ScenarioRecord run_scenario(const Scenario& scenario, const Topology& topology, std::uint64_t seed,
                            const std::shared_ptr<Disk>& disk, FaultsOf faults) {
  const bool is_virtual = scenario.world == ScenarioWorld::virtual_clock;
  const std::string folder = is_virtual ? "/simulated" : real_folder_of(scenario, topology);
  const std::shared_ptr<Disk> below = is_virtual ? std::make_shared<MemoryDisk>(disk) : disk;
  const auto faulty = std::make_shared<FaultyDisk>(*below);
  if (!is_virtual) below->remove(folder);
  if (const DiskStatus error = below->make_directories(folder)) throw CannotStart(error->text());
  const auto world = is_virtual ? make_virtual_world({.seed = seed,
                                                      .serialise = topology.nodes.size() > 1,
                                                      .rare_branches = faults == FaultsOf::scenario,
                                                      .log_disk = below},
                                                     faulty)
                                : make_real_world(std::max(2U, std::thread::hardware_concurrency()));
  RunOptions run;
  run.log_path = folder + "/events.jsonl";
  if (topology.checkpoint.every > 0) run.checkpoint_folder = folder + "/checkpoints";
  run.deadline = scenario.deadline;
  std::shared_ptr<FaultBoard> board;
  if (faults == FaultsOf::scenario) {
    for (const MoveSpec& m : scenario.moves)
      run.moves.push_back({m.iteration, m.layers, m.to, m.layout, "the scenario", {}});
    board = std::make_shared<FaultBoard>(scenario, topology, seed);
    if (is_virtual && has_disk_faults(scenario)) board->use(*faulty);
    world->inject(board);
  }
  ScenarioRecord record;
  record.seed = seed;
  record.result = run_job(*world, topology, run);
  if (board) record.moments = board->moments();
  if (!run.checkpoint_folder.empty()) {
    const CheckpointChoice newest = newest_verified(*below, run.checkpoint_folder);
    const auto info = newest.path ? read_manifest(*below, *newest.path) : std::string();
    if (const auto* found = std::get_if<CheckpointInfo>(&info)) record.newest_checkpoint = found->iteration;
  }
  if (const auto log = below->read(run.log_path)) record.last_events = last_lines(log.value());
  return record;
}

}  // namespace stagecraft
