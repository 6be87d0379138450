// What stages and their twins have in common: a state, as handles, and the step that a decision means for it. Pure; any
// thread.
#pragma once

#include "actors/job.hpp"
#include "actors/messages.hpp"
#include "model/arithmetic.hpp"

namespace stagecraft {

/// Handles of everything that survives an iteration; nothing is copied.
StageState state_of(StageModel& model, Place place);
/// The parameter groups of some layers.
std::vector<GroupId> groups_of(const Arithmetic& arithmetic, LayerRun layers);
/// The numbers of the step that everyone takes. The decision must be to step.
StepFactors factors_of(const Job& job, const Decision& decision);

}  // namespace stagecraft
