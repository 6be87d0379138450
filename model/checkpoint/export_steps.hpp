// What all exports share: which checkpoints can be exported, and how something new appears at a path all at once.
//
// Who knocks: the exports to other programs' formats. What it never does: throw, print, or write over anything.
// Thread promise: any thread; every call blocks on the disk.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <variant>

#include "model/checkpoint/checkpoint.hpp"
#include "transport/disk.hpp"

namespace stagecraft {

/// The checkpoint's manifest, when it verifies and holds a model that other programs can use: real numbers, and the
/// vocabulary of bytes. Else why not.
std::variant<CheckpointInfo, std::string> exportable_checkpoint(Disk& disk, const std::string& path);

/// Lets `fill` make a file or a folder of files at the path it is given (`target.partial`), then renames that to
/// `target`. Both names must be free before. After an error there is nothing at either, unless the disk refused even to
/// remove; after a crash perhaps `target.partial`.
CheckpointStatus appear_at(Disk& disk, const std::string& target,
                           const std::function<CheckpointStatus(const std::string& partial)>& fill);

/// Makes a file of `text` that survives a power cut once its folder is synced.
CheckpointStatus put_file(Disk& disk, const std::string& path, std::string_view text);
/// Copies a file, in pieces.
CheckpointStatus copy_file(Disk& disk, const std::string& from, const std::string& to);

/// The status of a disk as that of a checkpoint.
CheckpointStatus told(const DiskStatus& status);

}  // namespace stagecraft
