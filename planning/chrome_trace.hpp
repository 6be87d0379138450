// The format of Chrome traces (open in Perfetto and chrome://tracing): one track per stage and replica, operators named
// as in the plan, arrows from sent to arrived. One owner; not thread-safe.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <string_view>

#include "planning/ids.hpp"
#include "planning/operator.hpp"
#include "planning/shape.hpp"
#include "planning/simulate.hpp"
#include "planning/units.hpp"

namespace stagecraft {

class ChromeTrace {
 public:
  /// Something ran on a stage; `arguments` is shown beside it: `"name":number` pairs, separated by commas.
  void ran(Place place, std::string_view name, std::string_view category, Instant start, Instant end,
           std::string_view arguments);
  /// The end of an arrow; both ends have the same id.
  void sent(Place place, Direction direction, std::uint64_t id, Instant at);
  void arrived(Place place, Direction direction, std::uint64_t id, Instant at);
  /// The place has a track even if nothing ran there.
  void visit(Place place) { places_.insert(place); }

  /// The whole file; the names of the tracks come last.
  std::string text() const;

 private:
  std::string& next();
  void arrow(std::string_view phase, Place place, Direction direction, std::uint64_t id, Instant at);

  std::string events_;
  std::set<Place> places_;
};

/// A planned iteration, every operator with its chunk and micro-batch. Arrows go from the end of an operator to the
/// start of the one on another stage that takes its result.
std::string to_chrome_trace(const PipelineShape& shape, const SimulationResult& planned);

}  // namespace stagecraft
