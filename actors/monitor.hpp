// The monitor of a job: what operators really take, per stage and kind. Who knocks: stages, with every operator; the
// planner, for what the last iteration took; link ends, with the stamps of an iteration; the coordinator, when one
// opens; the node, for the profile. What it answers: what became slow, to the log; how slow links are, to the planner.
// What it owns: sums, the last few hundred durations of each kind, the straggler detector. It never decides what
// follows.
#pragma once

#include "actors/doors.hpp"
#include "actors/job.hpp"

namespace stagecraft {

MonitorActor spawn_monitor(JobRef job, NodeActor node, RecorderActor recorder);

}  // namespace stagecraft
