// What a trace says of the stages: how long each one computed what, how long tensors were on their way to it, how long
// it was idle. Pure; any thread.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "planning/ids.hpp"
#include "planning/operator.hpp"
#include "planning/units.hpp"

namespace stagecraft::tools {

/// What a trace of ours holds, in whatever order.
struct TraceContent {
  struct Ran {
    Place place;
    std::optional<OperatorKind> kind;    ///< none: a service
    std::string service;                 ///< its name: step, reduce, ...
    std::optional<Iteration> iteration;  ///< none in a plan
    Instant start{}, end{};
  };
  /// One end of an arrow; both have the same id.
  struct ArrowEnd {
    Place place;
    std::uint64_t id = 0;
    bool arrives = false;
    Instant at{};
  };
  std::vector<Ran> ran;  ///< never empty
  std::vector<ArrowEnd> ends;
};

/// Of one stage of one replica, in ms.
struct StageShare {
  Place place;
  double forward = 0, backward = 0, weight = 0, backward_and_weight = 0;
  std::map<std::string, double> services;  ///< by name
  double under_way = 0;                    ///< at least one tensor was on its way to it
  double waited = 0;                       ///< of that, it was idle
  double idle = 0;                         ///< nothing ran
  std::uint64_t operators = 0, tensors = 0;

  double other() const;
};

struct TraceSummary {
  double span = 0;  ///< in ms, from the first start to the last end of whatever ran
  std::vector<StageShare> stages;
  /// Of the span; of all stages together when there is no stage.
  double bubble(const StageShare& stage) const { return span > 0 ? stage.idle / span : 0; }
  double bubble() const;
};

/// Every stage that something ran on, or a tensor went to, by replica, then stage.
TraceSummary summarise(const TraceContent& trace);
/// Of each iteration in which an operator ran, what ran for it; its span is from the first start to the last end of
/// that. A tensor belongs to the one in whose span it arrived, the step after an iteration to the next one, which
/// brings it.
std::vector<std::pair<Iteration, TraceSummary>> summarise_iterations(const TraceContent& trace);
/// Arrows of which the trace holds one end only: they do not count.
std::uint64_t loose_ends(const TraceContent& trace);

}  // namespace stagecraft::tools
