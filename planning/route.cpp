#include "planning/route.hpp"

#include <fmt/format.h>

#include <algorithm>

#include <utility>

namespace stagecraft {

std::string_view name_of(Route route) { return route == Route::direct ? "direct" : "delegated"; }

std::string_view name_of(RoutePolicy policy) {
  switch (policy) {
    case RoutePolicy::delegated:
      return "delegated";
    case RoutePolicy::direct:
      return "direct";
    case RoutePolicy::automatic:
      break;
  }
  return "auto";
}

LinkCost over(Route route, const RouteSpec& spec, LinkCost link) {
  link.latency -= std::exchange(link.staging, Duration{});
  if (route == Route::direct) {
    link.queue = spec.admission;
    link.lanes = 1;
  } else {
    link.queue = std::nullopt;
    link.lanes = spec.delegates;
    link.staging = spec.staging;
    link.latency += spec.staging;
  }
  return link;
}

std::optional<std::string> RouteMachine::step(const RouteReading& reading) {
  constexpr std::uint32_t there = 2, back = 3;
  if (spec_.policy != RoutePolicy::automatic) return std::nullopt;
  if (route_ == Route::direct) {
    const bool holds_up = reading.held_up > spec_.staging + reading.round_trip / 10;
    if (!holds_up) healthy_ = std::min(healthy_.value_or(reading.round_trip), reading.round_trip);
    in_a_row_ = holds_up ? in_a_row_ + 1 : 0;
    if (in_a_row_ < there) return std::nullopt;
    route_ = Route::delegated;
    in_a_row_ = 0;
    bearable_ = reading.held_up / 2;
    return fmt::format("each message holds up its device for {}, staging takes {} and a round trip {}",
                       format(reading.held_up), format(spec_.staging), format(reading.round_trip));
  }
  const bool is_well = healthy_ && reading.round_trip - spec_.staging - *healthy_ <= bearable_;
  in_a_row_ = is_well ? in_a_row_ + 1 : 0;
  if (in_a_row_ < back) return std::nullopt;
  route_ = Route::direct;
  in_a_row_ = 0;
  return fmt::format("a round trip takes {}, {} when its device was not held up", format(reading.round_trip),
                     format(*healthy_));
}

}  // namespace stagecraft
