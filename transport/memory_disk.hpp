// A disk in memory for the virtual world: what is written stays here, what was never written is read from the disk
// below, if there is one. See disk.hpp for what the calls promise. A folder must be made before a file is written in
// it, as on a real disk.
// Thread promise: any thread; calls exclude each other.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <set>

#include "transport/disk.hpp"

namespace stagecraft {

class MemoryDisk final : public Disk {
 public:
  /// `base` is only ever read; may be null.
  explicit MemoryDisk(std::shared_ptr<Disk> base = nullptr) : base_(std::move(base)) {}

  std::vector<std::string> glob(const std::string& pattern) override;
  DiskResult<std::string> read(const std::string& path) override;
  DiskStatus make_directories(const std::string& path) override;
  DiskStatus append(const std::string& path, std::string_view text) override;
  DiskStatus write_whole(const std::string& path, std::string_view text) override;

  /// What was written here: normalised path -> content.
  std::map<std::string, std::string> files() const;

 private:
  bool has_folder(const std::string& folder);
  int writable(const std::string& name);  // errno, or 0

  std::shared_ptr<Disk> base_;
  mutable std::mutex mutex_;
  std::map<std::string, std::string> files_;
  std::set<std::string> folders_;
};

}  // namespace stagecraft
