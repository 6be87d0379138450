#include "actors/cluster/network.hpp"

#include <fmt/format.h>
#include <caf/io/all.hpp>
#include <caf/openssl/all.hpp>

#include <charconv>
#include <mutex>
#include <set>

#include "actors/cluster/tls_errors.hpp"
#include "planning/bug.hpp"
#include "transport/silent_sockets.hpp"

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
  STAGECRAFT_ASSERT(tls_errors_stay_apart(), "SSL_read is another library's");
  // The gates notice who is silent (gate.cpp). CAF's own heartbeat is for connections that no gate knows, and slow:
  // each of its ticks also closes those that are just being made.
  config.set("middleman.heartbeat-interval", caf::timespan(options.silence * 15));
  config.set("middleman.connection-timeout", caf::timespan(options.silence * 60));
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

void hang_up_on_the_silent(caf::actor_system& system, const NetworkAddress& at, Duration silence) {
  // On the thread that reads and closes CAF's sockets.
  system.middleman().backend().post([=] { hang_up_on_the_silent(at.port, silence); });
}

struct Knock::Shared {
  std::mutex mutex;
  std::optional<std::variant<PeerDoor, std::string>> answer;
};

Knock::Knock(caf::actor_system& system, const NetworkAddress& at, std::function<void()> news)
    : shared_(std::make_shared<Shared>()) {
  const auto answer = [shared = shared_, news = std::move(news)](std::variant<PeerDoor, std::string> what) {
    {
      const std::lock_guard guard(shared->mutex);
      shared->answer = std::move(what);
    }
    news();
  };
  const caf::io::middleman_actor doorman =
      encrypted(system) ? system.openssl_manager().actor_handle() : system.middleman().actor_handle();
  system.spawn([=](caf::event_based_actor* self) {
    const auto failed = [=](const caf::error& why) {
      answer(fmt::format("cannot reach {}: {}", to_text(at), self->system().render(why)));
    };
    self->request(doorman, caf::infinite, caf::connect_atom::value, at.host, at.port)
        .then(
            [=](const caf::node_id&, const caf::strong_actor_ptr& door, const std::set<std::string>& interfaces) {
              if (!door) return failed(caf::make_error(caf::sec::no_actor_published_at_port, at.port));
              if (!self->system().assignable<PeerDoor>(interfaces))
                return failed(caf::sec::unexpected_actor_messaging_interface);
              answer(caf::actor_cast<PeerDoor>(door));
            },
            failed);
  });
}

std::optional<std::variant<PeerDoor, std::string>> Knock::answer() const {
  const std::lock_guard guard(shared_->mutex);
  return shared_->answer;
}

}  // namespace stagecraft
