#include "planning/stage_machine.hpp"

#include <algorithm>
#include <utility>

#include "planning/bug.hpp"

namespace stagecraft {

using namespace stage_event;
using namespace stage_effect;

StageMachine::StageMachine(StagePlan plan)
    : plan_(std::move(plan)),
      cells_(plan_.chunks.size() * plan_.micro_batches),
      next_weight_(plan_.chunks.size(), plan_.first.value) {}

std::vector<StageEffect> StageMachine::step(const StageEvent& event) {
  std::vector<StageEffect> effects;
  std::visit([&](const auto& e) { on(e, effects); }, event);
  return effects;
}

std::size_t StageMachine::local(ChunkId chunk) const {
  const auto it = std::find(plan_.chunks.begin(), plan_.chunks.end(), chunk);
  STAGECRAFT_ASSERT(it != plan_.chunks.end(), "chunk {} is not hosted here", chunk.value);
  return static_cast<std::size_t>(it - plan_.chunks.begin());
}

const StageMachine::Cell& StageMachine::at(ChunkId chunk, MicroBatch micro_batch) const {
  const std::uint32_t m = micro_batch.value - plan_.first.value;
  STAGECRAFT_ASSERT(micro_batch >= plan_.first && m < plan_.micro_batches, "micro-batch {} is not of this replica",
                    micro_batch.value);
  return cells_[local(chunk) * plan_.micro_batches + m];
}

StageMachine::Cell& StageMachine::at(ChunkId chunk, MicroBatch micro_batch) {
  return const_cast<Cell&>(std::as_const(*this).at(chunk, micro_batch));
}

void StageMachine::arm(std::vector<StageEffect>& effects) {
  if (busy_ || armed_) return;
  armed_ = true;
  effects.emplace_back(Arm{});
}

void StageMachine::on(const Arrived& event, std::vector<StageEffect>& effects) {
  Cell& cell = at(event.chunk, event.micro_batch);
  bool& here = event.direction == Direction::forward ? cell.input : cell.gradient;
  STAGECRAFT_ASSERT(!here, "micro-batch {} came twice to chunk {}", event.micro_batch.value, event.chunk.value);
  here = true;
  arm(effects);
}

void StageMachine::on(const Wanted& event, std::vector<StageEffect>& effects) {
  services_.push_back(event.op);
  arm(effects);
}

void StageMachine::on(const Finished& event, std::vector<StageEffect>& effects) {
  STAGECRAFT_ASSERT(busy_, "an operator finished that was never started");
  busy_ = false;
  if (const auto* op = std::get_if<Operator>(&event.op)) finish(*op, effects);
  arm(effects);
}

void StageMachine::finish(const Operator& op, std::vector<StageEffect>& effects) {
  switch (op.kind) {
    case OperatorKind::forward: {
      Cell& cell = at(op.chunk, op.micro_batch);
      cell.forward_done = true;
      if (ends_here(op.chunk)) {
        cell.gradient = true;
      } else {
        effects.emplace_back(Emit{op.chunk, Direction::forward, op.micro_batch});
      }
      break;
    }
    case OperatorKind::backward_input:
      finish_backward(op, effects);
      break;
    case OperatorKind::backward_weight:
      finish_weight(op, effects);
      break;
    case OperatorKind::backward:
      finish_backward(op, effects);
      finish_weight(op, effects);
      break;
  }
}

void StageMachine::finish_backward(const Operator& op, std::vector<StageEffect>& effects) {
  at(op.chunk, op.micro_batch).backward_done = true;
  ++backwards_done_;
  peaks_.pending_weights = std::max(peaks_.pending_weights, backwards_done_ - weights_done_);
  if (!starts_here(op.chunk)) effects.emplace_back(Emit{op.chunk, Direction::backward, op.micro_batch});
}

void StageMachine::finish_weight(const Operator& op, std::vector<StageEffect>& effects) {
  at(op.chunk, op.micro_batch).weight_done = true;
  ++weights_done_;
  const std::uint32_t done = ++next_weight_[local(op.chunk)] - plan_.first.value;
  effects.emplace_back(Accumulated{op.chunk, op.micro_batch, done == plan_.micro_batches});
}

void StageMachine::on(const Choose&, std::vector<StageEffect>& effects) {
  armed_ = false;
  if (busy_) return;
  if (const auto op = choose()) {
    begin(*op, effects);
  } else if (!services_.empty()) {
    busy_ = true;
    effects.emplace_back(Start{services_.front()});
    services_.pop_front();
  }
}

void StageMachine::begin(const Operator& op, std::vector<StageEffect>& effects) {
  busy_ = true;
  if (plan_.dispatch == Dispatch::in_order) ++cursor_;
  Cell& cell = at(op.chunk, op.micro_batch);
  switch (op.kind) {
    case OperatorKind::forward:
      cell.forward_started = true;
      ++forwards_started_;
      if (!starts_here(op.chunk)) effects.emplace_back(Adopt{op.chunk, Direction::forward, op.micro_batch});
      break;
    case OperatorKind::backward_input:
    case OperatorKind::backward:
      cell.backward_started = true;
      ++backwards_started_;
      if (op.kind == OperatorKind::backward) cell.weight_started = true;
      if (!ends_here(op.chunk)) effects.emplace_back(Adopt{op.chunk, Direction::backward, op.micro_batch});
      break;
    case OperatorKind::backward_weight:
      cell.weight_started = true;
      break;
  }
  peaks_.activations = std::max(peaks_.activations, forwards_started_ - backwards_done_);
  peaks_.held = std::max(peaks_.held, forwards_started_ - weights_done_);
  effects.emplace_back(Start{op});
}

std::optional<Operator> StageMachine::choose() const {
  if (plan_.dispatch == Dispatch::reactive) return choose_reactive();
  if (cursor_ < plan_.order.size() && ready(plan_.order[cursor_])) return plan_.order[cursor_];
  return std::nullopt;
}

// B frees memory and unblocks upstream, then F, then W. Lowest micro-batch first; of one micro-batch, a backward takes
// the deepest chunk and the others the first.
std::optional<Operator> StageMachine::choose_reactive() const {
  for (const OperatorKind kind : {OperatorKind::backward_input, OperatorKind::forward, OperatorKind::backward_weight}) {
    for (std::uint32_t m = 0; m < plan_.micro_batches; ++m) {
      for (std::size_t i = 0; i < plan_.chunks.size(); ++i) {
        const bool deepest_first = kind == OperatorKind::backward_input;
        const ChunkId chunk = plan_.chunks[deepest_first ? plan_.chunks.size() - 1 - i : i];
        const Operator op{kind, chunk, MicroBatch{plan_.first.value + m}};
        if (ready(op) && fits(op)) return op;
      }
    }
  }
  return std::nullopt;
}

bool StageMachine::ready(const Operator& op) const {
  const Cell& cell = at(op.chunk, op.micro_batch);
  const bool weight_due = plan_.free_weight_order || next_weight_[local(op.chunk)] == op.micro_batch.value;
  switch (op.kind) {
    case OperatorKind::forward:
      return cell.input && !cell.forward_started;
    case OperatorKind::backward_input:
      return cell.gradient && cell.forward_done && !cell.backward_started;
    case OperatorKind::backward:
      return cell.gradient && cell.forward_done && !cell.backward_started && weight_due;
    case OperatorKind::backward_weight:
      return cell.backward_done && !cell.weight_started && weight_due;
  }
  return false;
}

// A list was validated against the caps when it was made, so they bind reactive dispatch only.
bool StageMachine::fits(const Operator& op) const {
  if (op.kind == OperatorKind::forward)
    return admits({plan_.warmup, forwards_started_ - backwards_done_, &Cell::forward_started}, op) &&
           admits({plan_.activations, forwards_started_ - weights_done_, &Cell::forward_started}, op);
  if (op.kind == OperatorKind::backward_input)
    return admits({plan_.pending_weights, backwards_started_ - weights_done_, &Cell::backward_started}, op);
  return true;
}

bool StageMachine::admits(const Cap& cap, const Operator& op) const {
  if (!cap.limit) return true;
  if (cap.used >= *cap.limit) return false;
  if (plan_.rule == CapsRule::greedy) return true;
  const std::uint32_t free = *cap.limit - cap.used;
  for (std::uint32_t m = 0; m < plan_.micro_batches; ++m) {
    std::uint32_t lacking = 0;  // places that the lowest unserved micro-batch still needs here
    for (std::size_t c = 0; c < plan_.chunks.size(); ++c)
      if (!(cells_[c * plan_.micro_batches + m].*cap.had)) ++lacking;
    if (lacking > 0) return plan_.first.value + m == op.micro_batch.value || free > lacking;
  }
  return true;
}

std::string StageMachine::missing(const Operator& op) const {
  const Cell& cell = at(op.chunk, op.micro_batch);
  switch (op.kind) {
    case OperatorKind::forward:
      if (!cell.input)
        return starts_here(op.chunk) ? "its tokens" : fmt::format("its input from chunk {}", op.chunk.value - 1);
      return "a free place under its caps";
    case OperatorKind::backward_input:
    case OperatorKind::backward:
      if (!cell.forward_done) return "its own forward";
      if (!cell.gradient) return fmt::format("its gradient from chunk {}", op.chunk.value + 1);
      return ready(op) ? "a free place under its caps" : "the weight gradient before it";
    case OperatorKind::backward_weight:
      return cell.backward_done ? "the weight gradient before it" : "its backward";
  }
  return "nothing";
}

std::string StageMachine::explain() const {
  if (busy_) return "an operator is running";
  if (finished()) return services_.empty() ? "all operators done" : "all operators done, a service operator is due";
  std::optional<Operator> next;
  if (plan_.dispatch == Dispatch::in_order) {
    if (cursor_ < plan_.order.size()) next = plan_.order[cursor_];
  } else {  // the lowest micro-batch that is not through, and its first missing operator
    for (std::uint32_t m = 0; m < plan_.micro_batches && !next; ++m) {
      for (std::size_t c = 0; c < plan_.chunks.size() && !next; ++c) {
        const Cell& cell = cells_[c * plan_.micro_batches + m];
        const MicroBatch micro_batch{plan_.first.value + m};
        if (!cell.forward_started)
          next = Operator{OperatorKind::forward, plan_.chunks[c], micro_batch};
        else if (!cell.backward_started)
          next = Operator{OperatorKind::backward_input, plan_.chunks[c], micro_batch};
        else if (!cell.weight_started)
          next = Operator{OperatorKind::backward_weight, plan_.chunks[c], micro_batch};
      }
    }
  }
  if (!next) return "idle";
  return fmt::format("idle; next {} waits for {}", to_text(*next), missing(*next));
}

std::string to_text(const StageEffect& effect) {
  struct Text {
    static std::string_view way(Direction d) { return d == Direction::forward ? "forward" : "backward"; }
    std::string operator()(const Start& e) const {
      if (const auto* op = std::get_if<Operator>(&e.op)) return "start " + to_text(*op);
      return fmt::format("start service {}", std::get<ServiceOperator>(e.op).id);
    }
    std::string operator()(const Emit& e) const {
      return fmt::format("emit {} of micro-batch {} from chunk {}", way(e.direction), e.micro_batch.value,
                         e.chunk.value);
    }
    std::string operator()(const Adopt& e) const {
      return fmt::format("adopt {} of micro-batch {} in chunk {}", way(e.direction), e.micro_batch.value,
                         e.chunk.value);
    }
    std::string operator()(const Accumulated& e) const {
      return fmt::format("accumulated micro-batch {} of chunk {}{}", e.micro_batch.value, e.chunk.value,
                         e.last ? ", the last" : "");
    }
    std::string operator()(const Arm&) const { return "arm"; }
  };
  return std::visit(Text{}, effect);
}

}  // namespace stagecraft
