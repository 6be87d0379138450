// A scenario back as a file, so that one which was drawn and shrunk can be kept and run again. Any thread.
#pragma once

#include <string>

#include "config/scenario.hpp"

namespace stagecraft {

/// YAML that `load_scenario(scenario.file, ...)` reads back to the same values. Keys that have their default are left
/// out. The topology is named from the folder of `scenario.file`, so set that first where the file is to lie elsewhere;
/// a topology that can't be named from there becomes an absolute path. `comment` goes to the top, line by line.
std::string describe(const Scenario& scenario, const std::string& comment = "");

/// One fault of it, in braces.
std::string describe(const FaultSpec& fault);

}  // namespace stagecraft
