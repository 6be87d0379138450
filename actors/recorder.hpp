// The recorder of a node: the one ear for events. It writes the log, hashes the run, keeps a ring of recent events for
// the trace, and counts operators: every micro-batch once each way on every chunk.
//
// Who knocks: everybody. What it owns: two iterations of operators, a ring of events. What it never does: block on a
// file (the world writes), answer anyone but the node that closes it.
#pragma once

#include "actors/doors.hpp"
#include "actors/job.hpp"

namespace stagecraft {

RecorderActor spawn_recorder(JobRef job, NodeActor node);

}  // namespace stagecraft
