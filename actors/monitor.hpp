// The monitor of a job: what operators really take, per stage and kind. Who knocks: stages, with every operator; the
// planner, for what the last iteration took; the node, for the profile. What it owns: sums, and the last few hundred
// durations of each kind. It never decides.
#pragma once

#include "actors/doors.hpp"
#include "actors/job.hpp"

namespace stagecraft {

MonitorActor spawn_monitor(JobRef job, NodeActor node);

}  // namespace stagecraft
