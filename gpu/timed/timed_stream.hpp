// A device that charges costs instead of time: every device of the virtual world, and emulated devices in both worlds.
#pragma once

#include <memory>

#include "gpu/stream.hpp"

namespace stagecraft {

enum class TimerKind : std::uint8_t {
  exact,  ///< virtual time: a completion comes when it is due
  late,   ///< real time: a completion comes late and says when it was due, so that lateness does not add up
};

/// Work starts at the latest of its `not_before`, the end of the work before it and, with exact timers, now; it ends
/// `cost` later. With exact timers the body runs inline at the start or when it is retired, as `seed` and the ticket
/// decide (that finds buffers that are used too early or freed too late); with late ones at the start. What it throws
/// passes through submit() or retire(), whichever ran it. `clock` and `completions` outlive the stream.
std::unique_ptr<Stream> make_timed_stream(TimerKind timers, std::uint64_t seed, const Clock& clock,
                                          Completions& completions);

}  // namespace stagecraft
