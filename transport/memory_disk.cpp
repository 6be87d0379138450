#include "transport/memory_disk.hpp"

#include <fnmatch.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>

namespace stagecraft {
namespace {

// "./a//b/" and "a/b" are one file.
std::string normal(const std::string& path) {
  std::string name = std::filesystem::path(path).lexically_normal().string();
  if (name.size() > 1 && name.back() == '/') name.pop_back();
  return name;
}

std::string folder_of(const std::string& name) { return std::filesystem::path(name).parent_path().string(); }

}  // namespace

std::vector<std::string> MemoryDisk::glob(const std::string& pattern) {
  const std::lock_guard lock(mutex_);
  std::set<std::string> paths;
  if (base_) {
    for (const std::string& path : base_->glob(pattern)) paths.insert(normal(path));
  }
  for (const auto& [name, content] : files_) {
    if (::fnmatch(normal(pattern).c_str(), name.c_str(), FNM_PATHNAME | FNM_PERIOD) == 0) paths.insert(name);
  }
  return {paths.begin(), paths.end()};
}

DiskResult<std::string> MemoryDisk::read(const std::string& path) {
  const std::lock_guard lock(mutex_);
  const std::string name = normal(path);
  if (const auto found = files_.find(name); found != files_.end()) return found->second;
  if (folders_.contains(name)) return disk_error("read", path, EISDIR);
  if (base_) return base_->read(path);
  return disk_error("read", path, ENOENT);
}

DiskStatus MemoryDisk::make_directories(const std::string& path) {
  const std::lock_guard lock(mutex_);
  for (std::string name = normal(path); !name.empty() && name != "/"; name = folder_of(name)) {
    if (files_.contains(name) || (base_ && base_->read(name))) return disk_error("make folder", path, EEXIST);
  }
  for (std::string name = normal(path); !name.empty() && name != "/"; name = folder_of(name)) folders_.insert(name);
  return std::nullopt;
}

// A disk tells a folder by refusing to read it as a file.
bool MemoryDisk::has_folder(const std::string& folder) {
  if (folder.empty() || folder == "." || folder == "/" || folders_.contains(folder)) return true;
  if (!base_) return false;
  const auto answer = base_->read(folder);
  return !answer && answer.error().code == EISDIR;
}

int MemoryDisk::writable(const std::string& name) {
  if (folders_.contains(name)) return EISDIR;
  const std::string folder = folder_of(name);
  if (files_.contains(folder)) return ENOTDIR;
  return has_folder(folder) ? 0 : ENOENT;
}

DiskStatus MemoryDisk::append(const std::string& path, std::string_view text) {
  const std::lock_guard lock(mutex_);
  const std::string name = normal(path);
  if (const int code = writable(name)) return disk_error("append to", path, code);
  auto found = files_.find(name);
  if (found == files_.end()) {
    std::string below;
    if (base_) {
      if (auto content = base_->read(path)) {
        below = std::move(content.value());
      } else if (content.error().code != ENOENT) {
        return disk_error("append to", path, content.error().code);
      }
    }
    found = files_.emplace(name, std::move(below)).first;
  }
  found->second += text;
  return std::nullopt;
}

DiskStatus MemoryDisk::write_whole(const std::string& path, std::string_view text) {
  const std::lock_guard lock(mutex_);
  const std::string name = normal(path);
  if (const int code = writable(name)) return disk_error("write", path, code);
  files_[name] = std::string(text);
  return std::nullopt;
}

std::map<std::string, std::string> MemoryDisk::files() const {
  const std::lock_guard lock(mutex_);
  return files_;
}

}  // namespace stagecraft
