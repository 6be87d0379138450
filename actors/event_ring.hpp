// The newest events of a run, in memory: for the trace, and for people who ask what happened. A value; one owner.
#pragma once

#include <cstdint>
#include <vector>

#include "actors/event.hpp"
#include "actors/wish_messages.hpp"

namespace stagecraft {

/// Says why plan, routes or places are as they are, but for what the straggler detector finds.
bool is_decision(const Event& event);

class EventRing {
 public:
  explicit EventRing(std::size_t size) : size_(size) {}

  /// `number`: which event of the run it is, from 1.
  void push(std::uint64_t number, const Event& event);
  /// Oldest first.
  std::vector<Event> all() const;
  /// The newest ones that are asked for, oldest first. `now`: their age is told.
  WishAnswer find(const AskEvents& ask, Instant now) const;

 private:
  struct Numbered {
    std::uint64_t number = 0;
    Event event;
  };
  const Numbered& newest(std::size_t n) const { return events_[(oldest_ + events_.size() - 1 - n) % events_.size()]; }

  std::size_t size_;
  std::vector<Numbered> events_;  // goes round when it is full
  std::size_t oldest_ = 0;
};

/// The newest decisions, and what the straggler detector has found beside them: of that there is more, so it is half of
/// the answer at most.
WishAnswer find_decisions(const EventRing& decisions, const EventRing& findings, const AskEvents& ask, Instant now);

}  // namespace stagecraft
