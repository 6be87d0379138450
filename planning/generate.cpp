#include "planning/generate.hpp"

#include <algorithm>

namespace stagecraft {

namespace {

using Order = std::vector<Operator>;

// Sizes of the consecutive groups of micro-batches that an interleaved schedule runs chunk by chunk: as many groups as
// fit the number of stages, sizes differing by at most one, larger first. Other splits deadlock or cost bubbles.
std::vector<std::uint32_t> group_sizes(const PipelineShape& shape) {
  const std::uint32_t rounds = std::max(1U, shape.micro_batches / shape.stages);
  std::vector<std::uint32_t> sizes(rounds, shape.micro_batches / rounds);
  for (std::uint32_t i = 0; i < shape.micro_batches % rounds; ++i) ++sizes[i];
  return sizes;
}

// All operators of one kind of one stage: group by group, chunk by chunk (`deepest_first` for backwards).
Order in_groups(const PipelineShape& shape, StageId stage, OperatorKind kind, const std::vector<std::uint32_t>& sizes,
                bool deepest_first) {
  Order order;
  std::uint32_t begin = shape.first.value;
  for (const std::uint32_t size : sizes) {
    for (std::uint32_t i = 0; i < shape.chunks; ++i) {
      const std::uint32_t local = deepest_first ? shape.chunks - 1 - i : i;
      for (std::uint32_t m = begin; m < begin + size; ++m)
        order.push_back({kind, ChunkId{local * shape.stages + stage.value}, MicroBatch{m}});
    }
    begin += size;
  }
  return order;
}

// `warmup` forwards, of which the last is directly followed by the first backward; then one of each until done.
Order one_forward_one_backward(const Order& forwards, const Order& backwards, std::uint32_t warmup) {
  Order order;
  std::size_t next = std::min<std::size_t>(std::max(warmup, 1U) - 1, forwards.size());
  order.assign(forwards.begin(), forwards.begin() + static_cast<std::ptrdiff_t>(next));
  for (const Operator& backward : backwards) {
    if (next < forwards.size()) order.push_back(forwards[next++]);
    order.push_back(backward);
  }
  return order;
}

}  // namespace

std::vector<std::uint32_t> natural_warmup(ScheduleKind kind, const PipelineShape& shape) {
  std::vector<std::uint32_t> warmup(shape.stages);
  const std::uint32_t all = shape.micro_batches * shape.chunks;
  for (std::uint32_t s = 0; s < shape.stages; ++s) {
    const std::uint32_t behind = shape.stages - 1 - s;
    switch (kind) {
      case ScheduleKind::gpipe:
      case ScheduleKind::bfs:
        warmup[s] = all;
        break;
      case ScheduleKind::one_f_one_b:
        warmup[s] = std::min(all, behind + 1);
        break;
      case ScheduleKind::interleaved:
        warmup[s] = std::min(all, 2 * behind + (shape.chunks - 1) * group_sizes(shape).front() + 1);
        break;
      default:
        break;
    }
    warmup[s] = std::max(warmup[s], 1U);
  }
  return warmup;
}

Schedule generate(ScheduleKind kind, const PipelineShape& shape, const std::vector<std::uint32_t>& warmup) {
  Schedule schedule;
  const bool grouped = kind == ScheduleKind::interleaved;
  const std::vector<std::uint32_t> sizes =
      grouped ? group_sizes(shape) : std::vector<std::uint32_t>{shape.micro_batches};
  for (std::uint32_t s = 0; s < shape.stages; ++s) {
    const Order forwards = in_groups(shape, StageId{s}, OperatorKind::forward, sizes, false);
    const Order backwards = in_groups(shape, StageId{s}, OperatorKind::backward, sizes, true);
    const bool all_first = kind == ScheduleKind::gpipe || kind == ScheduleKind::bfs;
    const auto count = all_first ? static_cast<std::uint32_t>(forwards.size()) : warmup[s];
    schedule.operators.push_back(one_forward_one_backward(forwards, backwards, count));
  }
  return schedule;
}

}  // namespace stagecraft
