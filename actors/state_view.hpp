// The state of a whole job, seen through what its stages hold: every group once, whatever the layout. Pure; any thread.
#pragma once

#include <vector>

#include "actors/job.hpp"
#include "actors/messages.hpp"
#include "model/checkpoint/checkpoint.hpp"

namespace stagecraft {

/// Borrows from `states`, one per place. Parameters of the first replica that holds a group, moments of the owner of
/// each block; of tied tables only the embedding. Fragments are in the order of the group.
StateView view_of(const Job& job, const std::vector<StageState>& states);

}  // namespace stagecraft
