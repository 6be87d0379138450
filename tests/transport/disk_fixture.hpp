// What tests of disks share. Thread promise: one thread.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>

#include "transport/disk.hpp"

namespace stagecraft::test {

/// A folder of its own for each test, gone afterwards.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "stagecraft-disk-XXXXXX").string();
    path_ = ::mkdtemp(name.data());
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

/// "name/" for a folder, "name:bytes" for a file.
inline std::string listed(Disk& disk, const std::string& folder) {
  const auto entries = disk.list(folder);
  if (!entries) return entries.error().text();
  std::string text;
  for (const DiskEntry& e : entries.value())
    text += e.name + (e.folder ? std::string("/ ") : ":" + std::to_string(e.bytes) + " ");
  return text;
}

}  // namespace stagecraft::test
