#include "planning/generate/zero_bubble.hpp"

#include <algorithm>

namespace stagecraft {

std::vector<std::uint32_t> zero_bubble_warmup(ScheduleKind kind, const PipelineShape& shape) {
  std::vector<std::uint32_t> warmup(shape.stages);
  for (std::uint32_t s = 0; s < shape.stages; ++s) {
    const std::uint32_t behind = shape.stages - 1 - s;
    warmup[s] = std::min(shape.micro_batches, (kind == ScheduleKind::zb_h2 ? 2 : 1) * behind + 1);
  }
  return warmup;
}

Schedule zero_bubble(ScheduleKind kind, const PipelineShape& shape, const std::vector<std::uint32_t>& warmup) {
  Schedule schedule;
  const std::uint32_t all = shape.micro_batches;
  for (std::uint32_t s = 0; s < shape.stages; ++s) {
    std::vector<Operator>& order = schedule.operators.emplace_back();
    order.reserve(std::size_t{3} * all);
    const auto put = [&](OperatorKind op, std::uint32_t& next) {
      if (next < all) order.push_back({op, ChunkId{s}, MicroBatch{shape.first.value + next++}});
    };
    const std::uint32_t lag = kind == ScheduleKind::zb_h2 ? 2 * s : s;
    std::uint32_t forwards = 0, backwards = 0, weights = 0;
    while (forwards + 1 < std::min(warmup[s], all)) put(OperatorKind::forward, forwards);
    while (backwards < all) {
      put(OperatorKind::forward, forwards);
      put(OperatorKind::backward_input, backwards);
      if (backwards > lag) put(OperatorKind::backward_weight, weights);
    }
    while (weights < all) put(OperatorKind::backward_weight, weights);
  }
  return schedule;
}

}  // namespace stagecraft
