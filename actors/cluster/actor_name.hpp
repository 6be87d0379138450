// What an actor of a job is called on every node. Names stay when actors are replaced, and when they move.
#pragma once

#include <cstdint>
#include <string>

#include "actors/messages.hpp"

namespace stagecraft {

struct ActorName {
  enum class Role : std::uint8_t {
    node,  ///< `number`: its index in the file
    coordinator,
    loader,
    checkpointer,
    monitor,
    recorder,
    stage,
    twin,
    reducer,
    lower_end,  ///< of a link; `number`: the boundary; of `place` the replica counts
    upper_end,
  };
  Role role = Role::node;
  Place place{};
  std::uint32_t number = 0;
  auto operator<=>(const ActorName&) const = default;

  static ActorName of(Role role) { return {role, {}, 0}; }
  static ActorName at(Role role, Place place) { return {role, place, 0}; }
  static ActorName node(std::uint32_t index) { return {Role::node, {}, index}; }
  static ActorName end(Role role, std::uint32_t boundary, ReplicaId replica) { return {role, {{}, replica}, boundary}; }
};
STAGECRAFT_WIRE(ActorName, x.role, x.place, x.number)
std::string to_text(const ActorName& name);

}  // namespace stagecraft
