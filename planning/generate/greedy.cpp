#include "planning/generate/greedy.hpp"

#include <algorithm>
#include <array>
#include <functional>
#include <optional>
#include <queue>
#include <utility>

#include "planning/bug.hpp"

namespace stagecraft {

namespace {

constexpr Instant unknown = Instant::max();
enum Class : std::size_t { forward, backward, weight };
constexpr std::array<OperatorKind, 3> kinds{OperatorKind::forward, OperatorKind::backward_input,
                                            OperatorKind::backward_weight};

struct Stage {
  std::array<Duration, 3> times;
  std::array<std::uint32_t, 3> done{};                               // started, rather: a device is serial
  std::array<std::vector<Instant>, 2> at;                            // when the input of each F and B is here
  std::uint32_t warmup = 1, activations = 0, pending = 0, held = 0;  // limits
  Instant free{};
  Class last = weight;
  std::vector<Operator> order;
};

class Play {
 public:
  Play(const PipelineProblem& problem, const GreedyOptions& options)
      : options_(options), n_(problem.shape.micro_batches), first_(problem.shape.first.value) {
    const std::uint32_t stages = problem.shape.stages;
    stages_.resize(stages);
    for (std::uint32_t s = 0; s < stages; ++s) {
      Stage& stage = stages_[s];
      const OperatorTimes& t = problem.times[s];
      stage.times = {t.forward, t.backward_input, t.backward_weight};
      const StageCaps caps = problem.caps.empty() ? StageCaps{} : problem.caps[s];
      stage.activations = caps.activations.value_or(n_);
      stage.pending = caps.pending_weights.value_or(n_);
      stage.held = caps.held.value_or(n_);
      stage.warmup = std::clamp(options.warmup.empty() ? n_ : options.warmup[s], 1U, std::max(n_, 1U));
      stage.at[forward].assign(n_, s == 0 ? Instant{} : unknown);
      stage.at[backward].assign(n_, unknown);
      stage.order.reserve(std::size_t{3} * n_);
      down_.push_back(s + 1 < stages ? problem.crossing(Direction::forward, s) : Duration{});
      up_.push_back(s > 0 ? problem.crossing(Direction::backward, s - 1) : Duration{});
    }
  }

  GreedyResult run() {
    for (std::uint32_t s = 0; s < stages_.size(); ++s) wake(Instant{}, s);
    while (!queue_.empty()) {
      const auto [now, s] = queue_.top();
      queue_.pop();
      decide(now, s);
    }
    GreedyResult result;
    for (Stage& stage : stages_) {
      STAGECRAFT_ASSERT(stage.order.size() == std::size_t{3} * n_, "a greedy list ended with {} of {} operators",
                        stage.order.size(), 3 * n_);
      result.makespan = std::max(result.makespan, stage.free);
      result.schedule.operators.push_back(std::move(stage.order));
    }
    return result;
  }

 private:
  void wake(Instant at, std::uint32_t s) { queue_.emplace(at, s); }

  // When the next operator of a class has its input, `unknown` if nobody knows yet.
  Instant input(const Stage& stage, Class kind) const {
    const std::uint32_t next = stage.done[kind];
    if (next == n_) return unknown;
    if (kind == weight) return next < stage.done[backward] ? Instant{} : unknown;
    if (kind == backward && next >= stage.done[forward]) return unknown;
    return stage.at[kind][next];
  }
  static bool fits(const Stage& stage, Class kind) {
    const auto& d = stage.done;
    if (kind == forward)
      return (d[backward] > 0 || d[forward] < stage.warmup) && d[forward] - d[backward] < stage.activations &&
             d[forward] - d[weight] < stage.held;
    return kind == weight || d[backward] - d[weight] < stage.pending;
  }
  std::array<Class, 3> preference(const Stage& stage) const {
    const bool forward_first = options_.priority == GreedyOptions::Priority::forward_first ||
                               (options_.priority == GreedyOptions::Priority::alternate && stage.last == backward);
    return forward_first ? std::array{forward, backward, weight} : std::array{backward, forward, weight};
  }
  // Something better is on its way and an operator of duration d would make it wait too long.
  bool holds(Instant now, Duration d, Instant better) const {
    if (options_.hold == GreedyOptions::Hold::never || better == unknown || better <= now) return false;
    const Duration grace = options_.hold == GreedyOptions::Hold::half ? d / 2 : Duration{};
    return now + d > better + grace;
  }

  void decide(Instant now, std::uint32_t s) {
    Stage& stage = stages_[s];
    if (stage.free > now || stage.order.size() == std::size_t{3} * n_) return;
    Instant better = unknown, next = unknown;
    const bool starved = options_.force_weights && input(stage, forward) <= now && !fits(stage, forward);
    for (const Class kind : preference(stage)) {
      const Instant at = input(stage, kind);
      if (at == unknown || !fits(stage, kind)) continue;
      if (at > now) {
        better = std::min(better, at);
        next = std::min(next, at);
      } else if ((kind == weight && starved) || !holds(now, stage.times[kind], better)) {
        return start(now, s, kind);
      }
    }
    if (next != unknown) wake(next, s);
  }

  void start(Instant now, std::uint32_t s, Class kind) {
    Stage& stage = stages_[s];
    const std::uint32_t m = stage.done[kind]++;
    const Instant end = now + stage.times[kind];
    stage.order.push_back({kinds[kind], {s}, {first_ + m}});
    stage.free = end;
    stage.last = kind == weight ? stage.last : kind;
    wake(end, s);
    if (kind == forward && s + 1 == stages_.size()) stage.at[backward][m] = end;
    if (kind == forward && s + 1 < stages_.size()) hand_over(s + 1, forward, m, end + down_[s]);
    if (kind == backward && s > 0) hand_over(s - 1, backward, m, end + up_[s]);
  }
  void hand_over(std::uint32_t to, Class kind, std::uint32_t m, Instant at) {
    stages_[to].at[kind][m] = at;
    wake(at, to);
  }

  const GreedyOptions& options_;
  std::uint32_t n_, first_;
  std::vector<Stage> stages_;
  std::vector<Duration> down_, up_;  // what crossing takes from stage s to the next, and to the one before
  using Wake = std::pair<Instant, std::uint32_t>;
  std::priority_queue<Wake, std::vector<Wake>, std::greater<>> queue_;
};

}  // namespace

GreedyResult greedy(const PipelineProblem& problem, const GreedyOptions& options) {
  STAGECRAFT_ASSERT(problem.shape.chunks == 1, "greedy lists are for one chunk per stage, not {}",
                    problem.shape.chunks);
  return Play(problem, options).run();
}

}  // namespace stagecraft
