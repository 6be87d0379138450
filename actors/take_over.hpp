// When the node that leads a job is lost, another one goes on in its place: what is done for that on the thread that
// owns its world. Who it is, and what it begins with: cluster/membership.hpp, Succession.
#pragma once

#include "actors/node.hpp"

namespace stagecraft {

/// Where a new leader keeps what leaders keep.
struct LeaderFiles {
  std::string log, trace;         ///< empty: not kept
  std::string checkpoint_folder;  ///< counts where the job keeps checkpoints
};

/// Finds the text, plans for the layout in force, and tells the node of `cast` to lead. The job as its leaders see it
/// from now on. Throws CannotStart: nothing had been opened, the text can't be had here, the layout does not fit.
JobRef take_over(const Job& before, const Succession& from, const NodeHandles& node, const LeaderFiles& files);

}  // namespace stagecraft
