// A twin: a copy of what one stage holds between iterations, kept fresh by the same steps with the same gradients.
//
// Who knocks: the coordinator (Open, as to a stage), the reducer of its stage (gradients), a rebuilt stage (AskState).
// What it answers: TwinReady to the coordinator, so that nothing commits that it could not replay; its state, to a
// stage that was rebuilt. What it owns: a copy of parameters and moments, and the gradients of at most two iterations.
// What it never does: take part in an iteration, touch what it has lent.
#pragma once

#include "actors/doors.hpp"
#include "actors/job.hpp"

namespace stagecraft {

TwinActor spawn_twin(JobRef job, Place place);

}  // namespace stagecraft
