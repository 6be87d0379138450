// What stages make of the costs of a request when they run by these plans. Pure; any thread.
#pragma once

#include <cstdint>
#include <vector>

#include "planning/plan.hpp"

namespace stagecraft {

/// With so many credits per boundary and direction. The plans need not be those of the request.
SimulationResult forecast(const PlanRequest& request, std::vector<StagePlan> plans, std::uint32_t credits);

}  // namespace stagecraft
