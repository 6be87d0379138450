// Small pipelines for the tests of planning: shapes, plans of stages and inputs of the simulator. Values only; any
// thread.
#pragma once

#include <fmt/format.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "planning/generate.hpp"
#include "planning/replay.hpp"
#include "planning/simulate.hpp"

namespace stagecraft::pipelines {

using namespace std::chrono_literals;

constexpr OperatorKind F = OperatorKind::forward, B = OperatorKind::backward_input, W = OperatorKind::backward_weight,
                       X = OperatorKind::backward;
constexpr ScheduleKind all_kinds[] = {ScheduleKind::gpipe, ScheduleKind::one_f_one_b, ScheduleKind::interleaved,
                                      ScheduleKind::bfs};

inline PipelineShape shape_of(std::uint32_t stages, std::uint32_t micro_batches, std::uint32_t chunks = 1,
                              std::uint32_t first = 0) {
  return {stages, chunks, MicroBatch{first}, micro_batches};
}

/// Stages of the shape without list and caps, reactive.
inline std::vector<StagePlan> reactive_plans(const PipelineShape& shape) { return bare_plans(shape); }

/// Stages that run the list in order.
inline std::vector<StagePlan> static_plans(const PipelineShape& shape, const Schedule& schedule) {
  std::vector<StagePlan> plans = reactive_plans(shape);
  for (std::uint32_t s = 0; s < shape.stages; ++s) {
    plans[s].dispatch = Dispatch::in_order;
    plans[s].order = schedule.operators[s];
  }
  return plans;
}

/// The schedule with its own warm-up.
inline Schedule natural(ScheduleKind kind, const PipelineShape& shape) {
  return generate(kind, shape, natural_warmup(kind, shape));
}

/// Equal chunks, free links, and credits that nobody can use up.
inline SimulationInput input_of(const PipelineShape& shape, std::vector<StagePlan> plans,
                                const OperatorTimes& times = {10ms, 10ms, 10ms}) {
  SimulationInput input;
  input.shape = shape;
  input.plans = std::move(plans);
  input.times.assign(shape.total_chunks(), times);
  input.credits = shape.micro_batches;
  return input;
}

/// Every boundary, both directions.
inline void set_links(SimulationInput& input, const LinkCost& cost) {
  input.forward_links.assign(input.shape.total_chunks() - 1, cost);
  input.backward_links = input.forward_links;
}

/// For messages of failed expectations.
inline std::string to_text(const PipelineShape& shape) {
  return fmt::format("{} stages, {} micro-batches from {}, {} chunks", shape.stages, shape.micro_batches,
                     shape.first.value, shape.chunks);
}

}  // namespace stagecraft::pipelines
