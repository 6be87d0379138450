// The loader of a job: hands out micro-batches when a replica opens an iteration, and has the next iteration's ready.
//
// Who knocks: the first stage of each replica. What it answers: tokens to the stages of the first and the last chunk.
// What it owns: batches of at most two iterations. What it never does: touch a disk (the corpus is in memory).
#pragma once

#include "actors/doors.hpp"
#include "actors/job.hpp"

namespace stagecraft {

/// `stages`: [replica][stage].
LoaderActor spawn_loader(JobRef job, std::vector<std::vector<StageActor>> stages);

}  // namespace stagecraft
