#include "planning/stage_machine.hpp"

#include <algorithm>
#include <utility>

#include "planning/bug.hpp"

namespace stagecraft {

using stage_effect::Accumulated;
using stage_effect::Adopt;
using stage_effect::Announce;
using stage_effect::Arm;
using stage_effect::Emit;
using stage_effect::Start;
using stage_effect::Wake;
using stage_event::Announced;
using stage_event::Arrived;
using stage_event::Choose;
using stage_event::Finished;
using stage_event::Wanted;

StageMachine::StageMachine(StagePlan plan)
    : plan_(std::move(plan)),
      cells_(plan_.chunks.size() * plan_.micro_batches),
      next_weight_(plan_.chunks.size(), plan_.first.value) {
  if (plan_.dispatch == Dispatch::follow) {
    STAGECRAFT_ASSERT(plan_.paces.size() == plan_.order.size(), "{} paces for {} operators", plan_.paces.size(),
                      plan_.order.size());
    follow_ = FollowRule(plan_.order.size());
    expected_.resize(2 * cells_.size());
  }
  if (has_list()) return;
  for (ReadySet& set : candidates_) set = ReadySet(cells_.size());
  lacking_.assign(plan_.micro_batches, static_cast<std::uint32_t>(plan_.chunks.size()));
}

std::size_t StageMachine::local(ChunkId chunk) const {
  std::size_t index = 0;
  while (index < plan_.chunks.size() && plan_.chunks[index] != chunk) ++index;
  STAGECRAFT_ASSERT(index < plan_.chunks.size(), "chunk {} is not hosted here", chunk.value);
  return index;
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
  if (has_list()) return arm(effects);
  if (event.direction == Direction::forward) {
    offer(forwards, event.chunk, event.micro_batch);
  } else if (cell.forward_done) {
    offer(backwards, event.chunk, event.micro_batch);
  }
  arm(effects);
}

void StageMachine::on(const Announced& event, std::vector<StageEffect>& effects) {
  if (plan_.dispatch != Dispatch::follow) return;
  expect(event.chunk, event.direction, event.micro_batch, event.expected);
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
        emit(op.chunk, Direction::forward, op.micro_batch, effects);
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
  if (!starts_here(op.chunk)) emit(op.chunk, Direction::backward, op.micro_batch, effects);
}

// An output that stays on this stage is on its way now, which follow must know.
void StageMachine::emit(ChunkId chunk, Direction direction, MicroBatch micro_batch, std::vector<StageEffect>& effects) {
  effects.emplace_back(Emit{chunk, direction, micro_batch});
  const ChunkId to{direction == Direction::forward ? chunk.value + 1 : chunk.value - 1};
  if (plan_.dispatch == Dispatch::follow && hosts(to)) expect(to, direction, micro_batch, now_);
}

std::optional<Duration>& StageMachine::expected(ChunkId chunk, Direction direction, MicroBatch micro_batch) {
  const std::size_t cell = local(chunk) * plan_.micro_batches + (micro_batch.value - plan_.first.value);
  return expected_[2 * cell + (direction == Direction::backward ? 1 : 0)];
}

void StageMachine::expect(ChunkId chunk, Direction direction, MicroBatch micro_batch, Duration at) {
  expected(chunk, direction, micro_batch) = at;
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
  if (const auto op = choose(effects)) {
    begin(*op, effects);
  } else if (!services_.empty()) {
    busy_ = true;
    effects.emplace_back(Start{services_.front()});
    services_.pop_front();
  }
}

void StageMachine::begin(const Operator& op, std::vector<StageEffect>& effects) {
  busy_ = true;
  Cell& cell = at(op.chunk, op.micro_batch);
  switch (op.kind) {
    case OperatorKind::forward:
      cell.forward_started = true;
      ++forwards_started_;
      if (!has_list()) --lacking_[op.micro_batch.value - plan_.first.value];
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
  if (!has_list()) {
    withdraw(op);
    while (lowest_ < plan_.micro_batches && lacking_[lowest_] == 0) ++lowest_;
  }
  peaks_.activations = std::max(peaks_.activations, forwards_started_ - backwards_done_);
  peaks_.held = std::max(peaks_.held, forwards_started_ - weights_done_);
  effects.emplace_back(Start{op});
}

void StageMachine::announce(const Operator& op, Duration after, std::vector<StageEffect>& effects) const {
  const bool forward = op.kind == OperatorKind::forward;
  if (op.kind == OperatorKind::backward_weight || (forward ? ends_here(op.chunk) : starts_here(op.chunk))) return;
  if (hosts({forward ? op.chunk.value + 1 : op.chunk.value - 1})) return;
  effects.emplace_back(Announce{op.chunk, forward ? Direction::forward : Direction::backward, op.micro_batch, after});
}

std::optional<Operator> StageMachine::choose(std::vector<StageEffect>& effects) {
  switch (plan_.dispatch) {
    case Dispatch::reactive:
      return choose_reactive();
    case Dispatch::in_order:
      if (cursor_ < plan_.order.size() && ready(plan_.order[cursor_])) return plan_.order[cursor_++];
      return std::nullopt;
    case Dispatch::follow:
      return choose_following(effects);
  }
  return std::nullopt;
}

std::optional<Operator> StageMachine::choose_following(std::vector<StageEffect>& effects) {
  const HeldCounts counts{forwards_started_ - backwards_done_, backwards_done_ - weights_done_,
                          forwards_started_ - weights_done_};
  const FollowRule::Choice choice = follow_.choose(
      {plan_.order, plan_.paces, plan_.caps, counts, now_}, [this](const Operator& op) { return ready(op); },
      [this](const Operator& op) -> std::optional<Duration> {
        if (op.kind == OperatorKind::backward_weight) return std::nullopt;
        const Direction way = op.kind == OperatorKind::forward ? Direction::forward : Direction::backward;
        return expected(op.chunk, way, op.micro_batch);
      });
  if (choice.wake) effects.emplace_back(Wake{*choice.wake});
  if (!choice.start) return std::nullopt;
  follow_.started(*choice.start);
  announce(plan_.order[*choice.start], plan_.paces[*choice.start].duration, effects);
  return plan_.order[*choice.start];
}

// B frees memory and unblocks upstream, then F, then W. Lowest micro-batch first; of one micro-batch, a backward takes
// the deepest chunk and the others the first.
std::optional<Operator> StageMachine::choose_reactive() const {
  for (const Class kind : {backwards, forwards, weights})
    for (auto n = candidates_[kind].lowest(); n; n = candidates_[kind].lowest(*n + 1)) {
      const Operator op = candidate(kind, *n);
      if (fits(op)) return op;
    }
  return std::nullopt;
}

// Ordered by priority: lowest micro-batch first, then the rank of its chunk.
std::size_t StageMachine::entry(Class kind, ChunkId chunk, MicroBatch micro_batch) const {
  const std::size_t index = local(chunk), rank = kind == backwards ? plan_.chunks.size() - 1 - index : index;
  return (micro_batch.value - plan_.first.value) * plan_.chunks.size() + rank;
}

Operator StageMachine::candidate(Class kind, std::size_t n) const {
  static constexpr OperatorKind kinds[] = {OperatorKind::backward_input, OperatorKind::forward,
                                           OperatorKind::backward_weight};
  const std::size_t rank = n % plan_.chunks.size();
  const std::size_t index = kind == backwards ? plan_.chunks.size() - 1 - rank : rank;
  return {kinds[kind], plan_.chunks[index],
          MicroBatch{plan_.first.value + static_cast<std::uint32_t>(n / plan_.chunks.size())}};
}

void StageMachine::offer(Class kind, ChunkId chunk, MicroBatch micro_batch) {
  if (!has_list()) candidates_[kind].insert(entry(kind, chunk, micro_batch));
}

void StageMachine::offer_weight(ChunkId chunk, MicroBatch micro_batch) {
  if (has_list()) return;
  const Operator op{OperatorKind::backward_weight, chunk, micro_batch};
  if (ready(op)) offer(weights, chunk, micro_batch);
}

void StageMachine::withdraw(const Operator& op) {
  const Class kind = op.kind == OperatorKind::forward           ? forwards
                     : op.kind == OperatorKind::backward_weight ? weights
                                                                : backwards;
  candidates_[kind].erase(entry(kind, op.chunk, op.micro_batch));
}

bool StageMachine::ready(const Operator& op) const {
  const Cell& cell = at(op.chunk, op.micro_batch);
  switch (op.kind) {
    case OperatorKind::forward:
      return cell.input && !cell.forward_started;
    case OperatorKind::backward_input:
      return cell.gradient && cell.forward_done && !cell.backward_started;
    case OperatorKind::backward:
      return cell.gradient && cell.forward_done && !cell.backward_started && weight_due(op);
    case OperatorKind::backward_weight:
      return cell.backward_done && !cell.weight_started && weight_due(op);
  }
  return false;
}

bool StageMachine::weight_due(const Operator& op) const {
  return plan_.free_weight_order || next_weight_[local(op.chunk)] == op.micro_batch.value;
}

// Reactive dispatch only. A backward takes the last place only if its W is the next of its chunk, so that the place
// comes back.
bool StageMachine::fits(const Operator& op) const {
  const StageCaps& caps = plan_.caps;
  if (op.kind == OperatorKind::forward && backwards_started_ == 0 && plan_.warmup && forwards_started_ >= *plan_.warmup)
    return false;
  if (op.kind == OperatorKind::forward)
    return admits(caps.activations, forwards_started_ - backwards_done_, op) &&
           admits(caps.held, forwards_started_ - weights_done_, op);
  if (op.kind != OperatorKind::backward_input || !caps.pending_weights) return true;
  const std::uint32_t used = backwards_started_ - weights_done_;
  if (used >= *caps.pending_weights) return false;
  return plan_.rule == CapsRule::greedy || used + 1 < *caps.pending_weights || weight_due(op);
}

// A forward takes a place only if the lowest micro-batch that lacks some keeps enough, or is the one that asks.
bool StageMachine::admits(std::optional<std::uint32_t> cap, std::uint32_t used, const Operator& op) const {
  if (!cap) return true;
  if (used >= *cap) return false;
  if (plan_.rule == CapsRule::greedy || op.micro_batch.value - plan_.first.value == lowest_) return true;
  return lowest_ == plan_.micro_batches || *cap - used > lacking_[lowest_];
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

std::optional<Operator> StageMachine::next() const {
  if (plan_.dispatch == Dispatch::in_order)
    return cursor_ < plan_.order.size() ? std::optional(plan_.order[cursor_]) : std::nullopt;
  if (plan_.dispatch == Dispatch::follow)
    return follow_.head() < plan_.order.size() ? std::optional(plan_.order[follow_.head()]) : std::nullopt;
  for (std::uint32_t m = 0; m < plan_.micro_batches; ++m)
    if (const auto op = first_missing({plan_.first.value + m})) return op;
  return std::nullopt;
}

std::optional<ChunkId> StageMachine::awaits() const {
  const auto op = busy_ ? std::nullopt : next();
  if (!op) return std::nullopt;
  const Cell& cell = at(op->chunk, op->micro_batch);
  if (op->kind == OperatorKind::forward && !cell.input && !starts_here(op->chunk)) return ChunkId{op->chunk.value - 1};
  const bool is_backward = op->kind == OperatorKind::backward_input || op->kind == OperatorKind::backward;
  if (is_backward && cell.forward_done && !cell.gradient) return ChunkId{op->chunk.value + 1};
  return std::nullopt;
}

std::string StageMachine::explain() const {
  if (busy_) return "an operator is running";
  if (finished()) return services_.empty() ? "all operators done" : "all operators done, a service operator is due";
  const auto op = next();
  if (!op) return "idle";
  return fmt::format("idle; next {} waits for {}", to_text(*op), missing(*op));
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
    std::string operator()(const Announce& e) const {
      return fmt::format("announce {} of micro-batch {} from chunk {} in {}", way(e.direction), e.micro_batch.value,
                         e.chunk.value, format(e.after));
    }
    std::string operator()(const Arm&) const { return "arm"; }
    std::string operator()(const Wake& e) const { return fmt::format("wake at {}", format(e.at)); }
  };
  return std::visit(Text{}, effect);
}

}  // namespace stagecraft
