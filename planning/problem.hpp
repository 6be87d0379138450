// What the planner prices: the pipeline of one replica with the costs of its operators and links, and what its stages
// may hold. Values only; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "planning/cost.hpp"
#include "planning/shape.hpp"

namespace stagecraft {

/// Limits on what a stage holds at one time, in micro-batches x chunks. None: no limit.
struct StageCaps {
  std::optional<std::uint32_t> activations;      ///< forwards started - backwards done (F - B)
  std::optional<std::uint32_t> pending_weights;  ///< backwards started - weight gradients done (B - W)
  std::optional<std::uint32_t> held;             ///< forwards started - weight gradients done (F - W)
  bool operator==(const StageCaps&) const = default;
};

struct PipelineProblem {
  PipelineShape shape;
  std::vector<OperatorTimes> times;      ///< per chunk
  std::vector<LinkCost> forward_links;   ///< per boundary (chunk c to c+1); empty: free
  std::vector<LinkCost> backward_links;  ///< per boundary (chunk c+1 to c); empty: free
  std::vector<Bytes> boundary;           ///< bytes of the tensor that crosses each boundary; empty: none
  std::vector<StageCaps> caps;           ///< per stage; empty: no limits

  /// What a message takes from its hand-over to its arrival on an idle link; nothing inside a stage.
  Duration crossing(Direction direction, std::uint32_t boundary_index) const;
};

}  // namespace stagecraft
