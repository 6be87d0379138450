#include "planning/stage_machine.hpp"

#include <algorithm>
#include <utility>

#include "planning/bug.hpp"

namespace stagecraft {

using stage_effect::Accumulated;
using stage_effect::Adopt;
using stage_effect::Arm;
using stage_effect::Emit;
using stage_effect::Start;
using stage_event::Arrived;
using stage_event::Choose;
using stage_event::Finished;
using stage_event::Wanted;

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
  if (event.direction == Direction::forward) {
    offer(forwards, event.chunk, event.micro_batch);
  } else if (cell.forward_done) {
    offer(backwards, event.chunk, event.micro_batch);
  }
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
      if (cell.gradient) offer(backwards, op.chunk, op.micro_batch);
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
  // After both halves of a fused backward, which leaves nothing pending.
  peaks_.pending_weights = std::max(peaks_.pending_weights, backwards_done_ - weights_done_);
  offer_weight(op.chunk, op.micro_batch);
}

void StageMachine::finish_backward(const Operator& op, std::vector<StageEffect>& effects) {
  at(op.chunk, op.micro_batch).backward_done = true;
  ++backwards_done_;
  if (!starts_here(op.chunk)) effects.emplace_back(Emit{op.chunk, Direction::backward, op.micro_batch});
}

void StageMachine::finish_weight(const Operator& op, std::vector<StageEffect>& effects) {
  at(op.chunk, op.micro_batch).weight_done = true;
  ++weights_done_;
  const std::uint32_t done = ++next_weight_[local(op.chunk)] - plan_.first.value;
  effects.emplace_back(Accumulated{op.chunk, op.micro_batch, done == plan_.micro_batches});
  if (done < plan_.micro_batches) offer_weight(op.chunk, MicroBatch{plan_.first.value + done});
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
  withdraw(op);
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
  while (lowest_forward_ < plan_.micro_batches && lacking(lowest_forward_, &Cell::forward_started) == 0)
    ++lowest_forward_;
  while (lowest_backward_ < plan_.micro_batches && lacking(lowest_backward_, &Cell::backward_started) == 0)
    ++lowest_backward_;
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
// the deepest chunk and the others the first. Beyond the lowest unserved micro-batch all are treated alike, so the
// first that does not fit settles it for its class.
std::optional<Operator> StageMachine::choose_reactive() const {
  for (const Class kind : {backwards, forwards, weights}) {
    const std::uint32_t lowest = kind == backwards ? lowest_backward_ : lowest_forward_;
    for (const auto& entry : candidates_[kind]) {
      const Operator op = candidate(kind, entry);
      if (fits(kind, op.micro_batch)) return op;
      if (entry.first > lowest) break;
    }
  }
  return std::nullopt;
}

std::uint32_t StageMachine::rank(Class kind, ChunkId chunk) const {
  const auto index = static_cast<std::uint32_t>(local(chunk));
  return kind == backwards ? static_cast<std::uint32_t>(plan_.chunks.size()) - 1 - index : index;
}

Operator StageMachine::candidate(Class kind, std::pair<std::uint32_t, std::uint32_t> entry) const {
  static constexpr OperatorKind kinds[] = {OperatorKind::backward_input, OperatorKind::forward,
                                           OperatorKind::backward_weight};
  const std::size_t index = kind == backwards ? plan_.chunks.size() - 1 - entry.second : entry.second;
  return {kinds[kind], plan_.chunks[index], MicroBatch{plan_.first.value + entry.first}};
}

void StageMachine::offer(Class kind, ChunkId chunk, MicroBatch micro_batch) {
  if (plan_.dispatch == Dispatch::reactive)
    candidates_[kind].emplace(micro_batch.value - plan_.first.value, rank(kind, chunk));
}

void StageMachine::offer_weight(ChunkId chunk, MicroBatch micro_batch) {
  const Operator op{OperatorKind::backward_weight, chunk, micro_batch};
  if (ready(op)) offer(weights, chunk, micro_batch);
}

void StageMachine::withdraw(const Operator& op) {
  const Class kind = op.kind == OperatorKind::forward           ? forwards
                     : op.kind == OperatorKind::backward_weight ? weights
                                                                : backwards;
  candidates_[kind].erase({op.micro_batch.value - plan_.first.value, rank(kind, op.chunk)});
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
bool StageMachine::fits(Class kind, MicroBatch micro_batch) const {
  if (kind == forwards)
    return admits(plan_.warmup, forwards_started_ - backwards_done_, lowest_forward_, &Cell::forward_started,
                  micro_batch) &&
           admits(plan_.activations, forwards_started_ - weights_done_, lowest_forward_, &Cell::forward_started,
                  micro_batch);
  if (kind == backwards)
    return admits(plan_.pending_weights, backwards_started_ - weights_done_, lowest_backward_, &Cell::backward_started,
                  micro_batch);
  return true;
}

bool StageMachine::admits(std::optional<std::uint32_t> cap, std::uint32_t used, std::uint32_t lowest, bool Cell::*had,
                          MicroBatch micro_batch) const {
  if (!cap) return true;
  if (used >= *cap) return false;
  if (plan_.rule == CapsRule::greedy || micro_batch.value - plan_.first.value == lowest) return true;
  return lowest == plan_.micro_batches || *cap - used > lacking(lowest, had);
}

// Places that a micro-batch still needs on this stage.
std::uint32_t StageMachine::lacking(std::uint32_t micro_batch, bool Cell::*had) const {
  std::uint32_t count = 0;
  for (std::size_t c = 0; c < plan_.chunks.size(); ++c)
    if (!(cells_[c * plan_.micro_batches + micro_batch].*had)) ++count;
  return count;
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
      if (!cell.backward_done) return "its backward";
      return ready(op) ? "its turn" : "the weight gradient before it";
  }
  return "nothing";
}

// In the order in which the chunks depend on each other: forwards, then backwards from the deepest, then weights.
std::optional<Operator> StageMachine::first_missing(MicroBatch micro_batch) const {
  const auto& chunks = plan_.chunks;
  for (const ChunkId c : chunks)
    if (!at(c, micro_batch).forward_started) return Operator{OperatorKind::forward, c, micro_batch};
  for (auto c = chunks.rbegin(); c != chunks.rend(); ++c)
    if (!at(*c, micro_batch).backward_started) return Operator{OperatorKind::backward_input, *c, micro_batch};
  for (const ChunkId c : chunks)
    if (!at(c, micro_batch).weight_started) return Operator{OperatorKind::backward_weight, c, micro_batch};
  return std::nullopt;
}

std::string StageMachine::explain() const {
  if (busy_) return "an operator is running";
  if (finished()) return services_.empty() ? "all operators done" : "all operators done, a service operator is due";
  std::optional<Operator> next;  // reactive: of the lowest micro-batch that is not through
  if (plan_.dispatch == Dispatch::in_order) {
    if (cursor_ < plan_.order.size()) next = plan_.order[cursor_];
  } else {
    for (std::uint32_t m = 0; m < plan_.micro_batches && !next; ++m) next = first_missing({plan_.first.value + m});
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
