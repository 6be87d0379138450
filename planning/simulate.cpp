#include "planning/simulate.hpp"

#include <algorithm>
#include <bit>
#include <tuple>

#include "planning/bug.hpp"
#include "planning/event_heap.hpp"
#include "planning/link_machine.hpp"
#include "planning/link_server.hpp"
#include "planning/random.hpp"

namespace stagecraft {

namespace {

// Small on purpose: the queue moves millions of them.
struct Event {
  enum class Kind : std::uint8_t { finished, arrived, announced, wake, choose };
  Instant at{};
  std::uint32_t order = 0;  // within one instant
  StageId stage;
  ChunkId chunk;  // of an input: of the operator that it is for
  MicroBatch micro_batch;
  OperatorKind op_kind = OperatorKind::forward;
  Kind kind = Kind::finished;
  Operator op() const { return {op_kind, chunk, micro_batch}; }
  bool operator>(const Event& other) const { return at != other.at ? at > other.at : order > other.order; }
};
static_assert(sizeof(Event) <= 32);

Direction direction_of(const Operator& op) {
  return op.kind == OperatorKind::forward ? Direction::forward : Direction::backward;
}
OperatorKind kind_of(Direction direction) {
  return direction == Direction::forward ? OperatorKind::forward : OperatorKind::backward_input;
}

// One direction of one boundary.
struct Lane {
  LinkMachine machine;
  LinkCost cost;
  std::size_t server = 0;
  Duration service{};
  std::uint32_t in_slots = 0;
};

class Simulation {
 public:
  explicit Simulation(const SimulationInput& input)
      : in_(input), draws_(input.disturbance.seed, "simulate"), ledger_(input.shape, input.bytes, input.buffers) {
    const PipelineShape& shape = in_.shape;
    STAGECRAFT_ASSERT(in_.plans.size() == shape.stages, "{} plans for {} stages", in_.plans.size(), shape.stages);
    stages_.reserve(shape.stages);
    for (const StagePlan& plan : in_.plans) stages_.emplace_back(plan);
    armed_.resize((shape.stages + 63) / 64);
    running_.resize(shape.stages);
    inbox_.resize(shape.stages);
    for (std::uint32_t b = 0; b + 1 < shape.total_chunks(); ++b) open_boundary(b);
    result_.timeline.reserve(std::size_t{3} * shape.total_chunks() * shape.micro_batches);
  }

  SimulationResult run() {
    for (std::uint32_t m = 0; m < in_.shape.micro_batches; ++m) {
      const Operator first{OperatorKind::forward, {0}, {in_.shape.first.value + m}};
      deliver(delay(), Event::Kind::arrived, first);
    }
    while (!queue_.empty()) {
      now_ = queue_.front().at;
      while (!queue_.empty() && queue_.front().at == now_) apply(pop());
      choose();
    }
    for (std::uint32_t s = 0; s < stages_.size(); ++s) report(s);
    result_.peak_bytes = ledger_.peaks();
    return std::move(result_);
  }

 private:
  void open_boundary(std::uint32_t b) {
    const PipelineShape& shape = in_.shape;
    const LinkMachine machine(in_.credits, shape.first, shape.micro_batches);
    const bool inside = shape.is_inside(b);
    const LinkCost down = in_.forward_links.empty() || inside ? LinkCost{} : in_.forward_links[b];
    const LinkCost up = in_.backward_links.empty() || inside ? LinkCost{} : in_.backward_links[b];
    const auto service = [&](const LinkCost& cost, Direction direction) {
      if (!in_.boundary.empty()) return service_time(cost, in_.boundary[b]);
      if (in_.bytes.empty()) return service_time(cost, {});
      return service_time(cost, ledger_.crossing(direction, {direction == Direction::forward ? b + 1 : b}));
    };
    servers_.emplace_back(down.lanes, down.queue);
    forward_.push_back({machine, down, servers_.size() - 1, service(down, Direction::forward)});
    if (!(down.shared || up.shared)) servers_.emplace_back(up.lanes, up.queue);
    backward_.push_back({machine, up, servers_.size() - 1, service(up, Direction::backward)});
  }
  Lane& lane(ChunkId from, Direction direction) {
    return direction == Direction::forward ? forward_[from.value] : backward_[from.value - 1];
  }

  void push(Instant at, StageId stage, Event::Kind kind, const Operator& op = {}) {
    push({at, 0, stage, op.chunk, op.micro_batch, op.kind, kind});
  }
  void push(Event event) {
    event.order =
        in_.disturbance.eager ? static_cast<std::uint32_t>(keyed(in_.disturbance.seed, sequence_)) : sequence_;
    ++sequence_;
    queue_.push(event);
  }
  // An input, or word of one. A busy stage has no use for it before its device is free, and no event is cheaper than
  // one.
  void deliver(Instant at, Event::Kind kind, const Operator& op) {
    const StageId to = in_.shape.stage_of(op.chunk);
    if (!is_lazy_ || !running_[to.value]) return push(at, to, kind, op);
    inbox_[to.value].push_back({at, 0, to, op.chunk, op.micro_batch, op.kind, kind});
  }
  void empty_inbox(StageId stage) {
    std::vector<Event>& inbox = inbox_[stage.value];
    std::size_t kept = 0;
    for (const Event& event : inbox) {
      if (event.at <= now_) {
        apply(event);
      } else {
        inbox[kept++] = event;
      }
    }
    inbox.resize(kept);
  }
  Event pop() {
    ++result_.events;
    return queue_.pop();
  }
  Duration draw(Duration most) {
    return most.count() == 0 ? most : Duration(draws_.below(static_cast<std::uint64_t>(most.count()) + 1));
  }
  Duration delay() { return draw(in_.disturbance.message_delay); }

  void apply(const Event& event) {
    const Operator op = event.op();
    switch (event.kind) {
      case Event::Kind::finished:
        if (is_held_up(event)) return;
        running_[event.stage.value] = false;
        empty_inbox(event.stage);
        result_.makespan = std::max<Duration>(result_.makespan, now_);
        if (!in_.bytes.empty()) ledger_.finished(op);
        return tell(event.stage, stage_event::Finished{op});
      case Event::Kind::arrived:
        if (!in_.bytes.empty()) ledger_.arrived(op.chunk, direction_of(op));
        return tell(event.stage, stage_event::Arrived{op.chunk, direction_of(op), op.micro_batch});
      case Event::Kind::announced:
        return tell(event.stage,
                    stage_event::Announced{op.chunk, direction_of(op), op.micro_batch, event.at + announced(op)});
      case Event::Kind::wake:  // to choose, when the rest of the instant is known
        return apply(event.stage, stage_effect::Arm{});
      case Event::Kind::choose:
        if (in_.disturbance.eager) return tell(event.stage, stage_event::Choose{});
        return arm(event.stage);
    }
  }
  // To choose when the instant is quiet: an alarm too must not be heard before an input of the same moment.
  void arm(StageId stage) { armed_[stage.value / 64] |= std::uint64_t{1} << (stage.value % 64); }
  // Every stage that was armed, by number: nobody sees in between what another has chosen.
  void choose() {
    for (std::size_t word = 0; word < armed_.size(); ++word) {
      while (armed_[word] != 0) {
        const auto bit = static_cast<std::uint32_t>(std::countr_zero(armed_[word]));
        armed_[word] &= armed_[word] - 1;
        const StageId stage{static_cast<std::uint32_t>(word * 64) + bit};
        tell(stage, stage_event::Choose{});
        if (running_[stage.value]) continue;
        for (const Event& event : inbox_[stage.value]) push(event);
        inbox_[stage.value].clear();
      }
    }
  }
  template <class StageEvent>
  void tell(StageId stage, const StageEvent& event) {
    effects_.clear();
    stages_[stage.value].step(event, now_, effects_);
    for (const StageEffect& effect : effects_) std::visit([&](const auto& e) { apply(stage, e); }, effect);
  }

  void apply(StageId stage, const stage_effect::Start& e) {
    const auto& op = std::get<Operator>(e.op);
    const Duration time = in_.times[op.chunk.value].of(op.kind) + draw(in_.disturbance.operator_extra);
    result_.timeline.push_back({Place{stage, {}}, op, now_, now_ + time});
    running_[stage.value] = true;
    push(now_ + time, stage, Event::Kind::finished, op);
    if (!in_.bytes.empty()) ledger_.started(op);
  }
  void apply(StageId stage, const stage_effect::Arm&) {
    if (in_.disturbance.eager) return push(now_, stage, Event::Kind::choose);
    arm(stage);
  }
  void apply(StageId stage, const stage_effect::Wake& e) { push(e.at, stage, Event::Kind::wake); }
  void apply(StageId, const stage_effect::Accumulated&) {}
  void apply(StageId, const stage_effect::Emit& e) {
    go_.clear();
    lane(e.chunk, e.direction).machine.offer(e.micro_batch, go_);
    carry(e.chunk, e.direction);
  }
  void apply(StageId, const stage_effect::Adopt& e) {
    const ChunkId from{e.direction == Direction::forward ? e.chunk.value - 1 : e.chunk.value + 1};
    Lane& way = lane(from, e.direction);
    --way.in_slots;
    go_.clear();
    way.machine.credit(go_);
    carry(from, e.direction);
  }
  // An announcement takes the link's latency, and no place on it.
  void apply(StageId, const stage_effect::Announce& e) {
    const Instant at = now_ + lane(e.chunk, e.direction).cost.latency + step(e.chunk, e.direction).latency + delay();
    const Operator op = consumer(e.chunk, e.direction, e.micro_batch);
    announced(op) = e.after;
    deliver(at, Event::Kind::announced, op);
  }
  // How long the operator takes that gives the input of op, as announced.
  Duration& announced(const Operator& op) {
    const std::size_t cell =
        std::size_t{op.chunk.value} * in_.shape.micro_batches + (op.micro_batch.value - in_.shape.first.value);
    if (announced_.empty()) announced_.resize(std::size_t{2} * in_.shape.total_chunks() * in_.shape.micro_batches);
    return announced_[2 * cell + (op.kind == OperatorKind::forward ? 0 : 1)];
  }

  void carry(ChunkId from, Direction direction) {
    Lane& way = lane(from, direction);
    const LinkStep extra = step(from, direction);
    for (const MicroBatch m : go_) {
      const Instant left = servers_[way.server].serve(now_, way.service + extra.occupancy);
      result_.slots_used = std::max(result_.slots_used, ++way.in_slots);
      const Operator op = consumer(from, direction, m);
      deliver(left + way.cost.latency + extra.latency + delay(), Event::Kind::arrived, op);
    }
  }
  // What is in force now on the boundary that a message from this chunk crosses.
  LinkStep step(ChunkId from, Direction direction) const {
    const std::uint32_t boundary = direction == Direction::forward ? from.value : from.value - 1;
    if (in_.steps.empty() || in_.shape.is_inside(boundary)) return {};
    const std::vector<LinkStep>& steps = in_.steps[boundary];
    const auto next = std::upper_bound(steps.begin(), steps.end(), now_,
                                       [](Instant now, const LinkStep& step) { return now < step.from; });
    return next == steps.begin() ? LinkStep{} : *(next - 1);
  }
  // The operator that the output of chunk `from` is for.
  static Operator consumer(ChunkId from, Direction direction, MicroBatch micro_batch) {
    return {kind_of(direction), {direction == Direction::forward ? from.value + 1 : from.value - 1}, micro_batch};
  }
  // On a device-ordered link a device is busy until its send has found a place.
  bool is_held_up(Event event) {
    const Operator op = event.op();
    if (op.kind == OperatorKind::backward_weight) return false;
    const Direction direction = direction_of(op);
    const bool ends =
        direction == Direction::forward ? op.chunk.value + 1 == in_.shape.total_chunks() : op.chunk.value == 0;
    if (ends) return false;
    const Lane& way = lane(op.chunk, direction);
    if (!way.cost.queue) return false;
    const Instant at = servers_[way.server].admits(now_);
    if (at <= now_) return false;
    event.at = at;
    push(event);
    return true;
  }

  void report(std::uint32_t s) {
    const StageMachine& stage = stages_[s];
    result_.peaks.push_back(stage.peaks());
    result_.stuck.push_back(stage.finished() ? std::nullopt : stage.next());
    if (stage.finished()) return;
    result_.hung = true;
    result_.blocked.push_back(fmt::format("stage {}: {}", s, stage.explain()));
  }

  const SimulationInput& in_;
  Entropy draws_;
  MemoryLedger ledger_;
  std::vector<StageMachine> stages_;
  std::vector<LinkServer> servers_;
  std::vector<Lane> forward_, backward_;
  // Nothing depends on when a busy stage hears of its inputs: neither the order of events nor bytes are looked at.
  const bool is_lazy_ = !in_.disturbance.eager && in_.bytes.empty();
  EventHeap<Event> queue_;
  std::vector<bool> running_;              // per stage
  std::vector<std::vector<Event>> inbox_;  // per stage, of those that run
  std::vector<std::uint64_t> armed_;       // one bit per stage
  std::vector<StageEffect> effects_;       // scratch: what one event had for effects
  std::vector<MicroBatch> go_;             // scratch
  std::vector<Duration> announced_;        // follow: per cell and direction
  std::uint32_t sequence_ = 0;
  Instant now_{};
  SimulationResult result_;
};

}  // namespace

SimulationResult simulate(const SimulationInput& input) { return Simulation(input).run(); }

}  // namespace stagecraft
