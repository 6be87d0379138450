#include "actors/cluster/homes.hpp"

#include <algorithm>
#include <tuple>

namespace stagecraft {

using Role = ActorName::Role;

Homes::Homes(const Topology& topology) : topology_(&topology) {}

ActorName Homes::name_of(const Member& member) {
  return ActorName::at(member.role == Member::Role::stage ? Role::stage : Role::twin, member.place);
}

std::uint32_t Homes::first_home(const Member& member) const {
  const std::uint32_t node = topology_->seat(member.place).node;
  if (member.role == Member::Role::stage) return node;
  return (node + 1) % static_cast<std::uint32_t>(topology_->nodes.size());
}

std::uint32_t Homes::of(const ActorName& name) const {
  const auto member = [&](Member::Role role, Place place) {
    const auto it = moved_.find({role, place});
    return it == moved_.end() ? first_home({role, place}) : it->second;
  };
  switch (name.role) {
    case Role::node:
      return name.number;
    case Role::stage:
    case Role::reducer:
      return member(Member::Role::stage, name.place);
    case Role::twin:
      return member(Member::Role::twin, name.place);
    case Role::lower_end:
    case Role::upper_end: {
      const ChunkId chunk{name.role == Role::lower_end ? name.number : name.number + 1};
      return member(Member::Role::stage, {topology_->pipeline.shape().stage_of(chunk), name.place.replica});
    }
    default:
      return leader_;
  }
}

std::vector<Member> Homes::members() const {
  std::vector<Member> all;
  for (std::uint32_t r = 0; r < topology_->pipeline.replicas; ++r)
    for (std::uint32_t s = 0; s < topology_->pipeline.stages; ++s) {
      all.push_back({Member::Role::stage, {{s}, {r}}});
      if (topology_->recovery.twins) all.push_back({Member::Role::twin, {{s}, {r}}});
    }
  return all;
}

std::uint32_t Homes::best_home(const Member& member) const {
  const bool stage = member.role == Member::Role::stage;
  const std::uint32_t apart_from = of(Member{stage ? Member::Role::twin : Member::Role::stage, member.place});
  using Cost = std::tuple<bool, double, std::uint32_t>;  // least is best
  std::optional<Cost> best;
  for (std::uint32_t n = 0; n < topology_->nodes.size(); ++n) {
    if (gone_.contains(n)) continue;
    double there = 0;
    for (const Member& other : members()) there += other.role == member.role && of(other) == n;
    const Cost cost{n == apart_from, there / static_cast<double>(topology_->nodes[n].devices.size()), n};
    if (!best || cost < *best) best = cost;
  }
  return std::get<2>(*best);
}

std::vector<std::pair<Member, std::uint32_t>> Homes::keep(const std::vector<std::uint32_t>& left) {
  for (std::uint32_t n = 0; n < topology_->nodes.size(); ++n)
    if (std::find(left.begin(), left.end(), n) == left.end()) gone_.insert(n);
  std::vector<std::pair<Member, std::uint32_t>> lost;
  for (const Member& member : members())
    if (gone_.contains(of(member))) lost.emplace_back(member, of(member));
  for (const auto& [member, node] : lost) moved_[member] = best_home(member);
  return lost;
}

}  // namespace stagecraft
