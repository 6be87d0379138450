#include "transport/unix_socket.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <system_error>

namespace stagecraft {

namespace {

constexpr int backlog = 16;
constexpr mode_t owner_only = 0600;

std::string reason(int error) { return std::generic_category().message(error); }

std::variant<sockaddr_un, std::string> address_of(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path)
    return fmt::format("'{}' has {} bytes, and the path of a socket may have at most {}", path, path.size(),
                       sizeof address.sun_path - 1);
  if (path.empty() || path.find('\0') != std::string::npos) return "a socket needs a path";
  std::memcpy(address.sun_path, path.c_str(), path.size());
  return address;
}

const sockaddr* generic(const sockaddr_un& address) { return reinterpret_cast<const sockaddr*>(&address); }

Descriptor new_socket() { return Descriptor(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)); }

// Nobody listens at a socket that an earlier process has left.
bool is_stale(const std::string& path, const sockaddr_un& address) {
  struct stat found = {};
  if (lstat(path.c_str(), &found) != 0 || !S_ISSOCK(found.st_mode)) return false;
  const Descriptor probe = new_socket();
  return probe.valid() && connect(probe.get(), generic(address), sizeof address) != 0 && errno == ECONNREFUSED;
}

// 0, or the errno that says why not. The mode is that of the socket from its first moment on.
int bind_to(const Descriptor& descriptor, const sockaddr_un& address) {
  if (fchmod(descriptor.get(), owner_only) != 0) return errno;
  return bind(descriptor.get(), generic(address), sizeof address) == 0 ? 0 : errno;
}

}  // namespace

Descriptor::~Descriptor() {
  if (value_ >= 0) ::close(value_);
}

std::optional<Peer> peer_of(const Descriptor& connection) {
  ucred who = {};
  socklen_t size = sizeof who;
  if (getsockopt(connection.get(), SOL_SOCKET, SO_PEERCRED, &who, &size) != 0) return std::nullopt;
  return Peer{who.pid, who.uid};
}

std::variant<ListeningSocket, std::string> ListeningSocket::at(const std::string& path) {
  const auto address = address_of(path);
  if (const auto* why = std::get_if<std::string>(&address)) return *why;
  const auto& there = std::get<sockaddr_un>(address);
  Descriptor descriptor = new_socket();
  if (!descriptor.valid()) return fmt::format("no socket for '{}': {}", path, reason(errno));
  int error = bind_to(descriptor, there);
  if (error == EADDRINUSE && is_stale(path, there)) {
    unlink(path.c_str());
    error = bind_to(descriptor, there);
  }
  if (error != 0) return fmt::format("cannot listen at '{}': {}", path, reason(error));
  ListeningSocket socket(std::move(descriptor), path);
  struct stat made = {};
  if (lstat(path.c_str(), &made) != 0) return fmt::format("'{}' is gone at once: {}", path, reason(errno));
  socket.device_ = made.st_dev;
  socket.inode_ = made.st_ino;
  if ((made.st_mode & 0777) != owner_only && chmod(path.c_str(), owner_only) != 0)
    return fmt::format("cannot keep others from '{}': {}", path, reason(errno));
  if (listen(socket.descriptor_.get(), backlog) != 0)
    return fmt::format("cannot listen at '{}': {}", path, reason(errno));
  return socket;
}

ListeningSocket::~ListeningSocket() {
  struct stat found = {};
  if (!descriptor_.valid() || lstat(path_.c_str(), &found) != 0) return;
  if (found.st_dev == device_ && found.st_ino == inode_) unlink(path_.c_str());
}

std::variant<Descriptor, std::string> connect_to(const std::string& path, const Clock& clock, Instant until) {
  constexpr int pause_ms = 20;
  const auto address = address_of(path);
  if (const auto* why = std::get_if<std::string>(&address)) return *why;
  Descriptor descriptor = new_socket();
  if (!descriptor.valid()) return fmt::format("no socket for '{}': {}", path, reason(errno));
  while (connect(descriptor.get(), generic(std::get<sockaddr_un>(address)), sizeof(sockaddr_un)) != 0) {
    const bool is_full = errno == EAGAIN || errno == EINTR;
    if (!is_full) return fmt::format("nobody answers at '{}': {}", path, reason(errno));
    if (clock.now() >= until) return fmt::format("'{}' has no place for one more", path);
    poll(nullptr, 0, pause_ms);
  }
  return descriptor;
}

}  // namespace stagecraft
