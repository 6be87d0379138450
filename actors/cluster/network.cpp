#include "actors/cluster/network.hpp"

#include <fmt/format.h>
#include <caf/io/all.hpp>
#include <caf/openssl/all.hpp>

#include <charconv>

namespace stagecraft {

namespace {

// Without certificates CAF's TLS would accept anybody: then there is none at all.
bool encrypted(caf::actor_system& system) { return !system.config().openssl_certificate.empty(); }

}  // namespace

void join_network(caf::actor_system_config& config, const NetworkOptions& options) {
  config.add_message_type<Envelope>("stagecraft::Envelope");
  config.load<caf::io::middleman>();
  if (!options.certificate.empty()) {
    config.load<caf::openssl::manager>();
    config.openssl_certificate = options.certificate;
    config.openssl_key = options.key;
    config.openssl_cafile = options.authority;
  }
  // A beat in each quarter of the silence that means death.
  config.set("middleman.heartbeat-interval", caf::timespan(options.silence / 4));
  config.set("middleman.connection-timeout", caf::timespan(options.silence));
}

NetworkAddress parse_network_address(const std::string& text) {
  NetworkAddress address;
  const std::size_t colon = text.rfind(':');
  address.host = text.substr(0, colon);
  if (address.host.starts_with('[') && address.host.ends_with(']'))
    address.host = address.host.substr(1, address.host.size() - 2);
  if (colon != std::string::npos) std::from_chars(text.data() + colon + 1, text.data() + text.size(), address.port);
  return address;
}

std::string to_text(const NetworkAddress& address) {
  const bool v6 = address.host.find(':') != std::string::npos;
  return v6 ? fmt::format("[{}]:{}", address.host, address.port) : fmt::format("{}:{}", address.host, address.port);
}

bool is_loopback(const NetworkAddress& address) {
  return address.host == "localhost" || address.host == "::1" || address.host.starts_with("127.");
}

std::variant<NetworkAddress, std::string> publish_gate(caf::actor_system& system, const GateActor& gate,
                                                       const NetworkAddress& at) {
  const auto door = caf::actor_cast<PeerDoor>(gate);
  const auto port = encrypted(system) ? caf::openssl::publish(door, at.port, at.host.c_str(), true)
                                      : system.middleman().publish(door, at.port, at.host.c_str(), true);
  if (!port) return fmt::format("cannot listen at {}: {}", to_text(at), system.render(port.error()));
  return NetworkAddress{at.host, *port};
}

void close_gate(caf::actor_system& system, const GateActor& gate, const NetworkAddress& at) {
  const auto door = caf::actor_cast<PeerDoor>(gate);
  if (encrypted(system)) {
    // CAF's own function for that does not compile.
    caf::anon_send(system.openssl_manager().actor_handle(), caf::unpublish_atom::value, door.address(), at.port);
  } else {
    system.middleman().unpublish(door, at.port);
  }
}

std::variant<PeerDoor, std::string> reach_gate(caf::actor_system& system, const NetworkAddress& at) {
  const auto door = encrypted(system) ? caf::openssl::remote_actor<PeerDoor>(system, at.host, at.port)
                                      : system.middleman().remote_actor<PeerDoor>(at.host, at.port);
  if (!door) return fmt::format("cannot reach {}: {}", to_text(at), system.render(door.error()));
  return *door;
}

}  // namespace stagecraft
