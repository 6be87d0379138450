// The cpu device of the real world: a worker thread that runs one body after the other.
#pragma once

#include <memory>
#include <string>

#include "gpu/stream.hpp"

namespace stagecraft {

/// Costs are ignored; completions carry the clock's times. The destructor finishes the body in flight, drops what is
/// queued, and joins. `clock` and `completions` outlive the stream.
std::unique_ptr<Stream> make_threaded_stream(const std::string& name, const Clock& clock, Completions& completions);

}  // namespace stagecraft
