#include "planning/generate.hpp"

#include <algorithm>
#include <chrono>

#include "planning/bug.hpp"
#include "planning/generate/closed_loop.hpp"
#include "planning/generate/pipemorph.hpp"
#include "planning/generate/squeeze.hpp"
#include "planning/generate/v_shape.hpp"
#include "planning/generate/zb_auto.hpp"
#include "planning/generate/zero_bubble.hpp"

namespace stagecraft {

namespace {

bool plans_with_times(ScheduleKind kind) { return kind == ScheduleKind::zb_auto || kind == ScheduleKind::pipemorph; }

void check(ScheduleKind kind, const PipelineProblem& problem, const GenerateOptions& options) {
  const PipelineShape& shape = problem.shape;
  STAGECRAFT_ASSERT(shape.stages > 0 && shape.chunks > 0, "{} for {} stages of {} chunks", name_of(kind), shape.stages,
                    shape.chunks);
  STAGECRAFT_ASSERT(shape.placement == placement_of(kind) || shape.chunks == 1,
                    "{} wants its chunks placed in a {}; set the shape's placement by placement_of", name_of(kind),
                    placement_of(kind) == Placement::v ? "V" : "loop");
  const std::optional<std::uint32_t> chunks = is_fused(kind) ? std::nullopt : chunks_needed(kind);
  STAGECRAFT_ASSERT(!chunks || shape.chunks == *chunks, "{} runs {} chunks per stage, not {}", name_of(kind), *chunks,
                    shape.chunks);
  STAGECRAFT_ASSERT(options.warmup.empty() || options.warmup.size() == shape.stages, "{} warm-ups for {} stages",
                    options.warmup.size(), shape.stages);
  STAGECRAFT_ASSERT(!plans_with_times(kind) || problem.times.size() == shape.total_chunks(),
                    "{} plans with operator times, and has those of {} of {} chunks", name_of(kind),
                    problem.times.size(), shape.total_chunks());
}

Schedule generate_whole(ScheduleKind kind, const PipelineProblem& problem, const std::vector<std::uint32_t>& warmup) {
  const PipelineShape& shape = problem.shape;
  switch (kind) {
    case ScheduleKind::gpipe:
    case ScheduleKind::one_f_one_b:
    case ScheduleKind::interleaved:
    case ScheduleKind::bfs:
      return closed_loop(kind, shape, warmup.empty() ? closed_loop_warmup(kind, shape) : warmup);
    case ScheduleKind::zb_h1:
    case ScheduleKind::zb_h2:
      return zero_bubble(kind, shape, warmup.empty() ? zero_bubble_warmup(kind, shape) : warmup);
    case ScheduleKind::zb_auto:
      return zero_bubble_auto(problem, warmup);
    case ScheduleKind::zb_v:
      return zero_bubble_v(shape);
    case ScheduleKind::v_half:
    case ScheduleKind::v_min:
      return squeeze(shape, repeated_block(kind, shape), block_memory(kind, shape.stages));
    case ScheduleKind::pipemorph:
      return pipemorph(problem, warmup);
    case ScheduleKind::planned:
      break;
  }
  STAGECRAFT_ASSERT(false, "schedule {} comes from the planner, not from a generator", name_of(kind));
}

void split_backwards(Schedule& schedule) {
  for (std::vector<Operator>& order : schedule.operators) {
    std::vector<Operator> split;
    split.reserve(order.size() + order.size() / 2);
    for (Operator op : order) {
      if (op.kind == OperatorKind::backward) {
        op.kind = OperatorKind::backward_input;
        split.push_back(op);
        op.kind = OperatorKind::backward_weight;
      }
      split.push_back(op);
    }
    order = std::move(split);
  }
}

PipelineProblem equal_problem(const PipelineShape& shape) {
  PipelineProblem problem;
  problem.shape = shape;
  const Duration unit = std::chrono::milliseconds(1);
  problem.times.assign(shape.total_chunks(), {unit, unit, unit});
  return problem;
}

std::uint32_t forwards_first(const std::vector<Operator>& order) {
  const auto first =
      std::find_if(order.begin(), order.end(), [](const Operator& op) { return op.kind != OperatorKind::forward; });
  return static_cast<std::uint32_t>(first - order.begin());
}

}  // namespace

Placement placement_of(ScheduleKind kind) {
  const bool v = kind == ScheduleKind::zb_v || kind == ScheduleKind::v_half || kind == ScheduleKind::v_min;
  return v ? Placement::v : Placement::loop;
}

bool is_fused(ScheduleKind kind) {
  return kind == ScheduleKind::gpipe || kind == ScheduleKind::one_f_one_b || kind == ScheduleKind::interleaved ||
         kind == ScheduleKind::bfs;
}

std::optional<std::uint32_t> chunks_needed(ScheduleKind kind) {
  if (kind == ScheduleKind::interleaved || kind == ScheduleKind::bfs) return std::nullopt;
  return placement_of(kind) == Placement::v ? 2 : 1;
}

Schedule generate(ScheduleKind kind, const PipelineProblem& problem, const GenerateOptions& options) {
  check(kind, problem, options);
  if (problem.shape.micro_batches == 0) return {std::vector<std::vector<Operator>>(problem.shape.stages)};
  Schedule schedule = generate_whole(kind, problem, options.warmup);
  if (options.split) split_backwards(schedule);
  return schedule;
}

std::vector<std::uint32_t> natural_warmup(ScheduleKind kind, const PipelineShape& shape) {
  std::vector<std::uint32_t> warmup;
  if (is_fused(kind))
    warmup = closed_loop_warmup(kind, shape);
  else if (kind == ScheduleKind::zb_h1 || kind == ScheduleKind::zb_h2)
    warmup = zero_bubble_warmup(kind, shape);
  else
    for (const auto& order : generate(kind, equal_problem(shape)).operators) warmup.push_back(forwards_first(order));
  for (std::uint32_t& count : warmup) count = std::max(count, 1U);
  return warmup;
}

Schedule generate(ScheduleKind kind, const PipelineShape& shape, const std::vector<std::uint32_t>& warmup) {
  return generate(kind, equal_problem(shape), {warmup, false});
}

}  // namespace stagecraft
