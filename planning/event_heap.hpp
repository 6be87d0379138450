// A queue that gives the earliest first: four children to a node, so that few levels and cache lines are touched. One
// owner; not thread-safe.
#pragma once

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

namespace stagecraft {

/// `Event` is small and has operator>. Equal events come in no particular order.
template <class Event>
class EventHeap {
 public:
  bool empty() const { return events_.empty(); }
  const Event& front() const { return events_.front(); }

  void push(const Event& event) {
    std::size_t hole = events_.size();
    events_.push_back(event);
    while (hole > 0) {
      const std::size_t parent = (hole - 1) / 4;
      if (!(events_[parent] > event)) break;
      events_[hole] = events_[parent];
      hole = parent;
    }
    events_[hole] = event;
  }

  Event pop() {
    const Event first = events_.front();
    const Event last = events_.back();
    events_.pop_back();
    if (!events_.empty()) sink(last);
    return first;
  }

 private:
  // Puts `event` where it belongs, from the root down.
  void sink(const Event& event) {
    std::size_t hole = 0;
    const std::size_t size = events_.size();
    for (std::size_t child = 1; child < size; child = 4 * hole + 1) {
      const std::size_t end = std::min(child + 4, size);
      std::size_t least = child;
      for (std::size_t c = child + 1; c < end; ++c) least = events_[least] > events_[c] ? c : least;
      if (!(event > events_[least])) break;
      events_[hole] = events_[least];
      hole = least;
    }
    events_[hole] = event;
  }

  std::vector<Event> events_;
};

}  // namespace stagecraft
