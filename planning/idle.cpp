#include "planning/idle.hpp"

#include <algorithm>
#include <functional>
#include <queue>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "planning/bug.hpp"
#include "planning/link_server.hpp"
#include "planning/replay.hpp"

namespace stagecraft {

namespace {

constexpr Instant never = Instant::max();

bool is_backward(OperatorKind kind) { return kind == OperatorKind::backward_input || kind == OperatorKind::backward; }
bool has_weight(OperatorKind kind) { return kind == OperatorKind::backward_weight || kind == OperatorKind::backward; }

// A number for every operator of a run; B and X of a micro-batch share one.
class Index {
 public:
  explicit Index(const PipelineShape& shape) : first_(shape.first.value), micro_batches_(shape.micro_batches) {}
  std::size_t of(const Operator& op) const {
    const std::size_t kind = op.kind == OperatorKind::forward ? 0 : is_backward(op.kind) ? 1 : 2;
    return 3 * (std::size_t{op.chunk.value} * micro_batches_ + op.micro_batch.value - first_) + kind;
  }

 private:
  std::uint32_t first_;
  std::size_t micro_batches_;
};

// When the outputs of a run's operators arrived, and until when a send kept its device.
class Traffic {
 public:
  Traffic(const PipelineProblem& problem, const SimulationResult& result)
      : problem_(problem), index_(problem.shape), ends_(size(), never), arrived_(size(), never), released_(size()) {
    for (std::uint32_t b = 0; b + 1 < problem.shape.total_chunks(); ++b) open(b);
    using Send = std::tuple<Instant, std::size_t, Operator>;  // handed over, order among equals
    std::priority_queue<Send, std::vector<Send>, std::greater<>> sends;
    for (const TimedOperator& timed : result.timeline) {
      ends_[index_.of(timed.op)] = released_[index_.of(timed.op)] = timed.end;
      sends.emplace(timed.end, sends.size(), timed.op);
    }
    while (!sends.empty()) {
      auto [now, order, op] = sends.top();
      sends.pop();
      const Instant later = send(op, now);
      if (later > now) sends.emplace(later, order, op);
    }
  }

  Instant ended(const Operator& op) const { return ends_[index_.of(op)]; }
  /// At the stage that it goes to.
  Instant arrived(const Operator& op) const { return arrived_[index_.of(op)]; }
  Instant released(const Operator& op) const { return released_[index_.of(op)]; }

 private:
  struct Lane {
    LinkCost cost;
    std::size_t server = 0;
    Duration service{};
  };

  std::size_t size() const {
    return std::size_t{3} * problem_.shape.total_chunks() * std::max(problem_.shape.micro_batches, 1U);
  }
  void open(std::uint32_t b) {
    const bool inside = problem_.shape.is_inside(b);
    const auto cost = [&](const auto& links) { return inside || links.empty() ? LinkCost{} : links[b]; };
    const LinkCost down = cost(problem_.forward_links), up = cost(problem_.backward_links);
    const Bytes bytes = problem_.boundary.empty() ? Bytes{} : problem_.boundary[b];
    servers_.emplace_back(down.lanes, down.queue);
    forward_.push_back({down, servers_.size() - 1, service_time(down, bytes)});
    if (!down.shared && !up.shared) servers_.emplace_back(up.lanes, up.queue);
    backward_.push_back({up, servers_.size() - 1, service_time(up, bytes)});
  }
  // A later time at which to try again, where the link has no place.
  Instant send(const Operator& op, Instant now) {
    const bool forward = op.kind == OperatorKind::forward;
    if (op.kind == OperatorKind::backward_weight || (!forward && op.chunk.value == 0)) return now;
    if (forward && op.chunk.value + 1 == problem_.shape.total_chunks()) return now;
    const Lane& lane = forward ? forward_[op.chunk.value] : backward_[op.chunk.value - 1];
    LinkServer& server = servers_[lane.server];
    const Instant at = lane.cost.queue ? server.admits(now) : now;
    if (at > now) return at;
    released_[index_.of(op)] = now;
    arrived_[index_.of(op)] = server.serve(now, lane.service) + lane.cost.latency;
    return now;
  }

  const PipelineProblem& problem_;
  Index index_;
  std::vector<Lane> forward_, backward_;  // per boundary
  std::vector<LinkServer> servers_;
  std::vector<Instant> ends_, arrived_, released_;  // by Index
};

// One stage: its operators as they ran, and what else it could have run in each gap.
class StageIdle {
 public:
  StageIdle(const PipelineProblem& problem, const StagePlan& plan, StageId stage, std::vector<TimedOperator> ran,
            const Traffic& traffic)
      : shape_(problem.shape), plan_(plan), stage_(stage), ran_(std::move(ran)), traffic_(traffic), index_(shape_) {
    if (plan.dispatch != Dispatch::in_order) {
      caps_ = plan.caps;
    } else if (!problem.caps.empty()) {
      caps_ = problem.caps[stage.value];
    }
    order_ = plan.dispatch == Dispatch::reactive ? std::vector<Operator>() : plan.order;
    if (order_.empty())
      for (const TimedOperator& timed : ran_) order_.push_back(timed.op);
    done_.resize(std::size_t{3} * shape_.total_chunks() * std::max(shape_.micro_batches, 1U));
    next_weight_.assign(shape_.total_chunks(), shape_.first.value);
  }

  std::vector<IdleGap> run(Instant makespan) {
    Instant free{};
    for (std::size_t i = 0; i < ran_.size(); ++i) {
      const TimedOperator& next = ran_[i];
      if (next.start > free) explain(i, free, next);
      finish(next.op);
      free = next.end;
    }
    add(free, makespan, IdleReason::drain, std::nullopt, std::nullopt);
    return std::move(gaps_);
  }

 private:
  void add(Instant begin, Instant end, IdleReason reason, std::optional<Operator> next, std::optional<Operator> cause) {
    if (end > begin) gaps_.push_back({stage_, begin, end, reason, next, cause});
  }
  void finish(const Operator& op) {
    done_[index_.of(op)] = true;
    level_.play(op.kind);
    if (has_weight(op.kind)) ++next_weight_[op.chunk.value];
    while (head_ < order_.size() && done_[index_.of(order_[head_])]) ++head_;
  }

  // What else was ready, from when on: allowed, and not allowed under the caps.
  struct Other {
    Instant from = never;
    std::optional<Operator> op;
    void note(Instant at, const Operator& candidate) {
      if (at < from) from = at, op = candidate;
    }
  };

  void explain(std::size_t i, Instant begin, const TimedOperator& next) {
    if (i > 0) {
      const Instant sent = std::min(traffic_.released(ran_[i - 1].op), next.start);
      add(begin, sent, IdleReason::sending, next.op, ran_[i - 1].op);
      begin = std::max(begin, sent);
    }
    Other allowed, capped;
    look_around(next, allowed, capped);
    const auto from = [&](Instant t) { return std::clamp(t, begin, next.start); };
    const Instant order = from(allowed.from), cap = std::min(order, from(capped.from));
    if (i == 0) {
      add(begin, cap, IdleReason::fill, next.op, std::nullopt);
    } else {
      explain_input(begin, cap, next.op);
    }
    add(cap, order, IdleReason::cap, next.op, capped.op);
    add(order, next.start, IdleReason::order, next.op, allowed.op);
  }

  // A stage with a list may run what can go in front of all that stands before it; without one, what is ready runs
  // unless a cap forbids it.
  void look_around(const TimedOperator& next, Other& allowed, Other& capped) const {
    follow_detail::Level level{level_.now, level_.now};
    const bool has_list = plan_.dispatch != Dispatch::reactive;
    for (std::size_t n = head_; n < order_.size(); ++n) {
      const Operator& op = order_[n];
      if (done_[index_.of(op)]) continue;
      const bool waited_for = op == next.op && (n == head_ || !has_list);
      const Instant at = waited_for ? never : ready_at(op);
      if (at < next.start) {
        (has_list && level.lets(op.kind, caps_) ? allowed : capped).note(at, op);
      }
      level.play(op.kind);
    }
  }

  Instant ready_at(const Operator& op) const {
    if (has_weight(op.kind) && next_weight_[op.chunk.value] != op.micro_batch.value) return never;
    if (op.kind == OperatorKind::backward_weight)
      return done({OperatorKind::backward_input, op.chunk, op.micro_batch}) ? Instant{} : never;
    const Operator forward{OperatorKind::forward, op.chunk, op.micro_batch};
    if (op.kind != OperatorKind::forward && !done(forward)) return never;
    const auto from = source(op);
    return from ? traffic_.arrived(*from) : Instant{};
  }
  bool done(const Operator& op) const { return done_[index_.of(op)]; }

  // Whose result, of another chunk, an operator takes.
  std::optional<Operator> source(const Operator& op) const {
    if (op.kind == OperatorKind::forward && op.chunk.value > 0)
      return Operator{OperatorKind::forward, {op.chunk.value - 1}, op.micro_batch};
    if (is_backward(op.kind) && op.chunk.value + 1 < shape_.total_chunks())
      return Operator{op.kind, {op.chunk.value + 1}, op.micro_batch};
    return std::nullopt;
  }

  void explain_input(Instant begin, Instant end, const Operator& next) {
    const auto from = source(next);
    if (!from) return add(begin, end, IdleReason::order, next, next);
    const Instant computed = std::clamp(traffic_.ended(*from), begin, std::max(begin, end));
    add(begin, computed, IdleReason::computing, next, from);
    add(computed, end, IdleReason::link, next, from);
  }

  const PipelineShape& shape_;
  const StagePlan& plan_;
  StageId stage_;
  std::vector<TimedOperator> ran_;
  const Traffic& traffic_;
  Index index_;
  StageCaps caps_;
  std::vector<Operator> order_;
  std::size_t head_ = 0;                    // the first of `order_` that has not run
  std::vector<bool> done_;                  // by Index
  std::vector<std::uint32_t> next_weight_;  // per chunk
  follow_detail::Level level_;              // what the stage holds
  std::vector<IdleGap> gaps_;
};

constexpr std::array<std::string_view, idle_reasons> names{"fill",  "computing", "link", "sending",
                                                           "order", "cap",       "drain"};

}  // namespace

std::string_view name_of(IdleReason reason) { return names[static_cast<std::size_t>(reason)]; }

IdleReport explain_idle(const PipelineProblem& problem, const std::vector<StagePlan>& plans,
                        const SimulationResult& result) {
  STAGECRAFT_ASSERT(!result.hung, "a run that hung idles for ever");
  const Traffic traffic(problem, result);
  std::vector<std::vector<TimedOperator>> ran(problem.shape.stages);
  for (const TimedOperator& timed : result.timeline) ran[timed.place.stage.value].push_back(timed);
  IdleReport report;
  report.makespan = result.makespan;
  report.per_stage.resize(problem.shape.stages);
  for (std::uint32_t s = 0; s < problem.shape.stages; ++s) {
    StageIdle stage(problem, plans[s], StageId{s}, std::move(ran[s]), traffic);
    for (IdleGap& gap : stage.run(result.makespan)) {
      report.per_stage[s][static_cast<std::size_t>(gap.reason)] += gap.end - gap.begin;
      report.gaps.push_back(gap);
    }
  }
  return report;
}

IdleReport explain_idle(const PipelineProblem& problem, const Schedule& schedule, const SimulationResult& result) {
  std::vector<StagePlan> plans = bare_plans(problem.shape);
  for (std::size_t s = 0; s < plans.size(); ++s) {
    plans[s].dispatch = Dispatch::in_order;
    plans[s].order = schedule.operators[s];
  }
  return explain_idle(problem, plans, result);
}

std::string to_text(const PipelineShape& shape, const IdleGap& gap) {
  std::string text =
      fmt::format("stage {} idles {} from {}: ", gap.stage.value, format(gap.end - gap.begin), format(gap.begin));
  const std::string next = gap.next ? to_text(*gap.next) : "", cause = gap.cause ? to_text(*gap.cause) : "";
  switch (gap.reason) {
    case IdleReason::fill:
      return text + "no micro-batch has got here yet";
    case IdleReason::computing:
      return text + fmt::format("{} waits for {} of stage {}, which is not done", next, cause,
                                shape.stage_of(gap.cause->chunk).value);
    case IdleReason::link:
      return text + fmt::format("{} waits for the result of {} of stage {}, which is on the link", next, cause,
                                shape.stage_of(gap.cause->chunk).value);
    case IdleReason::sending:
      return text + fmt::format("the link has no place for the result of {}", cause);
    case IdleReason::order:
      return text + fmt::format("{} could have run, but {} is planned first", cause, next);
    case IdleReason::cap:
      return text + fmt::format("{} is ready, but the caps hold it back until {}", cause, next);
    case IdleReason::drain:
      return text + "nothing is left to run";
  }
  return text;
}

std::string to_text(const IdleReport& report) {
  std::array<Duration, idle_reasons> all{};
  for (const auto& row : report.per_stage)
    for (std::size_t r = 0; r < idle_reasons; ++r) all[r] += row[r];
  const auto line = [&](std::string_view name, const std::array<Duration, idle_reasons>& row, std::size_t stages) {
    std::string text = fmt::format("{:<9}", name);
    Duration idle{};
    for (std::size_t r = 0; r < idle_reasons; ++r) {
      idle += row[r];
      if (all[r] > Duration{}) text += fmt::format(" {:>10}", row[r] > Duration{} ? format(row[r]) : "-");
    }
    const double whole = static_cast<double>(std::max<std::int64_t>(report.makespan.count(), 1)) *
                         static_cast<double>(std::max<std::size_t>(stages, 1));
    return text + fmt::format(" {:>10} {:>7.1f} %\n", format(idle), 100.0 * static_cast<double>(idle.count()) / whole);
  };
  std::string text = fmt::format("{:<9}", "waits for");
  for (std::size_t r = 0; r < idle_reasons; ++r)
    if (all[r] > Duration{}) text += fmt::format(" {:>10}", names[r]);
  text += fmt::format(" {:>10} {:>9}\n", "idle", "share");
  for (std::size_t s = 0; s < report.per_stage.size(); ++s)
    text += line(fmt::format("stage {}", s), report.per_stage[s], 1);
  return text + line("all", all, report.per_stage.size());
}

}  // namespace stagecraft
