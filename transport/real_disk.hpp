// The operating system's files. See disk.hpp for what the calls promise.
// Thread promise: stateless; any thread, one writer per path.
#pragma once

#include "transport/disk.hpp"

namespace stagecraft {

class RealDisk final : public Disk {
 public:
  std::vector<std::string> glob(const std::string& pattern) override;
  DiskResult<std::string> read(const std::string& path) override;
  DiskResult<std::size_t> read_at(const std::string& path, std::uint64_t offset, std::span<char> into) override;
  DiskResult<std::vector<DiskEntry>> list(const std::string& folder) override;
  DiskStatus make_directories(const std::string& path) override;
  DiskStatus append(const std::string& path, std::string_view text) override;
  DiskStatus write_whole(const std::string& path, std::string_view text) override;
  DiskResult<std::unique_ptr<FileWriter>> create(const std::string& path) override;
  DiskStatus rename(const std::string& from, const std::string& to) override;
  DiskStatus remove(const std::string& path) override;
  DiskStatus sync_folder(const std::string& folder) override;
};

}  // namespace stagecraft
