#include "actors/cluster/actor_name.hpp"

#include <fmt/format.h>

namespace stagecraft {

namespace {

const char* word_of(ActorName::Role role) {
  using Role = ActorName::Role;
  switch (role) {
    case Role::node:
      return "node";
    case Role::coordinator:
      return "the coordinator";
    case Role::loader:
      return "the loader";
    case Role::checkpointer:
      return "the checkpointer";
    case Role::monitor:
      return "the monitor";
    case Role::recorder:
      return "the recorder";
    case Role::stage:
      return "stage";
    case Role::twin:
      return "the twin of stage";
    case Role::reducer:
      return "the reducer of stage";
    case Role::lower_end:
      return "the lower link end of boundary";
    case Role::upper_end:
      return "the upper link end of boundary";
  }
  return "?";
}

}  // namespace

std::string to_text(const ActorName& name) {
  using Role = ActorName::Role;
  switch (name.role) {
    case Role::node:
      return fmt::format("node {}", name.number);
    case Role::stage:
    case Role::twin:
    case Role::reducer:
      return fmt::format("{} {} of replica {}", word_of(name.role), name.place.stage.value, name.place.replica.value);
    case Role::lower_end:
    case Role::upper_end:
      return fmt::format("{} {} of replica {}", word_of(name.role), name.number, name.place.replica.value);
    default:
      return word_of(name.role);
  }
}

}  // namespace stagecraft
