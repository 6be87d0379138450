// The lanes from this node to one other: what has tensors goes over them, between two processes.
// Who knocks: the gate. What it owns: two lanes, one for what the next operator waits for, one for states.
#pragma once

#include <memory>
#include <string>

#include "actors/cluster/gate.hpp"

namespace stagecraft {

/// `secret`: of the job. Throws std::runtime_error when a lane can't be made. Blocks while an address is looked up,
/// which a numeric one does not need.
std::shared_ptr<BulkRoute> make_lane_route(GateActor gate, const Topology& topology, std::uint32_t own,
                                           std::uint32_t other, const std::string& secret);

}  // namespace stagecraft
