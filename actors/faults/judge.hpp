// Says what a run under faults did not keep: the expectations of its scenario, and what must hold in every run. Pure.
#pragma once

#include <string>
#include <vector>

#include "actors/faults/scenario_run.hpp"

namespace stagecraft {

/// Something that was not as it should be.
struct Broken {
  std::string what;  ///< the expectation or invariant, in the words of the file
  std::string text;  ///< what was found instead, with the numbers
  Position at;       ///< of the expectation; line 0: of no expectation
};

/// In the order of the file, what holds in every run first. `fault_free`: the same job without faults, in the same
/// world. Empty when all is well.
std::vector<Broken> judge(const Scenario& scenario, const ScenarioRecord& record, const RunResult& fault_free);

}  // namespace stagecraft
