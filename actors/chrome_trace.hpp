// Events as a Chrome trace (opens in Perfetto and chrome://tracing): one track per stage and replica, operators named
// as in the plan, arrows from sent to arrived. Pure; any thread.
#pragma once

#include <span>
#include <string>

#include "actors/event.hpp"

namespace stagecraft {

std::string to_chrome_trace(std::span<const Event> events);

}  // namespace stagecraft
