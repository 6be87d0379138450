#include "planning/follow.hpp"

#include <algorithm>
#include <map>

#include "planning/bug.hpp"
#include "planning/replay.hpp"

namespace stagecraft {

namespace {

bool has_service_times(const PipelineProblem& problem) {
  for (const auto* links : {&problem.forward_links, &problem.backward_links})
    for (const LinkCost& link : *links)
      if (link.occupancy.count() > 0 || link.bandwidth.bytes_per_second > 0 || link.queue) return true;
  return false;
}

bool is_backward(OperatorKind kind) { return kind == OperatorKind::backward_input || kind == OperatorKind::backward; }

// Times of the operators of one replica by chunk, micro-batch and what they are: F, B or X, W.
class Table {
 public:
  Table(const PipelineShape& shape, Duration initial)
      : first_(shape.first.value),
        width_(3 * std::size_t{shape.micro_batches}),
        times_(width_ * shape.total_chunks(), initial) {}
  Duration& at(const Operator& op) {
    const std::size_t kind = op.kind == OperatorKind::forward ? 0 : op.kind == OperatorKind::backward_weight ? 2 : 1;
    return times_[op.chunk.value * width_ + 3 * (op.micro_batch.value - first_) + kind];
  }

 private:
  std::uint32_t first_;
  std::size_t width_;
  std::vector<Duration> times_;
};

// Backwards through the operators as they were planned to start, which is an order of their dependencies.
Table latest_starts(const PipelineProblem& problem, const SimulationResult& planned) {
  const PipelineShape& shape = problem.shape;
  Table latest(shape, planned.makespan);
  std::vector<Duration> next_on_device(shape.stages, planned.makespan);
  const std::uint32_t last = shape.total_chunks() - 1;
  for (auto it = planned.timeline.rbegin(); it != planned.timeline.rend(); ++it) {
    const Operator& op = it->op;
    Duration end = next_on_device[it->place.stage.value];
    const std::uint32_t c = op.chunk.value;
    if (op.kind == OperatorKind::forward) {
      if (c < last) {
        end = std::min(
            end, latest.at({OperatorKind::forward, {c + 1}, op.micro_batch}) - problem.crossing(Direction::forward, c));
      } else {
        end = std::min(end, latest.at({OperatorKind::backward, {c}, op.micro_batch}));
      }
    } else if (is_backward(op.kind) && c > 0) {
      end = std::min(end, latest.at({OperatorKind::backward, {c - 1}, op.micro_batch}) -
                              problem.crossing(Direction::backward, c - 1));
    }
    const Duration start = end - problem.times[c].of(op.kind);
    latest.at(op) = start;
    next_on_device[it->place.stage.value] = start;
  }
  return latest;
}

// How the backward of a chunk is written in the schedule.
std::vector<OperatorKind> backward_kinds(const PipelineShape& shape, const Schedule& schedule) {
  std::vector<OperatorKind> kinds(shape.total_chunks(), OperatorKind::backward_input);
  for (const auto& order : schedule.operators)
    for (const Operator& op : order)
      if (op.kind == OperatorKind::backward) kinds[op.chunk.value] = op.kind;
  return kinds;
}

Duration producer_time(const PipelineProblem& problem, const Operator& op, const std::vector<OperatorKind>& backwards) {
  const std::uint32_t c = op.chunk.value;
  if (op.kind == OperatorKind::forward) return c == 0 ? Duration{} : problem.times[c - 1].forward;
  if (!is_backward(op.kind) || c + 1 == problem.shape.total_chunks()) return {};
  return problem.times[c + 1].of(backwards[c + 1]);
}

void at_least(std::optional<std::uint32_t>& cap, std::uint32_t needed) {
  if (cap) cap = std::max(*cap, needed);
}

}  // namespace

std::vector<std::vector<Pace>> paces_of(const PipelineProblem& problem, const Schedule& schedule,
                                        const SimulationResult& planned) {
  STAGECRAFT_ASSERT(!planned.hung, "a list that can't proceed has no paces");
  Table starts = latest_starts(problem, planned);
  if (has_service_times(problem))
    for (const TimedOperator& timed : planned.timeline) starts.at(timed.op) = timed.start;
  const auto backwards = backward_kinds(problem.shape, schedule);
  std::vector<std::vector<Pace>> paces;
  for (const auto& order : schedule.operators) {
    auto& list = paces.emplace_back();
    list.reserve(order.size());
    for (const Operator& op : order)
      list.push_back({starts.at(op), problem.times[op.chunk.value].of(op.kind), producer_time(problem, op, backwards)});
  }
  return paces;
}

std::vector<StagePlan> follow_plans(const PipelineProblem& problem, const Schedule& schedule,
                                    const SimulationResult& planned) {
  auto paces = paces_of(problem, schedule, planned);
  std::vector<StagePlan> plans = bare_plans(problem.shape);
  for (std::size_t s = 0; s < plans.size(); ++s) {
    StagePlan& plan = plans[s];
    plan.dispatch = Dispatch::follow;
    plan.order = schedule.operators[s];
    plan.paces = std::move(paces[s]);
    if (!problem.caps.empty()) plan.caps = problem.caps[s];
    at_least(plan.caps.activations, planned.peaks[s].activations);
    at_least(plan.caps.pending_weights, planned.peaks[s].pending_weights);
    at_least(plan.caps.held, planned.peaks[s].held);
  }
  return plans;
}

}  // namespace stagecraft
