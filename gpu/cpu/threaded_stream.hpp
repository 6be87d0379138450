// The cpu device of the real world: a worker thread that runs one body after the other.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "gpu/stream.hpp"

namespace stagecraft {

/// How a stream's thread stands to the others.
enum class Urgency : std::uint8_t {
  compute,     ///< arithmetic: yields to whoever schedules it, and lends its thread between two bodies
  background,  ///< files: takes what the others leave, and lends nothing, because it may be stopped for long
};

/// Costs are ignored; completions carry the clock's times. The destructor finishes the body in flight, drops what is
/// queued, and joins. `clock` and `completions` outlive the stream.
std::unique_ptr<Stream> make_threaded_stream(const std::string& name, Urgency urgency, const Clock& clock,
                                             Completions& completions);

}  // namespace stagecraft
