// What a fault strikes: the key on.
#include <fmt/format.h>

#include <algorithm>

#include "config/scenario_draft.hpp"

namespace stagecraft {
namespace {

using Keys = std::vector<std::string>;

// The keys of `on` that name a target for the kind, and whether `on` may be left out.
struct Targets {
  Keys keys;
  std::optional<FaultTarget::Kind> fallback;
  std::string_view example;
};

Targets targets_of(FaultKind kind) {
  using enum FaultKind;
  switch (kind) {
    case delay:
    case throttle:
    case link_down:
      return {{"link"}, std::nullopt, "on: { link: [0, 1] }"};
    case drop:
    case duplicate:
    case reorder:
      return {{"stage"}, FaultTarget::Kind::job, "on: { stage: 1 }, or leave it out for the whole job"};
    case partition:
      return {{"nodes"}, std::nullopt, "on: { nodes: [n0, n1] }"};
    case kill:
      return {{"stage", "twin"}, std::nullopt, "on: { stage: 1 }"};
    case pause:
    case slow:
    case oom:
    case nan:
      return {{"stage"}, std::nullopt, "on: { stage: 1 }"};
    case disk_full:
    case torn_write:
    case flip:
      return {{"disk"}, FaultTarget::Kind::disk, "on: { disk: checkpoints }, or leave it out"};
    case skew:
      break;
  }
  return {{"node"}, std::nullopt, "on: { node: n0 }"};
}

void read_link(Section& on, const Value& value, FaultTarget& target, Report& report) {
  target.kind = FaultTarget::Kind::link;
  if (const auto items = read_list(value, {2, 2}, "stages", report)) {
    const auto one = read_integer((*items)[0], {0, 1023}, report), other = read_integer((*items)[1], {0, 1023}, report);
    if (one && other) {
      target.stage = {static_cast<std::uint32_t>(*one)};
      target.other = {static_cast<std::uint32_t>(*other)};
    }
  }
  const auto direction = on.choice<Direction>(
      "direction", {{"forward", Direction::forward}, {"backward", Direction::backward}}, Direction::forward);
  if (direction.given) target.direction = direction.value;
  target.replica = read_id<ReplicaId>(on, "replica", 0, 255, target.replica_at);
}

void read_stage(Section& on, std::string_view key, FaultTarget& target) {
  target.kind = key == "twin" ? FaultTarget::Kind::twin : FaultTarget::Kind::stage;
  target.stage = {on.integer<std::uint32_t>(key, 0, 1023).value};
  target.replica = read_id<ReplicaId>(on, "replica", 0, 255, target.replica_at);
}

void read_nodes(const ChosenKey& chosen, FaultTarget& target, Report& report) {
  target.kind = FaultTarget::Kind::nodes;
  std::vector<Value> items{chosen.value};
  if (chosen.key == "nodes") items = read_list(chosen.value, {2, 2}, "nodes", report).value_or(std::vector<Value>{});
  for (const Value& item : items) {
    if (auto name = read_text(item, 64, report)) target.node_names.push_back(std::move(*name));
  }
  if (target.node_names.size() != 2 || target.node_names[0] != target.node_names[1]) return;
  report.add(ErrorCode::wrong_target, chosen.value.at, chosen.value.path,
             fmt::format("expected two different nodes, got {} twice; name the one that it is cut off from",
                         quoted(target.node_names[0])));
}

void read_disk(Section& on, FaultTarget& target) {
  target.kind = FaultTarget::Kind::disk;
  on.choice<int>("disk", {{"checkpoints", 0}});
}

void read_on(Section& on, const Targets& targets, FaultKind kind, FaultTarget& target, Report& report) {
  const auto chosen = choose_key(on, {"link", "stage", "twin", "nodes", "node", "disk"}, true, report);
  if (!chosen) return;
  const std::string_view key = chosen->key;
  target.at = chosen->value.at;
  if (key == "link") read_link(on, chosen->value, target, report);
  if (key == "stage" || key == "twin") read_stage(on, key, target);
  if (key == "nodes" || key == "node") read_nodes(*chosen, target, report);
  if (key == "disk") read_disk(on, target);
  if (std::find(targets.keys.begin(), targets.keys.end(), key) != targets.keys.end()) return;
  report.add(ErrorCode::wrong_target, target.at, on.path_of(key),
             fmt::format("expected {} for {}, got {}; write {}", fmt::join(targets.keys, " or "), name_of(kind), key,
                         targets.example));
}

}  // namespace

FaultTarget read_target(Section& fault, FaultKind kind, Report& report) {
  const Targets targets = targets_of(kind);
  FaultTarget target;
  target.at = fault.at();
  if (targets.fallback) target.kind = *targets.fallback;
  const auto value = targets.fallback ? fault.value("on") : fault.required_value("on", targets.example);
  if (!value) return target;
  Section on(*value, report);
  read_on(on, targets, kind, target, report);
  on.finish();
  return target;
}

}  // namespace stagecraft
