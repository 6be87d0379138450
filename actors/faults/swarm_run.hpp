// Runs what a swarm draws from one topology, seed by seed, and makes failures smaller. What the verb
// `scenario swarm` and the tests share. On the thread that calls.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "actors/faults/judge.hpp"
#include "actors/faults/scenario_run.hpp"
#include "actors/faults/swarm.hpp"

namespace stagecraft {

class SwarmRunner {
 public:
  struct Outcome {
    Scenario scenario;
    ScenarioRecord record;
    std::vector<Broken> broken;  ///< empty: all is well
  };

  /// `text` of the topology `file`, which must be valid; `disk` has the training text. Throws CannotStart when the job
  /// does not end well without faults.
  SwarmRunner(const std::string& file, std::string text, std::shared_ptr<Disk> disk);

  Outcome run(std::uint64_t seed);
  /// Runs a scenario of this topology.
  Outcome run(const Scenario& scenario);
  /// The run without faults that others are compared with.
  const RunResult& fault_free(std::uint32_t iterations);
  /// The same failure with less.
  Scenario smaller(const Outcome& failure, std::uint32_t tries);

 private:
  Topology topology_of(Scenario& scenario) const;

  std::string text_;
  std::shared_ptr<Disk> disk_;
  SwarmSpace space_;
  std::map<std::uint32_t, RunResult> fault_free_;  // by the number of iterations: every layout has the same bits
};

}  // namespace stagecraft
