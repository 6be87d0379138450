// The names in a job's folder of checkpoints, and how they change: a folder comes and goes by one rename.
//
//   step-00000050            a checkpoint, sound or damaged
//   step-00000050.replaced   what it was before another run wrote the same step; goes once that one is durable
//   step-00000050.partial    its writer has not got to the rename, and maybe never will
//   step-00000050.removed    on its way out
//
// Anything else in the folder is somebody else's. Who knocks: the checkpoint writer and reader.
// Thread promise: any thread, one writer per folder; every call blocks on the disk.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model/checkpoint/checkpoint.hpp"
#include "model/checkpoint/safetensors.hpp"

namespace stagecraft {

/// In the order in which folders of one step are tried.
enum class StepState : std::uint8_t { whole, replaced, partial, removed };

struct StepFolder {
  std::uint32_t iteration = 0;
  StepState state = StepState::whole;

  std::string name() const;
  bool operator==(const StepFolder&) const = default;
};

/// Newest first, each step in the order of its states. Empty when there is no such folder.
DiskResult<std::vector<StepFolder>> list_steps(Disk& disk, const std::string& folder);

/// Removes what an earlier writer left behind. What can't be removed stays, for the next time.
void clear_abandoned(Disk& disk, const std::string& folder);

/// Makes `name` + ".partial" in `folder` the folder `name`, which must not be there, with everything in it durable.
CheckpointStatus put_in_place(Disk& disk, const std::string& folder, const std::string& name);

/// The same for a step that may be there: one that verifies with the same manifest stays, and another goes only when
/// its successor is durable.
CheckpointStatus put_step_in_place(Disk& disk, const std::string& folder, std::uint32_t iteration);

/// Removes the steps beyond the newest `keep` that look sound (manifest and sizes), but never `just_written`. What
/// can't be removed stays, for the next time.
void remove_beyond(Disk& disk, const std::string& folder, std::uint32_t keep, std::uint32_t just_written);

/// Writes a small file and syncs it.
std::variant<WrittenFile, std::string> write_synced(Disk& disk, const std::string& folder, const std::string& name,
                                                    std::string_view text);

}  // namespace stagecraft
