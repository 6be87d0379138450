// The coordinator of a job: opens iterations, decides their fate, and notices when nothing moves.
//
// Who knocks: stages (joined, final reports, explanations), reducers (ready), the planner (proposals), the main thread
// (stop). What it answers:
// one `Open` per iteration to every stage, which also carries the decision on the iteration before. What it owns: the
// epoch and the record of commits. What it never does: arithmetic on tensors, waiting without a deadline.
#pragma once

#include "actors/coordinator_machine.hpp"
#include "actors/job.hpp"
#include "actors/messages.hpp"

namespace stagecraft {

/// `stages` in the order of Job::places(); `checkpointer` is there when the job keeps checkpoints, `planner` when it
/// plans while it runs.
CoordinatorActor spawn_coordinator(JobRef job, NodeActor node, RecorderActor recorder, CheckpointerActor checkpointer,
                                   PlannerActor planner, std::vector<StageActor> stages);

}  // namespace stagecraft
