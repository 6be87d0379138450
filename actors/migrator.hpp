// The migrator of a job: takes wishes to move layers, finds out whether they can be had, and plans for them.
//
// Who knocks: anyone from outside (Move: a scenario, a person), the coordinator (an iteration has opened, under this
// layout), its own device (a plan is made). What it answers: proposals to the coordinator, one at a time; a refusal, to
// the log and to the node, with its numbers. What it owns: the wishes, and a device of low priority that plans. What it
// never does: hold up an iteration, decide that a move is made (the coordinator does, with MigrationMachine).
#pragma once

#include "actors/doors.hpp"
#include "actors/job.hpp"

namespace stagecraft {

/// `newest`: the last move that another migrator of this job has proposed.
MigratorActor spawn_migrator(JobRef job, RecorderActor recorder, MoveId newest = {});

/// What planning gives: a plan, or why there is none.
struct Planned {
  std::shared_ptr<JobPlan> plan;
  std::string refusal;
};
/// The same job under another layout: as many credits, as links have their slots already, and the rules of its stages.
/// A pure function; takes as long as planning does.
Planned plan_for(const Job& job, const Layout& layout);

}  // namespace stagecraft
