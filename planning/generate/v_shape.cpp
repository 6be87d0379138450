#include "planning/generate/v_shape.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <vector>

#include "planning/bug.hpp"

namespace stagecraft {

namespace {

constexpr OperatorKind F = OperatorKind::forward, B = OperatorKind::backward_input, W = OperatorKind::backward_weight;
constexpr std::uint32_t period = 6;  // slots: F, B and W of both chunks

// One stage's list of zb-v, written for at least 2p-1 micro-batches; those beyond the shape's are dropped.
class ZeroBubbleVList {
 public:
  ZeroBubbleVList(const PipelineShape& shape, StageId stage)
      : shape_(shape), stage_(stage), all_(std::max(shape.micro_batches, 2 * shape.stages - 1)) {}

  std::vector<Operator> write() {
    const std::uint32_t s = stage_.value, down = shape_.stages - s;
    repeat(2 * down - 1, {{front, F}});
    repeat(s, {{back, F}, {front, F}});
    repeat(down, {{back, F}, {back, B}, {back, W}});
    while (next_[front][0] < all_ || next_[back][0] < all_)
      repeat(1, {{front, F}, {front, B}, {front, W}, {back, F}, {back, B}, {back, W}});
    repeat(s, {{front, B}, {back, B}});
    repeat(down, {{front, B}, {front, W}});
    repeat(all_, {{back, W}});
    repeat(all_, {{front, W}});
    return std::move(order_);
  }

 private:
  enum Side : std::uint32_t { front, back };
  struct Step {
    Side side;
    OperatorKind kind;
  };

  void repeat(std::uint32_t times, std::initializer_list<Step> steps) {
    for (std::uint32_t i = 0; i < times; ++i)
      for (const Step& step : steps) put(step);
  }
  void put(const Step& step) {
    std::uint32_t& next = next_[step.side][static_cast<std::size_t>(step.kind)];
    if (next < shape_.micro_batches)
      order_.push_back({step.kind, shape_.chunk_of(stage_, step.side), MicroBatch{shape_.first.value + next}});
    if (next < all_) ++next;
  }

  const PipelineShape& shape_;
  StageId stage_;
  std::uint32_t all_;
  std::array<std::array<std::uint32_t, 3>, 2> next_{};  // by side and kind
  std::vector<Operator> order_;
};

// The slots of the first micro-batch on a stage: F front, F back, B back, B front. The gap g keeps the four apart
// modulo the period.
std::array<std::uint32_t, 4> block(ScheduleKind kind, std::uint32_t p, std::uint32_t s) {
  if (kind == ScheduleKind::v_min) {
    const std::uint32_t g = p % 3 == 0 ? 2 : 0;
    return {s, 2 * p - 1 - s, 2 * p + g + s, 4 * p + g - 1 - s};
  }
  const std::uint32_t g = p % 2 == 0 ? 3 : 0;
  return {2 * s, 3 * p - 2 - s, 3 * p - 1 + g + 2 * s, 6 * p - 2 + g - s};
}

// Slots of one stage, each with at most one operator; as many as are used.
class Slots {
 public:
  bool taken(std::size_t slot) const { return slot < slots_.size() && slots_[slot]; }
  void put(std::size_t slot, const Operator& op) {
    if (slots_.size() <= slot) slots_.resize(slot + 1);
    STAGECRAFT_ASSERT(!slots_[slot], "{} and {} both want slot {}", to_text(*slots_[slot]), to_text(op), slot);
    slots_[slot] = op;
  }
  void add_weights() {
    for (std::size_t slot = 0; slot < slots_.size(); ++slot) {
      if (!slots_[slot] || slots_[slot]->kind != B) continue;
      std::size_t free = slot + 1;
      while (taken(free)) ++free;
      put(free, {W, slots_[slot]->chunk, slots_[slot]->micro_batch});
    }
  }
  std::vector<Operator> list() const {
    std::vector<Operator> order;
    for (const auto& slot : slots_)
      if (slot) order.push_back(*slot);
    return order;
  }

 private:
  std::vector<std::optional<Operator>> slots_;
};

}  // namespace

Schedule zero_bubble_v(const PipelineShape& shape) {
  Schedule schedule;
  for (std::uint32_t s = 0; s < shape.stages; ++s)
    schedule.operators.push_back(ZeroBubbleVList(shape, StageId{s}).write());
  return schedule;
}

Schedule repeated_block(ScheduleKind kind, const PipelineShape& shape) {
  Schedule schedule;
  for (std::uint32_t s = 0; s < shape.stages; ++s) {
    const ChunkId front = shape.chunk_of(StageId{s}, 0), back = shape.chunk_of(StageId{s}, 1);
    const auto [front_f, back_f, back_b, front_b] = block(kind, shape.stages, s);
    Slots slots;
    for (std::uint32_t j = 0; j < shape.micro_batches; ++j) {
      const MicroBatch m{shape.first.value + j};
      slots.put(front_f + period * j, {F, front, m});
      slots.put(back_f + period * j, {F, back, m});
      slots.put(back_b + period * j, {B, back, m});
      slots.put(front_b + period * j, {B, front, m});
    }
    slots.add_weights();
    schedule.operators.push_back(slots.list());
  }
  return schedule;
}

std::uint32_t block_memory(ScheduleKind kind, std::uint32_t stages) {
  return 2 * (kind == ScheduleKind::v_min ? (stages + 4) / 3 : (stages + 2) / 2);
}

}  // namespace stagecraft
