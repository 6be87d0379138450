// What the PipeMorph paper (NSDI 2026) and its artifact published: models, operator times and measured values, each
// with the figure that it stands in. Nothing here is ours. Values only; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "planning/cost.hpp"
#include "planning/reproduce/cell.hpp"
#include "planning/shape.hpp"

namespace stagecraft::reproduce {

enum class ModelSize : std::uint8_t { b7, b14, b30, b60, b140 };

/// Seconds, or what the figure counts, per published system.
struct PublishedValues {
  std::optional<double> one_f_one_b = {}, zero_bubble = {}, delegated = {}, pipemorph = {};
  std::optional<double> of(System system) const;
};

/// A model on its pipeline.
struct PublishedModel {
  std::string_view name;
  PipelineShape shape;               ///< of one replica: 3 micro-batches per stage
  std::vector<OperatorTimes> times;  ///< of the artifact's simulated plans; where it gives a range, its middle
  PublishedValues healthy;           ///< Figure 21, seconds; none for 140B
};
PublishedModel published_model(ModelSize size);

/// Links of the pipeline that are slow by the same.
struct SlowLinkCase {
  int figure = 0;
  ModelSize model{};
  std::vector<std::uint32_t> links;
  int delay_ms = 0;
  PublishedValues seconds;
};
/// Figures 1, 15, 16 and 17, in the order in which they are printed.
const std::vector<SlowLinkCase>& slow_link_cases();

/// 7B with two replicas (Figures 3 and 19): the link between the replicas is slow, or carries the pipeline instead.
struct ReplicaLinkCase {
  int delay_ms = 0;
  double on_replicas = 0;    ///< seconds; zero bubble
  PublishedValues remapped;  ///< seconds; zero bubble is the paper's Falcon
};
constexpr double replicas_healthy = 0.49;  ///< seconds; Figure 3
const std::vector<ReplicaLinkCase>& replica_link_cases();

/// Figure 6: zero bubble on 7B under a profiler, link 0-1 at 30 ms.
constexpr double profiled_healthy_ms = 710, profiled_slow_ms = 1350;

/// Figure 14: 7B, link 2-3 at 30 ms; milliseconds, and the idle share of all stages in percent.
PublishedValues traced_milliseconds();
PublishedValues traced_idle_percent();

/// Figure 18: 7B, delays drawn from N(30, 10) ms anew every so often.
struct ChangingCase {
  std::string_view title;
  int shortest_ms = 0, longest_ms = 0;  ///< for which a draw holds
  PublishedValues seconds;
};
constexpr double changing_mean_ms = 30, changing_deviation_ms = 10;
const std::vector<ChangingCase>& changing_cases();

/// Figure 22: 140B under an hour of production delays.
PublishedValues production_iterations_per_minute();
constexpr double production_median_ms = 13.0, production_mean_ms = 22.3, production_p99_ms = 79.3;

}  // namespace stagecraft::reproduce
