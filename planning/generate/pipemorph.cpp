#include "planning/generate/pipemorph.hpp"

#include <algorithm>
#include <functional>
#include <optional>
#include <queue>
#include <utility>

namespace stagecraft {

namespace {

struct Stage {
  OperatorTimes times;
  Duration down{}, up{};                                   // of a message to the next stage, and to the one before
  std::int64_t quota = 1;                                  // forwards left of the warm-up
  std::uint32_t forwards = 0, backwards = 0, weights = 0;  // started
  Instant free{};
  std::vector<Instant> forward_ready, backward_ready;  // by micro-batch, as far as known
  std::vector<Operator> order;
};

class Greedy {
 public:
  Greedy(const PipelineProblem& problem, const std::vector<std::int64_t>& warmup) : shape_(problem.shape) {
    const std::uint32_t p = shape_.stages;
    stages_.resize(p);
    for (std::uint32_t s = 0; s < p; ++s) {
      stages_[s].times = problem.times[s];
      if (s + 1 < p) stages_[s].down = problem.crossing(Direction::forward, s);
      if (s > 0) stages_[s].up = problem.crossing(Direction::backward, s - 1);
      stages_[s].quota = warmup[s];
    }
    stages_[0].forward_ready.assign(shape_.micro_batches, Instant{});
    wake(Instant{}, 0);
  }

  Schedule run() {
    while (!wakes_.empty()) {
      const auto [now, s] = wakes_.top();
      wakes_.pop();
      if (stages_[s].free > now) continue;
      if (const auto kind = pick(stages_[s], now)) start(s, *kind, now);
    }
    Schedule schedule;
    for (Stage& stage : stages_) schedule.operators.push_back(std::move(stage.order));
    return schedule;
  }

 private:
  using Wake = std::pair<Instant, std::uint32_t>;  // in order of time, then of stage

  void wake(Instant at, std::uint32_t stage) { wakes_.emplace(at, stage); }

  static bool is_there(const std::vector<Instant>& ready, std::uint32_t micro_batch, Instant now) {
    return micro_batch < ready.size() && ready[micro_batch] <= now;
  }

  // Algorithm 3.
  static std::optional<OperatorKind> pick(const Stage& stage, Instant now) {
    const bool forward = is_there(stage.forward_ready, stage.forwards, now);
    if (stage.quota > 0) return forward ? std::optional(OperatorKind::forward) : std::nullopt;
    if (is_there(stage.backward_ready, stage.backwards, now)) return OperatorKind::backward_input;
    if (forward && stage.backwards > 0) return OperatorKind::forward;
    if (stage.weights < stage.backwards) return OperatorKind::backward_weight;
    return std::nullopt;
  }

  // Algorithm 4: ends are known at the start, so the neighbours learn of them at once.
  void start(std::uint32_t s, OperatorKind kind, Instant now) {
    Stage& stage = stages_[s];
    stage.free = now + stage.times.of(kind);
    wake(stage.free, s);
    std::uint32_t& count = kind == OperatorKind::forward          ? stage.forwards
                           : kind == OperatorKind::backward_input ? stage.backwards
                                                                  : stage.weights;
    stage.order.push_back({kind, ChunkId{s}, MicroBatch{shape_.first.value + count++}});
    if (kind == OperatorKind::forward) {
      --stage.quota;
      if (s + 1 < shape_.stages)
        publish(s + 1, stages_[s + 1].forward_ready, stage.free + stage.down);
      else
        publish(s, stage.backward_ready, stage.free);
    }
    if (kind == OperatorKind::backward_input && s > 0)
      publish(s - 1, stages_[s - 1].backward_ready, stage.free + stage.up);
  }
  void publish(std::uint32_t s, std::vector<Instant>& ready, Instant at) {
    ready.push_back(at);
    wake(at, s);
  }

  const PipelineShape& shape_;
  std::vector<Stage> stages_;
  std::priority_queue<Wake, std::vector<Wake>, std::greater<>> wakes_;
};

std::vector<std::int64_t> published_warmup(const PipelineProblem& problem) {
  const PipelineShape& shape = problem.shape;
  bool slow = false;
  for (std::uint32_t b = 0; b + 1 < shape.stages; ++b)
    slow = slow || problem.crossing(Direction::forward, b) + problem.crossing(Direction::backward, b) > Duration{};
  if (!slow && !problem.caps.empty()) {
    const StageCaps& caps = problem.caps.front();
    if (const auto cap = caps.activations ? caps.activations : caps.held) return spread_warmup(shape.stages, *cap);
  }
  return delayed_warmup(problem);
}

}  // namespace

std::vector<std::int64_t> spread_warmup(std::uint32_t stages, std::uint32_t most) {
  std::vector<std::int64_t> x(stages, 1);
  if (stages == 1) return x;
  x[0] = most;
  const std::int64_t average = (x[0] - 1) / (stages - 1), rest = (x[0] - 1) % (stages - 1);
  for (std::uint32_t i = 1; i < stages; ++i) x[i] = x[i - 1] - average - (i <= rest ? 1 : 0);
  return x;
}

std::vector<std::int64_t> delayed_warmup(const PipelineProblem& problem) {
  const std::uint32_t p = problem.shape.stages;
  const std::int64_t clip = std::int64_t{problem.shape.micro_batches} - 2 * std::int64_t{p};
  std::vector<std::int64_t> x(p, 1);
  for (std::uint32_t i = p - 1; i-- > 0;) {
    const OperatorTimes &here = problem.times[i], &next = problem.times[i + 1];
    const Duration round_trip = problem.crossing(Direction::forward, i) + problem.crossing(Direction::backward, i);
    const std::int64_t takes = (here.forward + here.backward_input + round_trip).count();
    const std::int64_t period = std::max<std::int64_t>(1, (next.forward + next.backward_input).count());
    const std::int64_t need = (takes + period - 1) / period;
    x[i] = x[i + 1] + std::min(clip, std::max<std::int64_t>(need, 2));
  }
  return x;
}

Schedule pipemorph(const PipelineProblem& problem, const std::vector<std::uint32_t>& warmup) {
  std::vector<std::int64_t> x(warmup.begin(), warmup.end());
  if (x.empty()) x = published_warmup(problem);
  std::int64_t least = 1;
  for (std::uint32_t s = problem.shape.stages; s-- > 0;) {
    x[s] = std::clamp<std::int64_t>(x[s], least, problem.shape.micro_batches);
    least = x[s];
  }
  return Greedy(problem, x).run();
}

}  // namespace stagecraft
