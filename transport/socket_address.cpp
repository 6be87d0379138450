#include "transport/socket_address.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <memory>
#include <system_error>

namespace stagecraft {

namespace {

// The bytes of a sockaddr_storage as what its family says they are.
template <class Address>
Address as(const sockaddr_storage& storage) {
  Address address;
  static_assert(sizeof address <= sizeof storage);
  std::memcpy(&address, &storage, sizeof address);
  return address;
}

template <class Address>
sockaddr_storage stored(const Address& address) {
  sockaddr_storage storage{};
  std::memcpy(&storage, &address, sizeof address);
  return storage;
}

bool is_any_address(const sockaddr_storage& address) {
  if (address.ss_family == AF_INET) return as<sockaddr_in>(address).sin_addr.s_addr == htonl(INADDR_ANY);
  const auto v6 = as<sockaddr_in6>(address).sin6_addr;
  return std::memcmp(&v6, &in6addr_any, sizeof v6) == 0;
}

// 0, or the errno that says why not.
int bind_error(const addrinfo& at) {
  const int descriptor = socket(at.ai_family, at.ai_socktype | SOCK_CLOEXEC, at.ai_protocol);
  if (descriptor < 0) return errno;
  const int error = bind(descriptor, at.ai_addr, at.ai_addrlen) == 0 ? 0 : errno;
  ::close(descriptor);
  return error;
}

}  // namespace

std::string host_text(const sockaddr_storage& address) {
  std::array<char, INET6_ADDRSTRLEN> host{};
  if (address.ss_family == AF_INET) {
    const auto v4 = as<sockaddr_in>(address).sin_addr;
    inet_ntop(AF_INET, &v4, host.data(), host.size());
  } else if (address.ss_family == AF_INET6) {
    const auto v6 = as<sockaddr_in6>(address).sin6_addr;
    inet_ntop(AF_INET6, &v6, host.data(), host.size());
  }
  return host.data();
}

std::string to_text(const sockaddr_storage& address) {
  if (address.ss_family == AF_INET)
    return fmt::format("{}:{}", host_text(address), ntohs(as<sockaddr_in>(address).sin_port));
  if (address.ss_family == AF_INET6)
    return fmt::format("[{}]:{}", host_text(address), ntohs(as<sockaddr_in6>(address).sin6_port));
  return "";
}

std::optional<sockaddr_storage> parse_socket_address(const std::string& text) {
  const std::size_t colon = text.rfind(':');
  if (colon == std::string::npos) return std::nullopt;
  std::uint16_t port = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data() + colon + 1, end, port);
  if (error != std::errc{} || stop != end || port == 0) return std::nullopt;
  std::string host = text.substr(0, colon);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') {
    sockaddr_in6 v6{};
    v6.sin6_family = AF_INET6;
    v6.sin6_port = htons(port);
    host = host.substr(1, host.size() - 2);
    if (inet_pton(AF_INET6, host.c_str(), &v6.sin6_addr) != 1) return std::nullopt;
    return stored(v6);
  }
  sockaddr_in v4{};
  v4.sin_family = AF_INET;
  v4.sin_port = htons(port);
  if (inet_pton(AF_INET, host.c_str(), &v4.sin_addr) != 1) return std::nullopt;
  return stored(v4);
}

std::variant<sockaddr_storage, std::string> own_address(const std::string& host) {
  if (host.empty()) return "an address is needed";
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (const int error = getaddrinfo(host.c_str(), nullptr, &hints, &found); error != 0) return gai_strerror(error);
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> all(found, &freeaddrinfo);
  int error = 0;
  for (const addrinfo* at = found; at != nullptr; at = at->ai_next) {
    sockaddr_storage address{};
    std::memcpy(&address, at->ai_addr, at->ai_addrlen);
    if (is_any_address(address)) return "it stands for all interfaces; name one";
    error = bind_error(*at);
    if (error == 0) return address;
  }
  return std::generic_category().message(error);
}

}  // namespace stagecraft
