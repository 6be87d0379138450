// Makes room for a run that begins before the newest checkpoints of its folder: they tell another history, and nothing
// is ever overwritten. Thread promise: as checkpoint.hpp.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>

#include "transport/disk.hpp"

namespace stagecraft {

/// Moves the checkpoints of `folder` after `iteration`, sound or not, to `<folder>.before-<n>`, the first n that nobody
/// has. Newest first: whatever cuts it short leaves the older ones. The answer: where they are now (empty: there was
/// none), or what went wrong.
std::variant<std::optional<std::string>, DiskError> set_aside_after(Disk& disk, const std::string& folder,
                                                                    std::uint32_t iteration);

}  // namespace stagecraft
