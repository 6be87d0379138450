// The one place that knows CAF's network: BASP over mutual TLS, or plain on loopback.
#pragma once

#include <functional>
#include <memory>
#include <optional>
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
/// Hangs up on whoever connected there and has said nothing for so long. Main thread; returns at once.
void hang_up_on_the_silent(caf::actor_system& system, const NetworkAddress& at, Duration silence);

/// An attempt to reach the gate at an address. Nobody waits in it: where packets are dropped, TCP takes minutes to say
/// so, and the system can't end before. Main thread.
class Knock {
 public:
  /// `news` is called on any thread once there is an answer.
  Knock(caf::actor_system& system, const NetworkAddress& at, std::function<void()> news);
  /// The gate, or why there is none; nothing as long as that is open.
  std::optional<std::variant<PeerDoor, std::string>> answer() const;

 private:
  struct Shared;
  std::shared_ptr<Shared> shared_;
};

}  // namespace stagecraft
