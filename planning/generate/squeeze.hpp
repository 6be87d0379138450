// Takes the gaps out of a schedule that was built from repeated blocks. Pure; any thread.
#pragma once

#include <cstdint>

#include "planning/schedule.hpp"
#include "planning/shape.hpp"

namespace stagecraft {

/// The schedule without the gaps that the repetition leaves in its warm-up and its tail: its lists are played with all
/// operators as long as one another and free links, and a stage whose next operator isn't ready starts the first later
/// one that is and that can overtake what is before it without ever taking the stage above `cap` micro-batches x chunks
/// held. The order of the micro-batches of one chunk and kind stays. `schedule` must hold no more than `cap` itself,
/// and run; it has B and W, not X.
Schedule squeeze(const PipelineShape& shape, const Schedule& schedule, std::uint32_t cap);

}  // namespace stagecraft
