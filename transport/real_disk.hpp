// The operating system's files. See disk.hpp for what the calls promise.
// Thread promise: stateless; any thread, one writer per path.
#pragma once

#include "transport/disk.hpp"

namespace stagecraft {

class RealDisk final : public Disk {
 public:
  std::vector<std::string> glob(const std::string& pattern) override;
  DiskResult<std::string> read(const std::string& path) override;
  DiskStatus make_directories(const std::string& path) override;
  DiskStatus append(const std::string& path, std::string_view text) override;
  DiskStatus write_whole(const std::string& path, std::string_view text) override;
};

}  // namespace stagecraft
