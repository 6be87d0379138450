// The servers of a link as a simulator sees them: who is served when, and when a send finds a place. One owner; not
// thread-safe.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "planning/units.hpp"

namespace stagecraft {

class LinkServer {
 public:
  /// `lanes` servers; `queue`: how many messages may be on them or wait, none: any number.
  LinkServer(std::uint32_t lanes, std::optional<std::uint32_t> queue) : free_(std::max(lanes, 1U)), queue_(queue) {}

  /// When a message that is handed over now has left the server. The first server that is free takes it.
  Instant serve(Instant now, Duration service) {
    const auto first = std::min_element(free_.begin(), free_.end());
    *first = std::max(*first, now) + service;
    if (queue_) leaving_.insert(std::upper_bound(leaving_.begin(), leaving_.end(), *first), *first);
    return *first;
  }
  /// The first moment, `now` or later, at which one more message finds a place.
  Instant admits(Instant now) {
    while (!leaving_.empty() && leaving_.front() <= now) leaving_.pop_front();
    const std::size_t places = std::max(queue_.value_or(1), 1U);
    return leaving_.size() < places ? now : leaving_[leaving_.size() - places];
  }

 private:
  std::vector<Instant> free_;  // from when each server is
  std::optional<std::uint32_t> queue_;
  std::deque<Instant> leaving_;  // of the messages on the servers or waiting, in order
};

}  // namespace stagecraft
