#include "transport/real_disk.hpp"

#include <fcntl.h>
#include <glob.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <system_error>

namespace stagecraft {
namespace {

// An open file that is closed when it goes.
class File {
 public:
  File(const std::string& path, int flags) : descriptor_(::open(path.c_str(), flags | O_CLOEXEC, 0666)) {}
  ~File() {
    if (is_open()) ::close(descriptor_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  bool is_open() const { return descriptor_ >= 0; }

  // Each of these returns the errno of its failure, 0 when there was none.
  int write_all(std::string_view text) {
    while (!text.empty()) {
      const ::ssize_t n = ::write(descriptor_, text.data(), text.size());
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return errno;
      text.remove_prefix(static_cast<std::size_t>(n));
    }
    return 0;
  }

  int read_all(std::string& text) {
    struct stat about {};
    if (::fstat(descriptor_, &about) != 0) return errno;
    if (S_ISDIR(about.st_mode)) return EISDIR;
    std::size_t used = 0;
    // One byte more than the size, so that the usual file ends without growing the buffer.
    text.resize(static_cast<std::size_t>(std::max<off_t>(about.st_size, 0)) + 1);
    while (true) {
      const ::ssize_t n = ::read(descriptor_, text.data() + used, text.size() - used);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return errno;
      used += static_cast<std::size_t>(n);
      if (n == 0) break;
      if (used == text.size()) text.resize(2 * text.size());
    }
    text.resize(used);
    return 0;
  }

  int sync() { return ::fsync(descriptor_) == 0 ? 0 : errno; }

  int close() {
    const int result = ::close(std::exchange(descriptor_, -1));
    return result == 0 ? 0 : errno;
  }

 private:
  int descriptor_;
};

// Makes a rename survive a power cut.
int sync_folder_of(const std::string& path) {
  const std::string folder = std::filesystem::path(path).parent_path().string();
  File file(folder.empty() ? "." : folder, O_RDONLY | O_DIRECTORY);
  return file.is_open() ? file.sync() : errno;
}

int write_and_sync(const std::string& path, std::string_view text) {
  File file(path, O_WRONLY | O_CREAT | O_TRUNC);
  if (!file.is_open()) return errno;
  if (const int code = file.write_all(text)) return code;
  if (const int code = file.sync()) return code;
  return file.close();
}

bool is_folder(const std::string& path) {
  struct stat about {};
  return ::stat(path.c_str(), &about) == 0 && S_ISDIR(about.st_mode);
}

}  // namespace

std::vector<std::string> RealDisk::glob(const std::string& pattern) {
  ::glob_t found{};
  std::vector<std::string> paths;
  // Sorted here, not there: glob(3) sorts by the locale.
  if (::glob(pattern.c_str(), GLOB_NOSORT, nullptr, &found) == 0) {
    paths.assign(found.gl_pathv, found.gl_pathv + found.gl_pathc);
  }
  ::globfree(&found);
  std::erase_if(paths, is_folder);
  std::sort(paths.begin(), paths.end());
  return paths;
}

DiskResult<std::string> RealDisk::read(const std::string& path) {
  // A device never ends, a pipe waits for its writer: neither is a file to read whole.
  struct stat there = {};
  if (::stat(path.c_str(), &there) == 0 && !S_ISREG(there.st_mode) && !S_ISDIR(there.st_mode))
    return DiskError{"read", path, EINVAL, "it is no regular file", "copy it to one first"};
  File file(path, O_RDONLY);
  if (!file.is_open()) return disk_error("read", path, errno);
  std::string text;
  if (const int code = file.read_all(text)) return disk_error("read", path, code);
  return text;
}

DiskStatus RealDisk::make_directories(const std::string& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (!error && !is_folder(path)) error = std::make_error_code(std::errc::file_exists);
  if (error) return disk_error("make folder", path, error.value());
  return std::nullopt;
}

DiskStatus RealDisk::append(const std::string& path, std::string_view text) {
  File file(path, O_WRONLY | O_CREAT | O_APPEND);
  if (!file.is_open()) return disk_error("append to", path, errno);
  if (const int code = file.write_all(text)) return disk_error("append to", path, code);
  if (const int code = file.close()) return disk_error("append to", path, code);
  return std::nullopt;
}

DiskStatus RealDisk::write_whole(const std::string& path, std::string_view text) {
  // A rename would put a file in the place of a device or a pipe.
  struct stat there = {};
  if (::stat(path.c_str(), &there) == 0 && !S_ISREG(there.st_mode) && !S_ISDIR(there.st_mode))
    return DiskError{"write", path, EEXIST, "something is there that is no regular file", "name another file"};
  const std::string partial = path + ".partial";
  int code = write_and_sync(partial, text);
  if (code == 0 && std::rename(partial.c_str(), path.c_str()) != 0) code = errno;
  if (code != 0) {
    ::unlink(partial.c_str());
    return disk_error("write", path, code);
  }
  if ((code = sync_folder_of(path)) != 0) return disk_error("write", path, code);
  return std::nullopt;
}

}  // namespace stagecraft
