#include "planning/timeline_rows.hpp"

#include <utility>

#include <fmt/format.h>

namespace stagecraft {

TimelineRows rows_of(std::vector<TimedOperator> operators) {
  TimelineRows chart;
  chart.begin = operators.front().start, chart.end = operators.front().end;
  std::stable_sort(operators.begin(), operators.end(),
                   [](const auto& a, const auto& b) { return std::pair(a.start, a.end) < std::pair(b.start, b.end); });
  for (const TimedOperator& timed : operators) {
    chart.begin = std::min(chart.begin, timed.start), chart.end = std::max(chart.end, timed.end);
    chart.rows[timed.place].push_back(timed);
    chart.several_replicas |= timed.place.replica != operators.front().place.replica;
    if (timed.overhead) continue;
    ChunkId& first = chart.first_chunk.try_emplace(timed.place, timed.op.chunk).first->second;
    chart.several_chunks |= first != timed.op.chunk;
    first = std::min(first, timed.op.chunk);
  }
  return chart;
}

std::int64_t idle_time(const TimelineRows& chart, const std::vector<TimedOperator>& row) {
  std::int64_t idle = 0;
  Instant seen = chart.begin;
  for (const TimedOperator& timed : row) {
    idle += std::max<std::int64_t>(0, (timed.start - seen).count());
    seen = std::max(seen, timed.end);
  }
  return idle + (chart.end - seen).count();
}

std::string percent(std::int64_t part, std::int64_t whole) {
  return fmt::format("{:.1f} %", 100.0 * static_cast<double>(part) / static_cast<double>(whole));
}

std::string row_name(const TimelineRows& chart, Place place) {
  const std::string name = fmt::format("stage {}", place.stage.value);
  return chart.several_replicas ? fmt::format("{} r{}", name, place.replica.value) : name;
}

std::int64_t tick_step(double least) {
  std::int64_t step = 1;
  for (int turn = 0; static_cast<double>(step) < least; ++turn) step = turn % 3 == 1 ? step / 2 * 5 : step * 2;
  return step;
}

std::string_view name_of(OperatorKind kind) {
  switch (kind) {
    case OperatorKind::forward:
      return "forward";
    case OperatorKind::backward_input:
      return "input gradient";
    case OperatorKind::backward_weight:
      return "weight gradient";
    case OperatorKind::backward:
      return "backward (B and W in one)";
  }
  return {};
}

}  // namespace stagecraft
