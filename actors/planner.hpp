// The planner of a job: looks at what operators took in each iteration, and plans again where the numbers ask for it.
//
// Who knocks: the coordinator (an iteration has opened, so the one before is measured), the monitor (what operators
// took), its own device (a plan is made). What it answers: proposals to the coordinator, which puts one in force with
// the next Open, under a new epoch. What it owns: the present plan, and a device of low priority that plans. What it
// never does: hold up an iteration, or plan on a worker of the actor system.
#pragma once

#include "actors/doors.hpp"
#include "actors/job.hpp"

namespace stagecraft {

/// Only for jobs that plan while they run (JobPlan::replans).
PlannerActor spawn_planner(JobRef job, RecorderActor recorder);

}  // namespace stagecraft
