// The checkpointer of a job: gathers the state that the stages lend after a commit, has it written on a device of its
// own, and gives it back.
//
// Who knocks: the coordinator (begin), stages (their state), its device (written). What it answers: the loan's end to
// every stage, the outcome to the coordinator. What it owns: the files in the job's folder of checkpoints. What it
// never does: stop an iteration, touch a disk on its own thread.
#pragma once

#include "actors/doors.hpp"
#include "actors/job.hpp"

namespace stagecraft {

/// The job must have a checkpoint plan.
CheckpointerActor spawn_checkpointer(JobRef job, RecorderActor recorder);

}  // namespace stagecraft
