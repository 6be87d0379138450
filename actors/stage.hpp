// The stage: the scheduler of one device for one job and one replica.
//
// What it does: hosts one or more chunks; picks the next operator when its device is free, among those whose inputs are
// here; hands outputs to its link ends; steps when an iteration is decided. Who knocks: the coordinator (Open), the
// loader (tokens), link ends (tensors), its device (completions), its reducer (reduce and tie orders), its replicas
// (parameters). What it owns: its share of the model, one stream, what arrived and was not used yet. What it never
// does: arithmetic (its device does), blocking, asking anyone and waiting.
//
// Life of a key: Open -> step with the decision on the iteration before, unless there is none -> exchange parameters
// with the replicas -> run the stage machine -> subtrees to the reducer -> reduce, tie -> wait for the next Open.
#pragma once

#include "actors/doors.hpp"
#include "actors/job.hpp"

namespace stagecraft {

/// On that device of the topology.
StageActor spawn_stage(JobRef job, Place place, const DeviceSpec& device);

}  // namespace stagecraft
