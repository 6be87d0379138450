// The routes of a job's links, as the monitor decides them from what its straggler detector has found. A value; one
// owner: the monitor.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "actors/job.hpp"
#include "actors/messages.hpp"
#include "planning/route.hpp"

namespace stagecraft {

class Routes {
 public:
  Routes() = default;
  explicit Routes(const Topology& topology);

  struct Change {
    std::uint32_t boundary = 0;
    Direction direction = Direction::forward;
    Route route = Route::direct;
    std::string text;  ///< with the numbers
  };
  /// What a link end tells of an iteration; of the replicas the slowest counts. The route that the end should take,
  /// when it took another one: it came in the place of a lost one and knows only the first.
  std::optional<Route> add(const LinkTimings& x);
  /// Once per iteration, when the next one has opened: everybody has told of the one before last.
  std::vector<Change> step(Iteration opened);
  /// Notes which links go over delegates now, and adds those that are not slow.
  void note_in(std::vector<SlowLink>& slow) const;
  /// Of a link whose route may change.
  Route of(std::uint32_t boundary, Direction direction) const {
    return links_.at({boundary, direction}).machine.route();
  }

 private:
  struct Link {
    RouteMachine machine;
    std::map<Iteration, RouteReading> readings;  // that have not been looked at
    Iteration since;                             // the first one under the present route
  };
  std::map<std::pair<std::uint32_t, Direction>, Link> links_;  // of those whose route may change
};

RouteSpec route_of(const Job& job, std::uint32_t boundary, Direction direction);
bool may_change_route(const Job& job, std::uint32_t boundary, Direction direction);

}  // namespace stagecraft
