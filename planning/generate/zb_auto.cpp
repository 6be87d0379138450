#include "planning/generate/zb_auto.hpp"

#include <algorithm>
#include <limits>
#include <optional>
#include <tuple>

#include "planning/bug.hpp"

namespace stagecraft {

namespace {

// What the heuristic leaves open.
struct Switches {
  bool delay_first_backward = false;  // the warm-up's last forward may end after the first gradient is there
  bool yield = false;                 // a stage well ahead of the next may leave out a forward
  bool eager_weights = false;         // a wait is filled with a W that doesn't fit, however short the wait
};

constexpr std::uint32_t unlimited = std::numeric_limits<std::uint32_t>::max();

struct Stage {
  OperatorTimes times;
  Duration down{}, up{};  // of a message to the next stage, and from it
  std::uint32_t activations = unlimited, pending = unlimited, held = unlimited;
  std::uint32_t forwards = 0, backwards = 0, weights = 0;  // done
  Instant begin{}, clock{};                                // start of the first operator, end of the last
  Duration bubble{};                                       // idle since the first operator
  std::vector<Instant> forward_end, backward_end;
  std::vector<Operator> order;

  bool full() const { return forwards - weights >= held; }
  bool has_weight() const { return weights < backwards; }
};

// The list under one setting of the switches, made in an order in which it can run; each stage has a clock of its own.
class Attempt {
 public:
  Attempt(const PipelineProblem& problem, Switches switches)
      : switches_(switches), first_(problem.shape.first), all_(problem.shape.micro_batches) {
    for (std::uint32_t s = 0; s < problem.shape.stages; ++s) {
      Stage& stage = stages_.emplace_back();
      stage.times = problem.times[s];
      if (s + 1 < problem.shape.stages) {
        stage.down = problem.crossing(Direction::forward, s);
        stage.up = problem.crossing(Direction::backward, s);
      }
      if (problem.caps.empty()) continue;
      const StageCaps& caps = problem.caps[s];
      stage.activations = caps.activations.value_or(unlimited);
      stage.pending = caps.pending_weights.value_or(unlimited);
      stage.held = caps.held.value_or(unlimited);
      STAGECRAFT_ASSERT(std::min({stage.activations, stage.pending, stage.held}) > 0,
                        "stage {} has a cap of 0: no operator fits; the smallest that does is 1", s);
    }
  }

  void run(const std::vector<std::uint32_t>& warmup) {
    warm_up(warmup);
    for (std::uint32_t round = 1; round < all_; ++round) {
      forwards_of_a_round();
      for (std::uint32_t s = size(); s-- > 0;) put_backward(s);
    }
    for (std::uint32_t s = 0; s < size(); ++s)
      while (stages_[s].weights < all_) put_weight(s);
  }

  /// Smaller is better: the longest stage, then the makespan.
  std::tuple<Duration, Duration> cost() const {
    Duration longest{}, makespan{};
    for (const Stage& stage : stages_) {
      longest = std::max(longest, stage.clock - stage.begin);
      makespan = std::max(makespan, stage.clock);
    }
    return {longest, makespan};
  }

  Schedule take() {
    Schedule schedule;
    for (Stage& stage : stages_) schedule.operators.push_back(std::move(stage.order));
    return schedule;
  }

 private:
  std::uint32_t size() const { return static_cast<std::uint32_t>(stages_.size()); }

  Instant forward_arrival(std::uint32_t s) const {
    if (s == 0) return {};
    return stages_[s - 1].forward_end[stages_[s].forwards] + stages_[s - 1].down;
  }
  Instant backward_arrival(std::uint32_t s) const {
    const Stage& stage = stages_[s];
    const Instant own = stage.forward_end[stage.backwards];
    return s + 1 == size() ? own : std::max(own, stages_[s + 1].backward_end[stage.backwards] + stage.up);
  }

  void start(Stage& stage, std::uint32_t s, OperatorKind kind, std::uint32_t micro_batch, Instant arrival) {
    const Instant at = std::max(stage.clock, arrival);
    if (stage.order.empty())
      stage.begin = at;
    else
      stage.bubble += at - stage.clock;
    stage.clock = at + stage.times.of(kind);
    stage.order.push_back({kind, ChunkId{s}, MicroBatch{first_.value + micro_batch}});
  }
  void put_forward(std::uint32_t s) {
    Stage& stage = stages_[s];
    while (stage.full()) put_weight(s);
    if (stage.forwards > 0) fill_wait(s, forward_arrival(s));
    start(stage, s, OperatorKind::forward, stage.forwards, forward_arrival(s));
    stage.forward_end.push_back(stage.clock);
    ++stage.forwards;
  }
  // The first stage has nothing to wait for but its own weights, once its forwards are done.
  void put_backward(std::uint32_t s) {
    Stage& stage = stages_[s];
    while (stage.backwards - stage.weights >= stage.pending) put_weight(s);
    fill_wait(s, backward_arrival(s));
    if (s == 0 && stage.forwards == all_)
      while (stage.has_weight()) put_weight(s);
    start(stage, s, OperatorKind::backward_input, stage.backwards, backward_arrival(s));
    stage.backward_end.push_back(stage.clock);
    ++stage.backwards;
  }
  void put_weight(std::uint32_t s) {
    Stage& stage = stages_[s];
    start(stage, s, OperatorKind::backward_weight, stage.weights, stage.clock);
    ++stage.weights;
  }

  // How much this stage may still idle before it idles more than any other.
  Duration allowance(const Stage& stage) const {
    Duration most{};
    for (const Stage& other : stages_) most = std::max(most, other.bubble);
    return most - stage.bubble;
  }

  // W until the input is there, and one more across that moment if the wait would make this the idlest stage.
  void fill_wait(std::uint32_t s, Instant arrival) {
    Stage& stage = stages_[s];
    const Duration weight = stage.times.backward_weight;
    while (stage.has_weight() && stage.clock + weight <= arrival) put_weight(s);
    const Duration wait = arrival - stage.clock;
    if (stage.has_weight() && wait > Duration{} && (switches_.eager_weights || wait > allowance(stage))) put_weight(s);
  }

  void warm_up(const std::vector<std::uint32_t>& wanted) {
    for (std::uint32_t s = 0; s < size(); ++s) put_forward(s);
    std::vector<std::uint32_t> target = wanted.empty() ? forwards_that_fit() : wanted;
    for (std::uint32_t s = 0; s < size(); ++s) {
      target[s] = std::clamp(target[s], 1U, std::min({all_, stages_[s].held, stages_[s].activations}));
      // Strictly fewer than the stage upstream, which must stay ahead until it has run them all.
      if (s > 0 && target[s - 1] < all_) target[s] = std::min(target[s], std::max(1U, target[s - 1] - 1));
    }
    for (std::uint32_t s = 0; s < size(); ++s)
      while (stages_[s].forwards < target[s]) put_forward(s);
    for (std::uint32_t s = size(); s-- > 0;) put_backward(s);
  }

  // Per stage, from the last upwards: the forwards that fit before the first gradient can be there.
  std::vector<std::uint32_t> forwards_that_fit() const {
    std::vector<std::uint32_t> counts(size(), 1);
    Instant first_backward_end = stages_.back().clock + stages_.back().times.backward_input;
    for (std::uint32_t s = size() - 1; s-- > 0;) {
      const Stage& stage = stages_[s];
      const std::uint32_t most = std::min({all_, stage.held, stage.activations});
      const Instant arrival = first_backward_end + stage.up;
      Instant clock = stage.clock;
      while (counts[s] < most) {
        const Instant end = clock + stage.times.forward;
        if (switches_.delay_first_backward ? clock >= arrival : end > arrival) break;
        clock = end;
        ++counts[s];
      }
      first_backward_end = std::max(clock, arrival) + stage.times.backward_input;
    }
    return counts;
  }

  void forwards_of_a_round() {
    std::vector<bool> runs(size());
    for (std::uint32_t s = 0; s < size(); ++s) runs[s] = stages_[s].forwards < all_ && !yields(s);
    for (std::uint32_t s = size() - 1; s-- > 0;)
      if (!runs[s + 1] && stages_[s + 1].forwards < all_) runs[s] = false;
    for (std::uint32_t s = 0; s < size(); ++s)
      if (runs[s]) put_forward(s);
  }

  // A stage two forwards ahead of the next leaves one out if the next gradient is there as soon as this stage is free,
  // or if a forward would make it late and the wait for it, after the W that fit, is within the allowance.
  bool yields(std::uint32_t s) const {
    if (!switches_.yield || s + 1 == size()) return false;
    const Stage &stage = stages_[s], &next = stages_[s + 1];
    if (stage.forwards < next.forwards + 2) return false;
    const Instant gradient = next.clock + next.times.forward + next.times.backward_input + stage.up;
    if (stage.clock >= gradient) return true;
    const Duration weight = stage.times.backward_weight;
    const Duration forced = stage.full() ? weight : Duration{};
    if (stage.clock + stage.times.forward + forced <= gradient) return false;
    Instant clock = stage.clock;
    for (std::uint32_t w = stage.weights; w < stage.backwards && clock + weight <= gradient; ++w) clock += weight;
    return gradient - clock <= allowance(stage);
  }

  Switches switches_;
  MicroBatch first_;
  std::uint32_t all_;
  std::vector<Stage> stages_;
};

}  // namespace

Schedule zero_bubble_auto(const PipelineProblem& problem, const std::vector<std::uint32_t>& warmup) {
  std::optional<Attempt> best;
  for (unsigned bits = 0; bits < 8; ++bits) {
    Attempt attempt(problem, {(bits & 1) != 0, (bits & 2) != 0, (bits & 4) != 0});
    attempt.run(warmup);
    if (!best || attempt.cost() < best->cost()) best = std::move(attempt);
  }
  return best->take();
}

}  // namespace stagecraft
