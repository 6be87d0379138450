// The injector: makes the faults of a scenario strike and heal.
//
// Who knocks: the board of faults (what the run tells), its own timer. What it answers: nobody; it switches the board,
// and asks the node for deaths. What it never does: strike unasked, or decide what follows.
#pragma once

#include "actors/doors.hpp"
#include "actors/job.hpp"

namespace stagecraft {

/// The world must have a board of faults.
InjectorActor spawn_injector(JobRef job, NodeActor node, RecorderActor recorder);

}  // namespace stagecraft
