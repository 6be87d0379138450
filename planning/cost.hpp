// What operators and links cost: the numbers that simulators and emulated devices run on. Values only; any thread.
#pragma once

#include <cstdint>
#include <optional>

#include "planning/operator.hpp"
#include "planning/units.hpp"

namespace stagecraft {

/// Times and bytes of the operators of one emulated stage (`per_layer` false: of all its layers, shared evenly by its
/// chunks) or of one layer (`per_layer` true). Bytes are per micro-batch, except `parameters`.
struct CostTable {
  bool per_layer = false;
  Duration forward{}, backward_input{}, backward_weight{};
  Duration reduce{}, step{};  ///< of one parameter group
  Bytes activation{};         ///< kept from F to B
  Bytes weight_activation{};  ///< kept from B to W
  Bytes boundary{};           ///< the tensor that crosses to the neighbour
  Bytes parameters{};         ///< weights alone
};

/// How long the operators of one chunk take.
struct OperatorTimes {
  Duration forward{}, backward_input{}, backward_weight{};
  Duration of(OperatorKind kind) const;
  Duration sum() const { return forward + backward_input + backward_weight; }
  bool operator==(const OperatorTimes&) const = default;
};

/// One direction of a link. A message starts when it is handed over and the server is free, occupies the server for
/// `occupancy` + bytes / `bandwidth`, and arrives `latency` after it has left the server.
struct LinkCost {
  Duration latency{};
  Duration occupancy{};
  Bandwidth bandwidth{};  ///< zero means unlimited
  /// Device-ordered: so many sends may be on the server or wait for it; one more holds up the device that wants to
  /// send, with all that it would run next (head-of-line blocking). None: a send never holds up anyone.
  std::optional<std::uint32_t> queue = {};
  std::uint32_t lanes = 1;  ///< servers that share the messages
  bool shared = false;      ///< both directions take turns on the same servers
  Duration staging{};       ///< how much of `latency` is the way through host memory, whatever the link is like
  bool operator==(const LinkCost&) const = default;
  bool free() const { return latency == Duration{} && occupancy == Duration{} && bandwidth.bytes_per_second == 0; }
};

/// How long one message holds the link's server.
Duration service_time(const LinkCost& link, Bytes message);

}  // namespace stagecraft
