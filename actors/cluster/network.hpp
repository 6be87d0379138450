// The one place that knows CAF's network: BASP over mutual TLS, or plain on loopback. Heartbeats are always on.
#pragma once

#include <string>
#include <variant>

#include "actors/cluster/gate.hpp"
#include "actors/world/world.hpp"

namespace stagecraft {

/// Makes a system that will be built from `config` one that can talk to others.
void join_network(caf::actor_system_config& config, const NetworkOptions& options);

/// "10.0.0.1:7000", "[::1]:0".
struct NetworkAddress {
  std::string host;
  std::uint16_t port = 0;
};
NetworkAddress parse_network_address(const std::string& text);
std::string to_text(const NetworkAddress& address);
/// Nobody but this machine reaches it.
bool is_loopback(const NetworkAddress& address);

/// Lets other nodes in at `at`, of which a port of 0 is chosen: where it is then, or why it can't be. Main thread.
std::variant<NetworkAddress, std::string> publish_gate(caf::actor_system& system, const GateActor& gate,
                                                       const NetworkAddress& at);
/// Lets nobody in any more; connections that stand are kept. Main thread.
void close_gate(caf::actor_system& system, const GateActor& gate, const NetworkAddress& at);
/// The gate at that address, or why there is none. Main thread; blocks.
std::variant<PeerDoor, std::string> reach_gate(caf::actor_system& system, const NetworkAddress& at);

}  // namespace stagecraft
