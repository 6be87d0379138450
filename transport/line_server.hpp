// Lines of text from and to clients of a Unix socket, on a thread of its own. It knows bytes and clients; what a line
// means is its owner's business.
//
// Whatever a client does, it costs at most what the limits say: lines and answers are bounded, so are clients and what
// they ask before they are answered; who does not finish a line or does not read is dropped. Only processes of the same
// user (and of root) can connect. take(), send() and open(): any thread; none of them waits.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "gpu/clock.hpp"
#include "transport/unix_socket.hpp"

namespace stagecraft {

class LineServer {
 public:
  struct Limits {
    std::size_t line = 64U << 10;                  ///< bytes of one line from a client, without its end
    std::size_t clients = 16;                      ///< at once
    std::size_t unanswered = 8;                    ///< lines of one client; it is not read from until one is answered
    std::size_t unread = 2U << 20;                 ///< bytes that wait for one client
    Duration patience = std::chrono::seconds(10);  ///< for the rest of a line, and for a client to read
    Duration idle = std::chrono::seconds(30);      ///< who asked nothing for so long gives its place to a newcomer
  };
  /// What the server itself says, without an end.
  struct Texts {
    std::string too_long;  ///< of a line: the next one is read as ever
    std::string too_many;  ///< clients: this one is sent away
  };
  struct Line {
    std::uint64_t client = 0;
    pid_t process = 0;  ///< of the client
    std::string text;   ///< without its end
  };

  /// `news`: called on the server's thread when there is something to take. `clock` outlives it. Or why nobody can be
  /// served at this path.
  static std::variant<std::unique_ptr<LineServer>, std::string> open(const std::string& path, Limits limits,
                                                                     Texts texts, const Clock& clock,
                                                                     std::function<void()> news);
  /// Gives clients a moment to read what waits for them, and removes the socket.
  virtual ~LineServer() = default;

  /// All lines since the last call.
  virtual std::vector<Line> take() = 0;
  /// `answers`: it is the last one about a line. To a client that is gone: nothing happens.
  virtual void send(std::uint64_t client, std::string text, bool answers) = 0;
  /// Clients that are connected.
  virtual std::size_t clients() const = 0;
  virtual const std::string& path() const = 0;
};

}  // namespace stagecraft
