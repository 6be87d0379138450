// A timeline sorted into rows, for those who draw it. Values only; any thread.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "planning/timeline.hpp"

namespace stagecraft {

struct TimelineRows {
  std::map<Place, std::vector<TimedOperator>> rows;  ///< each by start
  std::map<Place, ChunkId> first_chunk;              ///< of each row
  Instant begin{}, end{};                            ///< of all rows
  bool several_chunks = false;                       ///< some row has more than one
  bool several_replicas = false;

  std::int64_t length() const { return std::max<std::int64_t>(1, (end - begin).count()); }
};

/// At least one operator.
TimelineRows rows_of(std::vector<TimedOperator> operators);

/// Time in which nothing ran, in ns; overlaps count once.
std::int64_t idle_time(const TimelineRows& chart, const std::vector<TimedOperator>& row);
/// "12.3 %".
std::string percent(std::int64_t part, std::int64_t whole);
/// "stage 2", with several replicas "stage 2 r1".
std::string row_name(const TimelineRows& chart, Place place);
/// The smallest of 1, 2 and 5 times a power of ten that is at least `least`, in ns.
std::int64_t tick_step(double least);
/// "forward", "input gradient", "weight gradient", "backward (B and W in one)".
std::string_view name_of(OperatorKind kind);

}  // namespace stagecraft
