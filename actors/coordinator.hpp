// The coordinator of a job: opens iterations, decides their fate, and notices when nothing moves.
//
// Who knocks: stages (joined, final reports, explanations), reducers and twins (ready), the node (losses), the planner
// (proposals), the main thread (stop). What it answers: one `Open` per iteration to every stage and twin, which also
// carries the decision on the iteration before. What it owns: the epoch and the record of commits. What it never does:
// arithmetic on tensors, waiting without a deadline.
#pragma once

#include "actors/cluster/gate.hpp"
#include "actors/coordinator_machine.hpp"
#include "actors/doors.hpp"
#include "actors/job.hpp"

namespace stagecraft {

/// Who it talks to.
struct CoordinatorWiring {
  NodeActor node;
  RecorderActor recorder;
  CheckpointerActor checkpointer;  ///< none: the job keeps no checkpoints
  PlannerActor planner;            ///< none: the plan stays
  MigratorActor migrator;          ///< none: the layout stays
  std::vector<StageActor> stages;  ///< in the order of Job::places()
  std::vector<TwinActor> twins;    ///< the same; empty: the job keeps none
  std::shared_ptr<const LoadedCheckpoint>
      start;       ///< what everyone begins with, where it has to be sent; none: they know
  GateActor gate;  ///< to the other nodes; none: there are no others
  MonitorActor monitor;
  std::optional<Minutes> taken_over{};  ///< of the one whose place it takes
};
CoordinatorActor spawn_coordinator(JobRef job, CoordinatorWiring wiring);

}  // namespace stagecraft
