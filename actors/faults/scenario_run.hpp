// Runs one seed of a scenario from start to end, and the same job without faults to compare it with. What the verbs
// `scenario run` and `scenario swarm`, the soak and the tests share. On the thread that calls; one world at a time.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "actors/faults/fault_board.hpp"
#include "actors/runtime.hpp"
#include "config/scenario.hpp"

namespace stagecraft {

/// What a run under faults left behind.
struct ScenarioRecord {
  std::uint64_t seed = 0;
  RunResult result;
  std::vector<FaultMoment> moments;     ///< when faults struck and healed, in order
  bool out_of_time = false;             ///< the scenario's deadline has passed
  std::uint32_t newest_checkpoint = 0;  ///< iteration of the newest sound one on the disk; 0: none
  std::string last_events;              ///< lines of the event log, the last ones
};

struct ScenarioRunOptions {
  bool faults = true;            ///< false: the fault-free run
  bool serialise = true;         ///< control messages between nodes go through their wire form
  std::size_t last_events = 30;  ///< how many to keep
};

/// The disk that the scenario's files are read from; what a virtual run writes never reaches it. A real run keeps its
/// log and checkpoints in `<output.dir>/scenarios/<name>`, which it empties first. Throws CannotStart.
ScenarioRecord run_scenario(const Scenario& scenario, const Topology& topology, std::uint64_t seed,
                            const std::shared_ptr<Disk>& disk, const ScenarioRunOptions& options = {});

}  // namespace stagecraft
