#include "transport/line_server_client.hpp"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>

namespace stagecraft {

short LineServerClient::events() const {
  return static_cast<short>((may_read() ? POLLIN : 0) | (out_.empty() ? 0 : POLLOUT));
}

void LineServerClient::read(Instant now) {
  if (!may_read()) return;
  std::array<char, 16U << 10> piece;
  const ssize_t size = recv(descriptor(), piece.data(), piece.size(), 0);
  if (size > 0) {
    lines_.feed({piece.data(), static_cast<std::size_t>(size)});
    if (!line_began_) line_began_ = now;
  } else if (size == 0) {
    ended_ = true;
  } else if (errno != EAGAIN && errno != EINTR) {
    dropped_ = true;
  }
}

std::optional<LineSplitter::Line> LineServerClient::next(Instant now) {
  if (unanswered_ >= limits_.unanswered) return std::nullopt;
  auto line = lines_.next();
  if (line) {
    asked_at_ = now;
    if (!line->too_long) {
      ++unanswered_;
      line_began_ = now;
    }
  } else if (!lines_.is_within_line()) {
    line_began_.reset();
  }
  return line;
}

void LineServerClient::say(const std::string& text, bool answers, Instant now) {
  if (answers) {
    if (unanswered_ > 0) --unanswered_;
    asked_at_ = now;
    if (line_began_) line_began_ = now;  // it may not have been read on meanwhile
  }
  if (dropped_ || out_.size() + text.size() + 1 > limits_.unread) return drop();
  if (out_.empty()) unread_since_ = now;
  out_ += text;
  out_ += '\n';
}

void LineServerClient::write(Instant now) {
  if (out_.empty() || dropped_) return;
  const ssize_t size = ::send(descriptor(), out_.data(), out_.size(), MSG_NOSIGNAL);
  if (size > 0) {
    out_.erase(0, static_cast<std::size_t>(size));
    unread_since_ = out_.empty() ? std::nullopt : std::optional(now);
  } else if (errno != EAGAIN && errno != EINTR) {
    drop();
  }
}

bool LineServerClient::is_over(Instant now) const {
  if (dropped_) return true;
  if (ended_ && unanswered_ == 0 && out_.empty()) return true;
  const auto until = deadline();
  return until && now >= *until;
}

std::optional<Instant> LineServerClient::idle_since() const {
  if (unanswered_ > 0) return std::nullopt;
  return asked_at_;
}

std::optional<Instant> LineServerClient::deadline() const {
  std::optional<Instant> first;
  const auto consider = [&](const std::optional<Instant>& since) {
    if (since && (!first || *since + limits_.patience < *first)) first = *since + limits_.patience;
  };
  consider(unread_since_);
  if (may_read()) consider(line_began_);  // of a line that is not read on, the client is not to blame
  return first;
}

}  // namespace stagecraft
