#include "planning/simulate.hpp"

#include <algorithm>
#include <queue>
#include <tuple>

#include "planning/bug.hpp"
#include "planning/link_machine.hpp"
#include "planning/random.hpp"

namespace stagecraft {

namespace {

struct Event {
  Instant at{};
  bool last = false;  // after everything else of its instant
  std::uint64_t sequence = 0;
  StageId stage;
  StageEvent what;
  bool operator>(const Event& other) const {
    return std::tie(at, last, sequence) > std::tie(other.at, other.last, other.sequence);
  }
};

// One direction of one boundary.
struct Lane {
  LinkMachine machine;
  LinkCost cost;
  Instant server_free{};
  std::uint32_t in_slots = 0;
};

class Simulation {
 public:
  explicit Simulation(const SimulationInput& input) : in_(input), draws_(input.disturbance.seed, "simulate") {
    const PipelineShape& shape = in_.shape;
    STAGECRAFT_ASSERT(in_.plans.size() == shape.stages, "{} plans for {} stages", in_.plans.size(), shape.stages);
    for (const StagePlan& plan : in_.plans) stages_.emplace_back(plan);
    for (std::uint32_t b = 0; b + 1 < shape.total_chunks(); ++b) {
      const LinkMachine machine(in_.credits, shape.first, shape.micro_batches);
      forward_.push_back({machine, in_.forward_links.empty() ? LinkCost{} : in_.forward_links[b]});
      backward_.push_back({machine, in_.backward_links.empty() ? LinkCost{} : in_.backward_links[b]});
    }
    used_.resize(shape.stages);
    gradient_buffers_.resize(shape.total_chunks());
    result_.peak_bytes.resize(shape.stages);
  }

  SimulationResult run() {
    for (std::uint32_t m = 0; m < in_.shape.micro_batches; ++m)
      push(delay(), StageId{0}, stage_event::Arrived{ChunkId{0}, Direction::forward, {in_.shape.first.value + m}});
    while (!queue_.empty()) {
      const Event event = queue_.top();
      queue_.pop();
      now_ = event.at;
      ++result_.events;
      account(event);
      for (const StageEffect& effect : stages_[event.stage.value].step(event.what))
        std::visit([&](const auto& e) { apply(event.stage, e); }, effect);
      result_.makespan = std::max<Duration>(result_.makespan, now_);
    }
    for (std::uint32_t s = 0; s < stages_.size(); ++s) {
      result_.peaks.push_back(stages_[s].peaks());
      if (stages_[s].finished()) continue;
      result_.hung = true;
      result_.blocked.push_back(fmt::format("stage {}: {}", s, stages_[s].explain()));
    }
    return std::move(result_);
  }

 private:
  void push(Instant at, StageId stage, const StageEvent& what, bool last = false) {
    const std::uint64_t n = sequence_++;
    const bool eager = in_.disturbance.eager;
    queue_.push({at, last && !eager, eager ? keyed(in_.disturbance.seed, n) : n, stage, what});
  }
  Duration draw(Duration most) { return Duration(draws_.below(static_cast<std::uint64_t>(most.count()) + 1)); }
  Duration delay() { return draw(in_.disturbance.message_delay); }

  void apply(StageId stage, const stage_effect::Start& e) {
    const auto& op = std::get<Operator>(e.op);
    const Duration time = in_.times[op.chunk.value].of(op.kind) + draw(in_.disturbance.operator_extra);
    result_.timeline.push_back({Place{stage, {}}, op, now_, now_ + time});
    push(now_ + time, stage, stage_event::Finished{op});
    if (!in_.bytes.empty()) charge_operator(stage, op);
  }

  // What an operator adds while it runs, and how full the stage is at the worst moment of it.
  void charge_operator(StageId stage, const Operator& op) {
    const ChunkBytes& b = in_.bytes[op.chunk.value];
    if (op.kind == OperatorKind::forward) {
      charge(stage, b.activation + b.output);
      return note_peak(stage, used_[stage.value] + b.forward_scratch);
    }
    if (op.kind == OperatorKind::backward_weight) {
      set_buffers(stage, op, &GradientBuffers::during);
      return note_peak(stage, used_[stage.value] + b.weight_scratch);
    }
    // B trades what F kept for what W needs, unit by unit: it is fullest at its start or at its end. In X, W follows.
    charge(stage, b.input);
    note_peak(stage, used_[stage.value] + b.backward_scratch);
    const Bytes traded{used_[stage.value].value + b.weight_activation.value - b.activation.value - b.input.value -
                       b.output.value};
    note_peak(stage, traded + b.backward_scratch);
    if (op.kind == OperatorKind::backward) note_peak(stage, traded + more_buffers(op) + b.weight_scratch);
  }
  Bytes more_buffers(const Operator& op) const {
    if (in_.buffers.empty()) return {};
    const std::uint32_t during = in_.buffers[op.micro_batch.value - in_.shape.first.value].during;
    const std::uint32_t alive = gradient_buffers_[op.chunk.value];
    return {(during > alive ? during - alive : 0) * in_.bytes[op.chunk.value].gradient.value};
  }
  void apply(StageId stage, const stage_effect::Arm&) { push(now_, stage, stage_event::Choose{}, true); }
  void apply(StageId, const stage_effect::Accumulated&) {}
  void apply(StageId, const stage_effect::Emit& e) {
    Lane& lane = e.direction == Direction::forward ? forward_[e.chunk.value] : backward_[e.chunk.value - 1];
    const ChunkId to{e.direction == Direction::forward ? e.chunk.value + 1 : e.chunk.value - 1};
    carry(lane, e.direction, to, lane.machine.offer(e.micro_batch));
  }
  void apply(StageId, const stage_effect::Adopt& e) {
    Lane& lane = e.direction == Direction::forward ? forward_[e.chunk.value - 1] : backward_[e.chunk.value];
    --lane.in_slots;
    carry(lane, e.direction, e.chunk, lane.machine.credit());
  }

  void carry(Lane& lane, Direction direction, ChunkId to, const std::vector<MicroBatch>& go) {
    for (const MicroBatch m : go) {
      const Bytes size = in_.bytes.empty() ? Bytes{} : boundary_bytes(direction, to);
      lane.server_free = std::max(lane.server_free, now_) + service_time(lane.cost, size);
      result_.slots_used = std::max(result_.slots_used, ++lane.in_slots);
      push(lane.server_free + lane.cost.latency + delay(), in_.shape.stage_of(to),
           stage_event::Arrived{to, direction, m});
    }
  }

  Bytes boundary_bytes(Direction direction, ChunkId to) const {
    return direction == Direction::forward ? in_.bytes[to.value].input : in_.bytes[to.value].output;
  }

  // Memory moves with the events: a tensor is charged to its sender until it arrives, then to its receiver; the output
  // tensor of a forward leaves with it.
  void account(const Event& event) {
    if (in_.bytes.empty()) return;
    if (const auto* e = std::get_if<stage_event::Arrived>(&event.what)) {
      const bool forward = e->direction == Direction::forward;
      if (forward && e->chunk.value == 0) return;
      const ChunkId from{forward ? e->chunk.value - 1 : e->chunk.value + 1};
      const Bytes size = boundary_bytes(e->direction, e->chunk);
      used_[in_.shape.stage_of(from).value].value -= size.value;
      charge(event.stage, size);
    } else if (const auto* done = std::get_if<stage_event::Finished>(&event.what)) {
      const auto& op = std::get<Operator>(done->op);
      const ChunkBytes& b = in_.bytes[op.chunk.value];
      std::uint64_t& used = used_[event.stage.value].value;
      if (op.kind == OperatorKind::backward_input ||
          op.kind == OperatorKind::backward)  // input and dy go, W's part stays
        used = used - b.activation.value - b.input.value - b.output.value + b.weight_activation.value;
      if (op.kind == OperatorKind::backward_weight || op.kind == OperatorKind::backward) {
        used -= b.weight_activation.value;
        set_buffers(event.stage, op, &GradientBuffers::after);
      }
    }
  }
  void set_buffers(StageId stage, const Operator& op, std::uint32_t GradientBuffers::*count) {
    if (in_.buffers.empty()) return;
    const std::uint32_t now = in_.buffers[op.micro_batch.value - in_.shape.first.value].*count;
    std::uint32_t& alive = gradient_buffers_[op.chunk.value];
    used_[stage.value].value += (static_cast<std::uint64_t>(now) - alive) * in_.bytes[op.chunk.value].gradient.value;
    alive = now;
    note_peak(stage, used_[stage.value]);
  }
  void charge(StageId stage, Bytes bytes) { note_peak(stage, used_[stage.value] += bytes); }
  void note_peak(StageId stage, Bytes used) {
    result_.peak_bytes[stage.value] = std::max(result_.peak_bytes[stage.value], used);
  }

  const SimulationInput& in_;
  Entropy draws_;
  std::vector<StageMachine> stages_;
  std::vector<Lane> forward_, backward_;
  std::vector<Bytes> used_;                      // per stage
  std::vector<std::uint32_t> gradient_buffers_;  // per chunk
  std::priority_queue<Event, std::vector<Event>, std::greater<>> queue_;
  std::uint64_t sequence_ = 0;
  Instant now_{};
  SimulationResult result_;
};

}  // namespace

SimulationResult simulate(const SimulationInput& input) { return Simulation(input).run(); }

}  // namespace stagecraft
