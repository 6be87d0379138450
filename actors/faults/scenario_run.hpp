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
  std::uint32_t newest_checkpoint = 0;  ///< iteration of the newest sound one on the disk; 0: none
  std::string last_events;              ///< lines of the event log, the last ones
};

/// Whether the scenario's faults strike, or the run is there to be compared with.
enum class FaultsOf : std::uint8_t { scenario, nobody };

/// Where a run in the real world keeps its log and checkpoints: `<output.dir>/scenarios/<name>`.
std::string real_folder_of(const Scenario& scenario, const Topology& topology);

/// The disk that the scenario's files are read from; what a virtual run writes never reaches it. A real run empties
/// its folder first. Throws CannotStart.
ScenarioRecord run_scenario(const Scenario& scenario, const Topology& topology, std::uint64_t seed,
                            const std::shared_ptr<Disk>& disk, FaultsOf faults = FaultsOf::scenario);

}  // namespace stagecraft
