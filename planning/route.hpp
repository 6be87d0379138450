// How what a stage sends gets to the next one, and when that changes. Pure; one owner; not thread-safe.
//
// A direct send holds its place in the device's own queue, as NCCL's do: when the link takes no more, the device stands
// still (head-of-line blocking). A delegated one goes through host memory to a sender of its own and holds up nobody;
// it takes the staging time longer.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "planning/cost.hpp"

namespace stagecraft {

enum class Route : std::uint8_t { direct, delegated };
std::string_view name_of(Route route);

enum class RoutePolicy : std::uint8_t {
  delegated,
  direct,
  automatic,  ///< direct, and delegated while the link is found to hold up its device for longer than staging takes
};
std::string_view name_of(RoutePolicy policy);

struct RouteSpec {
  RoutePolicy policy = RoutePolicy::delegated;
  std::uint32_t admission = 1;  ///< direct: sends that are on the link or wait for it; one more waits on the device
  std::uint32_t delegates = 1;  ///< delegated: senders per direction
  Duration staging{};           ///< delegated: to host memory and from there, for one message
  /// The latency of another way round a link that lets nothing pass: over another interface, or a third node. None: 0.
  Duration detour{};
  Duration detour_after = std::chrono::milliseconds(100);  ///< it has let nothing pass for so long
  bool operator==(const RouteSpec&) const = default;

  /// The one that a run begins with.
  Route first() const { return policy == RoutePolicy::delegated ? Route::delegated : Route::direct; }
};

/// What the link costs whoever sends over it by that route. `link`: its cost by whatever route.
LinkCost over(Route route, const RouteSpec& spec, LinkCost link);

/// What one iteration tells of one direction of a link.
struct RouteReading {
  Duration held_up{};     ///< how long the device stood still for each message, on average, of a direct route
  Duration round_trip{};  ///< of a tensor there and its credit back, less what the receiver kept: a low quartile
};

/// Decides the route of one direction of a link, from what its own end measures. Only an automatic policy changes it.
///
/// There: when the device was held up for longer than staging and a tenth of a round trip take, in two iterations in a
/// row (one may be an accident). Back: when round trips have been as short for three as in the best direct iteration
/// that held up nobody, staging aside; half of what had held up the device may be there. A link that was never healthy
/// is just like that, and stays delegated.
class RouteMachine {
 public:
  RouteMachine() = default;
  explicit RouteMachine(const RouteSpec& spec) : spec_(spec), route_(spec.first()) {}

  /// Once per iteration, of one that ran under the present route. Why the route is another one; none: it stays.
  std::optional<std::string> step(const RouteReading& reading);
  Route route() const { return route_; }
  const RouteSpec& spec() const { return spec_; }

 private:
  RouteSpec spec_;
  Route route_ = Route::delegated;
  std::uint32_t in_a_row_ = 0;       // iterations that speak for the other one
  std::optional<Duration> healthy_;  // the shortest of a direct iteration that held up nobody
  Duration bearable_{};              // delegated: so much more than that counts as healthy
};

}  // namespace stagecraft
