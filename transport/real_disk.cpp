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
#include <vector>

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

  // Fewer than asked for at the end of the file only.
  int read_at(std::uint64_t offset, std::span<char> into, std::size_t& used) {
    for (used = 0; used < into.size();) {
      const ::ssize_t n =
          ::pread(descriptor_, into.data() + used, into.size() - used, static_cast<off_t>(offset + used));
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return errno;
      if (n == 0) break;
      used += static_cast<std::size_t>(n);
    }
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

// Makes the names in a folder survive a power cut.
int sync_names(const std::string& folder) {
  File file(folder.empty() ? "." : folder, O_RDONLY | O_DIRECTORY);
  return file.is_open() ? file.sync() : errno;
}

int sync_folder_of(const std::string& path) { return sync_names(std::filesystem::path(path).parent_path().string()); }

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

// A device never ends, a pipe waits for its writer: neither is a file to read, or to replace.
bool is_irregular(const std::string& path) {
  struct stat about {};
  return ::stat(path.c_str(), &about) == 0 && !S_ISREG(about.st_mode) && !S_ISDIR(about.st_mode);
}

DiskError irregular_to_read(const std::string& path) {
  return {"read", path, EINVAL, "it is no regular file", "copy it to one first"};
}

DiskError irregular_to_write(const std::string& path) {
  return {"write", path, EEXIST, "something is there that is no regular file", "name another file"};
}

class RealFileWriter final : public FileWriter {
 public:
  explicit RealFileWriter(const std::string& path) : path_(path), file_(path, O_WRONLY | O_CREAT | O_TRUNC) {}
  bool is_open() const { return file_.is_open(); }

  DiskStatus write(std::string_view bytes) override { return status(file_.write_all(bytes)); }
  DiskStatus finish() override {
    if (const int code = file_.sync()) return status(code);
    return status(file_.close());
  }

 private:
  DiskStatus status(int code) const { return code == 0 ? DiskStatus{} : disk_error("write", path_, code); }

  std::string path_;
  File file_;
};

// Never onto something that is there. Not every file system knows how to promise it; there, a look before has to do.
int rename_onto_nothing(const std::string& from, const std::string& to) {
  if (::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE) == 0) return 0;
  if (errno != EINVAL && errno != ENOSYS) return errno;
  struct stat about {};
  if (::lstat(to.c_str(), &about) == 0) return EEXIST;
  return std::rename(from.c_str(), to.c_str()) == 0 ? 0 : errno;
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
  if (is_irregular(path)) return irregular_to_read(path);
  File file(path, O_RDONLY);
  if (!file.is_open()) return disk_error("read", path, errno);
  std::string text;
  if (const int code = file.read_all(text)) return disk_error("read", path, code);
  return text;
}

DiskResult<std::size_t> RealDisk::read_at(const std::string& path, std::uint64_t offset, std::span<char> into) {
  if (is_irregular(path)) return irregular_to_read(path);
  File file(path, O_RDONLY);
  if (!file.is_open()) return disk_error("read", path, errno);
  std::size_t used = 0;
  if (const int code = file.read_at(offset, into, used)) return disk_error("read", path, code);
  return used;
}

DiskResult<std::vector<DiskEntry>> RealDisk::list(const std::string& folder) {
  std::error_code error;
  std::vector<DiskEntry> entries;
  std::filesystem::directory_iterator at(folder.empty() ? "." : folder, error), end;
  for (; !error && at != end; at.increment(error)) {
    std::error_code unknown;  // of one entry: it has gone meanwhile, or points nowhere
    DiskEntry entry{at->path().filename().string(), at->is_directory(unknown), 0};
    if (at->is_regular_file(unknown)) entry.bytes = at->file_size(unknown);
    if (unknown) entry.bytes = 0;
    entries.push_back(std::move(entry));
  }
  if (error) return disk_error("list", folder, error.value());
  std::sort(entries.begin(), entries.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
  return entries;
}

DiskStatus RealDisk::make_directories(const std::string& path) {
  std::vector<std::string> made;  // those that are missing, the deepest first
  for (std::filesystem::path above = path; !above.empty() && !is_folder(above.string()); above = above.parent_path())
    if (above.has_filename()) made.push_back(above.string());
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (!error && !is_folder(path)) error = std::make_error_code(std::errc::file_exists);
  if (error) return disk_error("make folder", path, error.value());
  for (const std::string& folder : made)
    if (const int code = sync_folder_of(folder)) return disk_error("make folder", path, code);
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
  if (is_irregular(path)) return irregular_to_write(path);
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

DiskResult<std::unique_ptr<FileWriter>> RealDisk::create(const std::string& path) {
  if (is_irregular(path)) return irregular_to_write(path);
  auto writer = std::make_unique<RealFileWriter>(path);
  if (!writer->is_open()) return disk_error("write", path, errno);
  return DiskResult<std::unique_ptr<FileWriter>>(std::move(writer));
}

DiskStatus RealDisk::rename(const std::string& from, const std::string& to) {
  const int code = rename_onto_nothing(from, to);
  if (code == EEXIST || code == ENOTEMPTY) return taken_name(from, to);
  if (code != 0) return disk_error("rename", from, code);
  return std::nullopt;
}

DiskStatus RealDisk::remove(const std::string& path) {
  std::error_code error;
  std::filesystem::remove_all(path, error);
  if (error) return disk_error("remove", path, error.value());
  return std::nullopt;
}

DiskStatus RealDisk::sync_folder(const std::string& folder) {
  if (const int code = sync_names(folder)) return disk_error("sync", folder, code);
  return std::nullopt;
}

}  // namespace stagecraft
