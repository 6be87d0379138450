// The section links: one entry per pair of neighbouring stages with the default cost, then the overrides on top.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>

#include "config/load_topology.hpp"
#include "config/topology_draft.hpp"

namespace stagecraft {
namespace {

using namespace std::chrono_literals;

// The parts of a link that one map states; the others stay as they are.
struct PartialCost {
  Field<Duration> latency, occupancy;
  Field<Bandwidth> bandwidth;
  Field<RoutePolicy> route;
  Field<std::uint32_t> admission, delegates;
  Field<Duration> staging, detour, detour_after;
};

// One direction of a link.
struct Way {
  LinkCost cost;
  RouteSpec route;
  bool operator==(const Way&) const = default;
};

PartialCost read_cost(Section& section, Report& report) {
  const Bounds<Duration> time{.low = 0ns, .high = 1h};
  PartialCost cost;
  cost.latency = section.duration("latency", time, 0ns);
  cost.occupancy = section.duration("occupancy", time, 0ns);
  const RouteSpec usual;
  cost.route = section.choice<RoutePolicy>("route",
                                           {{name_of(RoutePolicy::delegated), RoutePolicy::delegated},
                                            {name_of(RoutePolicy::direct), RoutePolicy::direct},
                                            {name_of(RoutePolicy::automatic), RoutePolicy::automatic}},
                                           usual.policy);
  cost.admission = section.integer<std::uint32_t>("admission", 1, 64, usual.admission);
  cost.delegates = section.integer<std::uint32_t>("delegates", 1, 64, usual.delegates);
  cost.staging = section.duration("staging", time, usual.staging);
  cost.detour = section.duration("detour", time, usual.detour);
  cost.detour_after = section.duration("detour_after", {.low = 1us, .high = 1h}, usual.detour_after);
  cost.bandwidth.path = section.path_of("bandwidth");
  if (const auto value = section.value("bandwidth")) {
    cost.bandwidth.given = true;
    cost.bandwidth.at = value->at;
    if (is_word(*value, "unlimited")) return cost;
    const Bounds<Bandwidth> range{.low = {1}, .high = {1e15}};
    cost.bandwidth.value = read_bandwidth(*value, range, report, "unlimited").value_or(Bandwidth{});
  }
  return cost;
}

// Both directions of the link between two neighbouring stages.
struct Pair {
  std::uint32_t from = 0, to = 0;
  std::array<Way, 2> ways;  // by Direction
};

// The model goes from the last stage to the first again, not back in a V.
bool wraps_around(const TopologyDraft& draft) {
  return draft.chunks.value > 1 && !(draft.schedule && placement_of(draft.schedule.value) == Placement::v);
}

// Pipeline order: each stage and the next, then the last and the first where chunks wrap around.
std::vector<Pair> pairs_of(const TopologyDraft& draft, const Way& way) {
  const std::uint32_t stages = draft.stages.value;
  std::vector<Pair> pairs;
  for (std::uint32_t s = 0; s + 1 < stages; ++s) pairs.push_back({s, s + 1, {way, way}});
  if (wraps_around(draft) && stages > 2) pairs.push_back({stages - 1, 0, {way, way}});
  return pairs;
}

bool joins(const Pair& pair, std::uint64_t a, std::uint64_t b) {
  return (pair.from == a && pair.to == b) || (pair.from == b && pair.to == a);
}

// The pair that `between` names; null (and reported) when there is none.
Pair* find_pair(Section& entry, std::vector<Pair>& pairs, const TopologyDraft& draft, Report& report) {
  const auto between = entry.required_value("between", "two neighbouring stages, for example [0, 1]");
  const auto items = between ? read_list(*between, {2, 2}, "stages", report) : std::nullopt;
  if (!items) return nullptr;
  const auto a = read_integer((*items)[0], {0, 1023}, report), b = read_integer((*items)[1], {0, 1023}, report);
  if (!a || !b || !draft.stages || !draft.chunks) return nullptr;
  const auto pair = std::find_if(pairs.begin(), pairs.end(), [&](const Pair& p) { return joins(p, *a, *b); });
  if (pair != pairs.end()) return &*pair;
  report.add(
      ErrorCode::not_neighbours, between->at, between->path,
      fmt::format("expected two neighbouring stages of 0 to {}{}, got [{}, {}]; name stages that follow each other",
                  draft.stages.value - 1, wraps_around(draft) ? " (or the last and the first)" : "", *a, *b));
  return nullptr;
}

// Which values of which link have been stated: to warn when one is stated again.
using Stated = std::set<std::tuple<std::uint32_t, std::uint32_t, Direction, std::string>>;

// Puts one stated value into the directions it is for.
template <class T, class Part, class Member>
void put(const Field<T>& field, const std::string& key, Part Way::*part, Member Part::*member, Pair& pair,
         const std::vector<Direction>& directions, Stated& stated, Report& report) {
  if (!field.given) return;
  bool again = false;
  for (Direction direction : directions) {
    pair.ways[static_cast<std::size_t>(direction)].*part.*member = static_cast<Member>(field.value);
    again |= !stated.emplace(pair.from, pair.to, direction, key).second;
  }
  if (!again) return;
  report.add(
      ErrorCode::link_stated_twice, field.at, field.path,
      fmt::format("expected one {} for the link between {} and {}, got another; the later one counts, remove one", key,
                  pair.from, pair.to));
}

void read_override(const Value& value, std::vector<Pair>& pairs, const TopologyDraft& draft, Stated& stated,
                   Report& report) {
  Section entry(value, report);
  Pair* pair = find_pair(entry, pairs, draft, report);
  const auto direction = entry.choice<Direction>(
      "direction", {{"forward", Direction::forward}, {"backward", Direction::backward}}, Direction::forward);
  const PartialCost cost = read_cost(entry, report);
  entry.finish();
  if (!pair) return;
  std::vector<Direction> directions{Direction::forward, Direction::backward};
  if (direction.given) directions = {direction.value};
  const auto put_all = [&](const auto& field, const char* key, auto part, auto member) {
    put(field, key, part, member, *pair, directions, stated, report);
  };
  put_all(cost.latency, "latency", &Way::cost, &LinkCost::latency);
  put_all(cost.occupancy, "occupancy", &Way::cost, &LinkCost::occupancy);
  put_all(cost.bandwidth, "bandwidth", &Way::cost, &LinkCost::bandwidth);
  put_all(cost.route, "route", &Way::route, &RouteSpec::policy);
  put_all(cost.admission, "admission", &Way::route, &RouteSpec::admission);
  put_all(cost.delegates, "delegates", &Way::route, &RouteSpec::delegates);
  put_all(cost.staging, "staging", &Way::route, &RouteSpec::staging);
  put_all(cost.detour, "detour", &Way::route, &RouteSpec::detour);
  put_all(cost.detour_after, "detour_after", &Way::route, &RouteSpec::detour_after);
}

void read_credits(Section& defaults, TopologyDraft& draft, Report& report) {
  const auto value = defaults.value("credits");
  if (!value || is_word(*value, "auto")) return;
  const auto credits = read_integer(*value, {1, 64}, report, "auto");
  if (!credits) return;
  draft.topology.links.credits = static_cast<std::uint32_t>(*credits);
  const std::uint64_t few = std::max<std::uint64_t>(2, draft.chunks ? draft.chunks.value : 0);
  if (*credits >= few) return;
  report.add(ErrorCode::few_credits, value->at, value->path,
             fmt::format("expected at least {} so that sending and computing overlap, got {}; raise it or write auto",
                         few, *credits));
}

// One entry for both directions where they cost the same, else one for each.
std::vector<LinkSpec> to_specs(const std::vector<Pair>& pairs) {
  std::vector<LinkSpec> specs;
  for (const Pair& pair : pairs) {
    const auto& [forward, backward] = pair.ways;
    const StageId from{pair.from}, to{pair.to};
    if (forward == backward) {
      specs.push_back({from, to, std::nullopt, forward.cost, forward.route});
    } else {
      specs.push_back({from, to, Direction::forward, forward.cost, forward.route});
      specs.push_back({from, to, Direction::backward, backward.cost, backward.route});
    }
  }
  return specs;
}

}  // namespace

void read_links(Section& root, TopologyDraft& draft, Report& report) {
  Section links = root.section("links", false);
  Section defaults = links.section("defaults", false);
  read_credits(defaults, draft, report);
  const PartialCost cost = read_cost(defaults, report);
  defaults.finish();

  const bool known = draft.stages && draft.chunks;
  const Way base{{cost.latency.value, cost.occupancy.value, cost.bandwidth.value},
                 {cost.route.value, cost.admission.value, cost.delegates.value, cost.staging.value, cost.detour.value,
                  cost.detour_after.value}};
  auto pairs = known ? pairs_of(draft, base) : std::vector<Pair>{};
  if (const auto overrides = links.value("overrides")) {
    Stated stated;
    if (const auto items = read_list(*overrides, {0, 4096}, "links", report)) {
      for (const Value& item : *items) read_override(item, pairs, draft, stated, report);
    }
  }
  links.finish();
  draft.topology.links.links = to_specs(pairs);
}

namespace {

const LinkSpec* find_link(const Topology& topology, StageId one, StageId other, Direction direction) {
  for (const LinkSpec& link : topology.links.links) {
    const bool joined = (link.from == one && link.to == other) || (link.from == other && link.to == one);
    if (joined && (!link.direction || *link.direction == direction)) return &link;
  }
  return nullptr;
}

}  // namespace

LinkCost link_cost(const Topology& topology, StageId one, StageId other, Direction direction) {
  const LinkSpec* link = find_link(topology, one, other, direction);
  return link ? over(link->route.first(), link->route, link->cost) : LinkCost{};
}

RouteSpec route_spec(const Topology& topology, StageId one, StageId other, Direction direction) {
  const LinkSpec* link = find_link(topology, one, other, direction);
  return link ? link->route : RouteSpec{};
}

}  // namespace stagecraft
