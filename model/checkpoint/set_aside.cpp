#include "model/checkpoint/set_aside.hpp"

#include <filesystem>

#include "model/checkpoint/checkpoint.hpp"

namespace stagecraft {

namespace {

std::string free_name(Disk& disk, const std::string& folder) {
  for (std::uint32_t n = 1;; ++n) {
    std::string name = folder + ".before-" + std::to_string(n);
    if (!disk.list(name)) return name;
  }
}

}  // namespace

std::variant<std::optional<std::string>, DiskError> set_aside_after(Disk& disk, const std::string& folder,
                                                                    std::uint32_t iteration) {
  std::optional<std::string> aside;
  for (const CheckpointEntry& entry : list_checkpoints(disk, folder)) {
    if (entry.iteration <= iteration || entry.partial) continue;  // whoever writes next clears half-written ones
    if (!aside) {
      aside = free_name(disk, folder);
      if (auto error = disk.make_directories(*aside)) return *error;
    }
    const std::string to = *aside + "/" + std::filesystem::path(entry.path).filename().string();
    if (auto error = disk.rename(entry.path, to)) return *error;
  }
  if (!aside) return aside;
  for (const std::string& changed : {*aside, folder})
    if (auto error = disk.sync_folder(changed)) return *error;
  return aside;
}

}  // namespace stagecraft
