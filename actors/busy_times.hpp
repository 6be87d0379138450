// What each stage was busy with in the newest whole iteration. A value; one owner: the monitor.
#pragma once

#include <array>
#include <map>
#include <vector>

#include "actors/event.hpp"
#include "actors/wish_messages.hpp"

namespace stagecraft {

class BusyTimes {
 public:
  void add(const Timing& x);
  /// An iteration opens: everybody has told of the one before last.
  void opened(Key key, Instant now);
  /// A row for each stage: the share of the iteration's time that it was busy, and with what.
  WishAnswer table(WishId wish) const;

 private:
  static constexpr std::size_t kept = 4;  // iterations
  struct Row {
    std::array<Duration, 4> times{};  // forward, backward, weight gradient, all else
  };
  struct Gathered {
    Key key;
    Instant opened{};
    std::map<Place, Row> rows;
  };
  Gathered& of(Key key);

  std::map<Iteration, Gathered> iterations_;
};

}  // namespace stagecraft
