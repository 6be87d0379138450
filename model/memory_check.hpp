// Does every stage fit on its device? Pure; any thread.
#pragma once

#include <string>
#include <vector>

#include "config/topology.hpp"
#include "model/job_plan.hpp"

namespace stagecraft {

/// One sentence, with both numbers and what to try, for every stage whose estimate exceeds its device's memory.
std::vector<std::string> memory_shortages(const Topology& topology, const JobPlan& plan);

}  // namespace stagecraft
