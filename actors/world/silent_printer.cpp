#include "actors/world/silent_printer.hpp"

namespace stagecraft {

namespace {

class SilentPrinter final : public caf::monitorable_actor {
 public:
  explicit SilentPrinter(caf::actor_config& config) : monitorable_actor(config) {}
  void enqueue(caf::mailbox_element_ptr, caf::execution_unit*) override {}
};

}  // namespace

caf::actor make_silent_printer(caf::actor_system& system, caf::execution_unit& unit) {
  caf::actor_config config{&unit};
  return caf::make_actor<SilentPrinter, caf::actor>(system.next_actor_id(), system.node(), &system, config);
}

}  // namespace stagecraft
