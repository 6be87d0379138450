// The reducer of one stage of one replica: decides what is reduced, sent and tied; its stage's device does it.
//
// What it does: sends this replica's subtrees to their owners (the same stage on all replicas), asks its stage to
// evaluate the tree once all replicas' subtrees of a group are here, exchanges the tied table with the other end, and
// reports when every group this replica owns blocks of is reduced. Who knocks: its stage, its fellow reducers. What it
// never does: arithmetic on tensors, keeping anything beyond the newest key.
#pragma once

#include "actors/doors.hpp"
#include "actors/job.hpp"

namespace stagecraft {

ReducerActor spawn_reducer(JobRef job, Place place);

}  // namespace stagecraft
