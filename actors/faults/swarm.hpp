// Scenarios out of a seed: first which faults there are at all, then how often, how long and how hard. A run with
// everything on tests little; so does one whose faults are always the same. Pure.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "config/scenario.hpp"

namespace stagecraft {

/// What a swarm draws from.
struct SwarmSpace {
  std::string topology;  ///< path of the file
  Topology base;         ///< what it says
  Duration iteration{};  ///< how long one takes without faults: the scale of all times
};

/// Faults that a run of this topology must survive with the same bits, in a layout that is drawn too (`set`; whoever
/// loads the topology with it may have to leave that out: not every file allows every layout). The last part of the run
/// is calm.
Scenario draw_swarm(const SwarmSpace& space, std::uint64_t seed);

/// The same failure with less: fewer faults, fewer iterations, fewer stages, as long as `fails` says so. At most
/// `tries` runs.
Scenario shrink(Scenario scenario, const Topology& topology, const std::function<bool(const Scenario&)>& fails,
                std::uint32_t tries);

}  // namespace stagecraft
