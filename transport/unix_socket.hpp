// Unix sockets by their path: where one listens, where one connects. Paths are checked, what stays of an earlier
// process is replaced, and nobody but the owner may connect. Any thread.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "gpu/clock.hpp"

namespace stagecraft {

/// Owns a file descriptor.
class Descriptor {
 public:
  explicit Descriptor(int value = -1) : value_(value) {}
  ~Descriptor();
  Descriptor(Descriptor&& other) noexcept : value_(std::exchange(other.value_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(value_, other.value_);
    return *this;
  }
  int get() const { return value_; }
  bool valid() const { return value_ >= 0; }

 private:
  int value_;
};

/// The two ends of a connection know of each other who they are.
struct Peer {
  pid_t process = 0;
  uid_t user = 0;
};
std::optional<Peer> peer_of(const Descriptor& connection);

/// A socket that listens, with mode 0600; gone from the file system with this value, if it is still the same one there.
class ListeningSocket {
 public:
  /// Not blocking. Or why there is none: the path is too long, something else stands there, another process listens.
  static std::variant<ListeningSocket, std::string> at(const std::string& path);
  ~ListeningSocket();
  ListeningSocket(ListeningSocket&&) = default;
  ListeningSocket& operator=(ListeningSocket&&) = delete;

  const Descriptor& descriptor() const { return descriptor_; }
  const std::string& path() const { return path_; }

 private:
  ListeningSocket(Descriptor descriptor, std::string path)
      : descriptor_(std::move(descriptor)), path_(std::move(path)) {}

  Descriptor descriptor_;
  std::string path_;
  dev_t device_ = 0;
  ino_t inode_ = 0;
};

/// A connection, not blocking, or why there is none. Waits until `until` where the other end has no room.
std::variant<Descriptor, std::string> connect_to(const std::string& path, const Clock& clock, Instant until);

}  // namespace stagecraft
