// What is printed of one run of a scenario. Pure.
#pragma once

#include <string>
#include <vector>

#include "actors/faults/judge.hpp"

namespace stagecraft::tools {

/// One line when all is well; else the seed, what is broken, the last events, and the command that shows it again.
std::string verdict_text(const Scenario& scenario, const ScenarioRecord& record, const std::vector<Broken>& broken,
                         const std::string& replay);
/// One object on one line.
std::string verdict_json(const std::string& file, const Scenario& scenario, const ScenarioRecord& record,
                         const std::vector<Broken>& broken, const std::string& replay);
/// The exit code of one run.
int code_of(const ScenarioRecord& record, const std::vector<Broken>& broken);

}  // namespace stagecraft::tools
