// From the text of a topology file to validated values, or to the list of everything that is wrong with it. Pure: no
// file is opened here, nothing is remembered. Any thread.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "config/diagnostics.hpp"
#include "config/topology.hpp"

namespace stagecraft {

struct LoadResult {
  std::optional<Topology> topology;     ///< there unless a diagnostic is an error
  std::vector<Diagnostic> diagnostics;  ///< errors, warnings and notes, by position
};

/// `file_name` is only for messages. `overrides` are `dotted.key=value`, applied in order before anything is validated.
/// Never throws because of the text. docs/topology.md is the reference of the format, docs/errors.md of the codes.
LoadResult load_topology(const std::string& file_name, const std::string& text,
                         const std::vector<std::string>& overrides = {});

/// The resolved configuration as a topology file, every default written out (on emulated devices only what counts
/// there). Loading it gives the same topology, as long as it stays within the limits of a file.
std::string describe(const Topology& topology);

/// What the link between two stages that share a chunk boundary costs in one direction. Free when the topology has no
/// such link. The order of the stages does not matter.
/// By the route that a run begins with.
LinkCost link_cost(const Topology& topology, StageId one, StageId other, Direction direction);
RouteSpec route_spec(const Topology& topology, StageId one, StageId other, Direction direction);

}  // namespace stagecraft
