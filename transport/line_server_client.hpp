// One client of a LineServer: its connection, what came of it, what waits for it. On the server's thread alone.
#pragma once

#include <optional>
#include <string>

#include "gpu/clock.hpp"
#include "transport/line_server.hpp"
#include "transport/line_splitter.hpp"
#include "transport/unix_socket.hpp"

namespace stagecraft {

class LineServerClient {
 public:
  LineServerClient(Descriptor connection, Peer peer, const LineServer::Limits& limits, Instant now)
      : connection_(std::move(connection)), peer_(peer), limits_(limits), lines_(limits.line), asked_at_(now) {}

  int descriptor() const { return connection_.get(); }
  pid_t process() const { return peer_.process; }

  /// What to poll for.
  short events() const;
  /// Reads what is there, but not more than may be held.
  void read(Instant now);
  /// The next line, unless too many wait for an answer already. `too_long` as the splitter says.
  std::optional<LineSplitter::Line> next(Instant now);

  /// Something is to be sent; `answers` a line.
  void say(const std::string& text, bool answers, Instant now);
  void write(Instant now);

  /// Nothing can come of it any more: it has gone, or done what no client may.
  bool is_over(Instant now) const;
  void drop() { dropped_ = true; }
  bool wants_more() const { return !out_.empty(); }
  /// Since when it has asked nothing; none: it waits for an answer.
  std::optional<Instant> idle_since() const;
  /// When is_over() may change by time alone.
  std::optional<Instant> deadline() const;

 private:
  bool may_read() const { return !ended_ && unanswered_ < limits_.unanswered; }

  Descriptor connection_;
  Peer peer_;
  LineServer::Limits limits_;
  LineSplitter lines_;
  Instant asked_at_;                   // the newest whole line, or when it came
  std::optional<Instant> line_began_;  // that is not whole yet
  std::size_t unanswered_ = 0;
  std::string out_;
  std::optional<Instant> unread_since_;  // no byte of `out_` was taken since
  bool ended_ = false;                   // it sends nothing any more
  bool dropped_ = false;
};

}  // namespace stagecraft
