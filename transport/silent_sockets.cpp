#include "transport/silent_sockets.hpp"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <system_error>

namespace stagecraft {

namespace {

bool came_in_at(int descriptor, std::uint16_t port) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  if (getsockname(descriptor, reinterpret_cast<sockaddr*>(&address), &size) != 0) return false;
  if (address.ss_family == AF_INET) return ntohs(reinterpret_cast<const sockaddr_in&>(address).sin_port) == port;
  if (address.ss_family == AF_INET6) return ntohs(reinterpret_cast<const sockaddr_in6&>(address).sin6_port) == port;
  return false;
}

bool is_silent(int descriptor, Duration silence) {
  tcp_info info{};
  socklen_t size = sizeof info;
  if (getsockopt(descriptor, IPPROTO_TCP, TCP_INFO, &info, &size) != 0 || info.tcpi_state == TCP_LISTEN) return false;
  return std::chrono::milliseconds(info.tcpi_last_data_recv) >= silence;
}

}  // namespace

std::size_t hang_up_on_the_silent(std::uint16_t port, Duration silence) {
  std::size_t hung_up = 0;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd", ignored)) {
    const int descriptor = std::atoi(entry.path().filename().c_str());
    if (came_in_at(descriptor, port) && is_silent(descriptor, silence))
      hung_up += shutdown(descriptor, SHUT_RDWR) == 0 ? 1 : 0;
  }
  return hung_up;
}

}  // namespace stagecraft
