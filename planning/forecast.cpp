#include "planning/forecast.hpp"

#include <utility>

namespace stagecraft {

SimulationResult forecast(const PlanRequest& request, std::vector<StagePlan> plans, std::uint32_t credits) {
  SimulationInput input;
  input.shape = request.shape;
  input.plans = std::move(plans);
  input.times = request.times;
  input.forward_links = request.forward_links;
  input.backward_links = request.backward_links;
  input.bytes = request.bytes;
  input.buffers = request.buffers;
  input.credits = credits;
  return simulate(input);
}

}  // namespace stagecraft
