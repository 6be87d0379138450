#include "transport/line_client.hpp"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>

namespace stagecraft {

std::variant<LineClient, std::string> LineClient::connect(const std::string& path, const Clock& clock,
                                                          Duration patience) {
  auto connection = connect_to(path, clock, clock.now() + patience);
  if (auto* why = std::get_if<std::string>(&connection)) return std::move(*why);
  auto& descriptor = std::get<Descriptor>(connection);
  const Peer peer = peer_of(descriptor).value_or(Peer{});
  return LineClient(std::move(descriptor), peer, clock);
}

std::variant<std::monostate, LineClient::Failure> LineClient::wait_for(short event, Instant until) const {
  constexpr Duration longest = std::chrono::hours(1);
  const Duration left = std::clamp(until - clock_->now(), Duration{}, longest);
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(left);
  const timespec limit{static_cast<time_t>(seconds.count()), static_cast<long>((left - seconds).count())};
  // Whoever blocks SIGINT meanwhile misses none that comes between two waits.
  sigset_t mask;
  pthread_sigmask(SIG_SETMASK, nullptr, &mask);
  sigdelset(&mask, SIGINT);
  pollfd polled{connection_.get(), event, 0};
  const int ready = ppoll(&polled, 1, &limit, &mask);
  if (ready > 0) return std::monostate{};
  return ready < 0 && errno == EINTR ? Failure::interrupted : Failure::silent;
}

std::variant<std::monostate, LineClient::Failure> LineClient::send(const std::string& text, Duration patience) {
  const Instant until = clock_->now() + patience;
  const std::string line = text + "\n";
  for (std::size_t sent = 0; sent < line.size();) {
    const ssize_t size = ::send(connection_.get(), line.data() + sent, line.size() - sent, MSG_NOSIGNAL);
    if (size > 0) {
      sent += static_cast<std::size_t>(size);
      continue;
    }
    if (errno != EAGAIN && errno != EINTR) return Failure::closed;
    if (const auto waited = wait_for(POLLOUT, until); std::holds_alternative<Failure>(waited)) return waited;
  }
  return std::monostate{};
}

std::variant<std::string, LineClient::Failure> LineClient::receive(Duration patience) {
  const Instant until = clock_->now() + patience;
  std::array<char, 16U << 10> piece;
  while (true) {
    if (auto line = lines_.next()) {
      if (line->too_long) return Failure::closed;  // no server of ours says so much
      return std::move(line->text);
    }
    const ssize_t size = recv(connection_.get(), piece.data(), piece.size(), 0);
    if (size > 0) {
      lines_.feed({piece.data(), static_cast<std::size_t>(size)});
      continue;
    }
    if (size == 0 || (errno != EAGAIN && errno != EINTR)) return Failure::closed;
    if (const auto waited = wait_for(POLLIN, until); std::holds_alternative<Failure>(waited))
      return std::get<Failure>(waited);
  }
}

}  // namespace stagecraft
