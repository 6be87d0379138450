#include "actors/routes.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "config/load_topology.hpp"

namespace stagecraft {

namespace {

constexpr Direction both[] = {Direction::forward, Direction::backward};

RouteSpec route_of(const Topology& topology, std::uint32_t boundary, Direction direction) {
  const PipelineShape shape = topology.pipeline.shape();
  if (shape.is_inside(boundary)) return {};
  return route_spec(topology, shape.stage_of({boundary}), shape.stage_of({boundary + 1}), direction);
}

}  // namespace

RouteSpec route_of(const Job& job, std::uint32_t boundary, Direction direction) {
  return route_of(job.topology, boundary, direction);
}

bool may_change_route(const Job& job, std::uint32_t boundary, Direction direction) {
  return route_of(job, boundary, direction).policy == RoutePolicy::automatic;
}

Routes::Routes(const Topology& topology) {
  for (std::uint32_t b = 0; b + 1 < topology.pipeline.shape().total_chunks(); ++b)
    for (const Direction direction : both) {
      const RouteSpec spec = route_of(topology, b, direction);
      if (spec.policy == RoutePolicy::automatic)
        links_.emplace(std::pair{b, direction}, Link{RouteMachine(spec), {}, {}});
    }
}

std::optional<Route> Routes::add(const LinkTimings& x) {
  const auto found = links_.find({x.boundary, x.direction});
  if (found == links_.end() || x.messages.empty()) return std::nullopt;
  auto& [machine, readings, since] = found->second;
  if (x.key.iteration < since) return std::nullopt;
  if (x.route != machine.route()) return machine.route();
  RouteReading& reading = readings[x.key.iteration];
  reading.held_up = std::max(reading.held_up, x.reading.held_up);
  reading.round_trip = std::max(reading.round_trip, x.reading.round_trip);
  return std::nullopt;
}

std::vector<Routes::Change> Routes::step(Iteration opened) {
  std::vector<Change> changes;
  for (auto& [way, link] : links_) {
    while (!link.readings.empty() && link.readings.begin()->first.value + 2 <= opened.value) {
      const auto told = link.readings.extract(link.readings.begin());
      if (told.key() < link.since) continue;
      const auto why = link.machine.step(told.mapped());
      if (!why) continue;
      link.since = {opened.value + 1};
      const auto& [boundary, direction] = way;
      changes.push_back(
          {boundary, direction, link.machine.route(),
           fmt::format("boundary {} {}: {} from the next iteration on, as {}", boundary,
                       direction == Direction::forward ? "forward" : "backward", name_of(link.machine.route()), *why)});
    }
  }
  return changes;
}

void Routes::note_in(std::vector<SlowLink>& slow) const {
  for (const auto& [way, link] : links_) {
    if (link.machine.route() != Route::delegated) continue;
    auto found = std::find_if(slow.begin(), slow.end(),
                              [&name = way](const SlowLink& x) { return std::pair(x.boundary, x.direction) == name; });
    if (found == slow.end()) found = slow.insert(slow.end(), SlowLink{way.first, way.second, {}, {}});
    found->rerouted = true;
  }
}

}  // namespace stagecraft
