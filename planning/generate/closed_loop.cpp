#include "planning/generate/closed_loop.hpp"

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
        order.push_back({kind, shape.chunk_of(stage, local), MicroBatch{m}});
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

bool all_forwards_first(ScheduleKind kind) { return kind == ScheduleKind::gpipe || kind == ScheduleKind::bfs; }

}  // namespace

std::vector<std::uint32_t> closed_loop_warmup(ScheduleKind kind, const PipelineShape& shape) {
  const std::uint32_t all = shape.micro_batches * shape.chunks;
  std::vector<std::uint32_t> warmup(shape.stages, all);
  if (all_forwards_first(kind)) return warmup;
  const bool grouped = kind == ScheduleKind::interleaved;
  const std::uint32_t extra = grouped ? (shape.chunks - 1) * group_sizes(shape).front() : 0;
  for (std::uint32_t s = 0; s < shape.stages; ++s) {
    const std::uint32_t behind = shape.stages - 1 - s;
    warmup[s] = std::min(all, (grouped ? 2 : 1) * behind + extra + 1);
  }
  return warmup;
}

Schedule closed_loop(ScheduleKind kind, const PipelineShape& shape, const std::vector<std::uint32_t>& warmup) {
  const std::vector<std::uint32_t> sizes =
      kind == ScheduleKind::interleaved ? group_sizes(shape) : std::vector<std::uint32_t>{shape.micro_batches};
  Schedule schedule;
  for (std::uint32_t s = 0; s < shape.stages; ++s) {
    const Order forwards = in_groups(shape, StageId{s}, OperatorKind::forward, sizes, false);
    const Order backwards = in_groups(shape, StageId{s}, OperatorKind::backward, sizes, true);
    const auto count = all_forwards_first(kind) ? static_cast<std::uint32_t>(forwards.size()) : warmup[s];
    schedule.operators.push_back(one_forward_one_backward(forwards, backwards, count));
  }
  return schedule;
}

}  // namespace stagecraft
