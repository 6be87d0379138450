// The recorded schedules of tests/data/schedules, and what to compare with them. Any thread.
#pragma once

#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#include "planning/replay.hpp"
#include "tests/planning/pipelines.hpp"

namespace stagecraft::pipelines {

/// All records, or those of one schedule.
inline std::vector<nlohmann::json> schedule_vectors(const std::string& schedule = {}) {
  std::ifstream file(STAGECRAFT_SOURCE_DIR "/tests/data/schedules/vectors.json");
  if (!file) throw std::runtime_error("tests/data/schedules/vectors.json is missing");
  std::vector<nlohmann::json> records = nlohmann::json::parse(file)["vectors"];
  std::erase_if(records, [&](const auto& r) { return !schedule.empty() && r["schedule"] != schedule; });
  return records;
}

/// Equal operators on all chunks, and the same cost on every boundary between two stages.
inline PipelineProblem uniform_problem(const PipelineShape& shape, const OperatorTimes& times,
                                       const LinkCost& link = {}) {
  PipelineProblem problem;
  problem.shape = shape;
  problem.times.assign(shape.total_chunks(), times);
  for (std::uint32_t b = 0; b + 1 < shape.total_chunks(); ++b)
    problem.forward_links.push_back(shape.is_inside(b) ? LinkCost{} : link);
  problem.backward_links = problem.forward_links;
  return problem;
}

/// The shape of a kind, with as many chunks as it needs.
inline PipelineShape shape_for(ScheduleKind kind, std::uint32_t stages, std::uint32_t micro_batches,
                               std::uint32_t first = 0) {
  PipelineShape shape = shape_of(stages, micro_batches, chunks_needed(kind).value_or(2), first);
  shape.placement = placement_of(kind);
  return shape;
}

/// The longest time from the first start to the last end of one stage.
inline Duration stage_time(const SimulationResult& result) {
  std::vector<Instant> first(result.peaks.size(), Instant::max()), last(result.peaks.size());
  for (const TimedOperator& timed : result.timeline) {
    const std::uint32_t s = timed.place.stage.value;
    first[s] = std::min(first[s], timed.start);
    last[s] = std::max(last[s], timed.end);
  }
  Duration longest{};
  for (std::size_t s = 0; s < first.size(); ++s) longest = std::max(longest, last[s] - first[s]);
  return longest;
}

/// The share of the makespan that an average stage idles.
inline double idle_share(const SimulationResult& result) {
  Duration busy{};
  for (const TimedOperator& timed : result.timeline) busy += timed.end - timed.start;
  return 1 - static_cast<double>(busy.count()) /
                 (static_cast<double>(result.peaks.size()) * static_cast<double>(result.makespan.count()));
}

inline std::vector<std::uint32_t> peaks_of(const SimulationResult& result, std::uint32_t StagePeaks::*which) {
  std::vector<std::uint32_t> values;
  for (const StagePeaks& peaks : result.peaks) values.push_back(peaks.*which);
  return values;
}

}  // namespace stagecraft::pipelines
