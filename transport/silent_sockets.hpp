// Hangs up on strangers: whoever connects to a port and says nothing keeps what listens there busy, and from its end.
#pragma once

#include <cstddef>
#include <cstdint>

#include "planning/units.hpp"

namespace stagecraft {

/// Shuts down every connection of this process that came in at `port` and has brought nothing for `silence`; how many.
/// On the thread that closes these sockets, so that none becomes another meanwhile.
std::size_t hang_up_on_the_silent(std::uint16_t port, Duration silence);

}  // namespace stagecraft
