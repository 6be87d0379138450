// The other end of a LineServer: sends a line, receives lines, never waits longer than it is told to. One owner.
#pragma once

#include <memory>
#include <string>
#include <variant>

#include "gpu/clock.hpp"
#include "transport/line_splitter.hpp"
#include "transport/unix_socket.hpp"

namespace stagecraft {

class LineClient {
 public:
  /// Connected, or why not. `clock` outlives it.
  static std::variant<LineClient, std::string> connect(const std::string& path, const Clock& clock, Duration patience);

  /// Who is at the other end.
  pid_t process() const { return peer_.process; }

  enum class Failure : std::uint8_t {
    silent,       ///< nothing within the patience
    closed,       ///< the other end is gone
    interrupted,  ///< a signal came; SIGINT also where it is blocked
  };
  /// True when all of it has gone out. `text` without its end.
  std::variant<std::monostate, Failure> send(const std::string& text, Duration patience);
  std::variant<std::string, Failure> receive(Duration patience);

 private:
  LineClient(Descriptor connection, Peer peer, const Clock& clock)
      : connection_(std::move(connection)), peer_(peer), clock_(&clock) {}
  std::variant<std::monostate, Failure> wait_for(short event, Instant until) const;

  static constexpr std::size_t most = 4U << 20;  // bytes of a line

  Descriptor connection_;
  Peer peer_;
  const Clock* clock_;
  LineSplitter lines_{most};
};

}  // namespace stagecraft
