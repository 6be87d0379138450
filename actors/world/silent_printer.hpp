// CAF wants a printer actor behind `aout`; nobody prints here. For the schedulers of both worlds.
#pragma once

#include "actors/caf.hpp"

namespace stagecraft {

caf::actor make_silent_printer(caf::actor_system& system, caf::execution_unit& unit);

}  // namespace stagecraft
