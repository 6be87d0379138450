#include "model/memory_check.hpp"

#include <fmt/format.h>

namespace stagecraft {

std::vector<std::string> memory_shortages(const Topology& topology, const JobPlan& plan) {
  std::vector<std::string> problems;
  for (std::uint32_t r = 0; r < topology.pipeline.replicas; ++r)
    for (std::uint32_t s = 0; s < topology.pipeline.stages; ++s) {
      const Bytes need = plan.memory[r][s].total(), have = topology.device({{s}, {r}}).memory;
      if (have.value == 0 || need <= have) continue;
      problems.push_back(
          fmt::format("stage {} of replica {} needs {} and its device has {}: give it more memory, use "
                      "more stages or a smaller model, or keep fewer micro-batches in flight "
                      "(pipeline.warmup, pipeline.caps)",
                      s, r, format(need), format(have)));
    }
  return problems;
}

}  // namespace stagecraft
