// The world's seam to files: everything that is read from or kept on a disk goes through here, so that a simulated
// node has a disk of its own. Errors are values that say what failed, where, why and what to try.
//
// Who knocks: the corpus, the recorder, the checkpointer. What it never does: throw, print, or know what is in a file.
// Thread promise: any thread, one writer per path. Every call blocks until the operating system has answered, so it
// belongs on a thread of its own, never on a worker that runs actors.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace stagecraft {

struct DiskError {
  std::string doing;  ///< "read", "append to", ...
  std::string path;
  int code = 0;      ///< errno
  std::string why;   ///< what the operating system says of it
  std::string hint;  ///< what to try
  /// "cannot read 'a/b': No such file or directory; check the spelling ..."
  std::string text() const { return "cannot " + doing + " '" + path + "': " + why + "; " + hint; }
};

/// The error of a failed operation, with the words that go with an errno.
DiskError disk_error(std::string doing, std::string path, int code);
/// Of a rename: something is at `to`.
DiskError taken_name(std::string from, const std::string& to);

/// Empty when all went well.
using DiskStatus = std::optional<DiskError>;

/// A value or the error instead of it.
template <class T>
class DiskResult {
 public:
  DiskResult(T value) : content_(std::move(value)) {}
  DiskResult(DiskError error) : content_(std::move(error)) {}

  explicit operator bool() const { return std::holds_alternative<T>(content_); }
  T& value() & { return std::get<T>(content_); }
  const T& value() const& { return std::get<T>(content_); }
  T value() && { return std::get<T>(std::move(content_)); }  // so that a loop over it is safe
  const DiskError& error() const { return std::get<DiskError>(content_); }

 private:
  std::variant<T, DiskError> content_;
};

/// What a folder holds.
struct DiskEntry {
  std::string name;  ///< without the folder
  bool folder = false;
  std::uint64_t bytes = 0;  ///< of a file
};

/// A file that is written from its start, piece by piece. It goes before its disk does. One owner, one thread.
class FileWriter {
 public:
  virtual ~FileWriter() = default;
  /// After an error a part may have been written.
  virtual DiskStatus write(std::string_view bytes) = 0;
  /// The last call. After success the content survives a power cut, and so does the file once its folder is synced. A
  /// writer that goes without it leaves what was written, of which a power cut may leave anything.
  virtual DiskStatus finish() = 0;
};

class Disk {
 public:
  virtual ~Disk() = default;

  /// The files (no folders) whose path matches a shell pattern of `*`, `?` and `[...]`, sorted by their bytes. A `*`
  /// passes no `/`, and no dot at the start of a name. Empty when there is none; what cannot be looked into is skipped.
  virtual std::vector<std::string> glob(const std::string& pattern) = 0;
  /// The whole file.
  virtual DiskResult<std::string> read(const std::string& path) = 0;
  /// Reads from byte `offset` on into `into`: how many bytes there were, fewer than asked for only at the end.
  virtual DiskResult<std::size_t> read_at(const std::string& path, std::uint64_t offset, std::span<char> into) = 0;
  /// What a folder holds, sorted by the bytes of the names.
  virtual DiskResult<std::vector<DiskEntry>> list(const std::string& folder) = 0;
  /// Makes a folder and those above it; it is fine if they are there. They survive a power cut.
  virtual DiskStatus make_directories(const std::string& path) = 0;
  /// Adds to the end of a file, which is made when it is missing. After an error a part may have been written.
  virtual DiskStatus append(const std::string& path, std::string_view text) = 0;
  /// Replaces a file by `text`, all or nothing: after success the text survives a power cut, after an error or a crash
  /// the old content stands. Uses `path.partial` on the way.
  virtual DiskStatus write_whole(const std::string& path, std::string_view text) = 0;
  /// Makes a file, or empties the one that is there.
  virtual DiskResult<std::unique_ptr<FileWriter>> create(const std::string& path) = 0;
  /// Gives a file or a folder, with what it holds, another name on the same file system, at which nothing may be. All
  /// or nothing; survives a power cut once the folders of both names are synced.
  virtual DiskStatus rename(const std::string& from, const std::string& to) = 0;
  /// Removes a file, or a folder with what it holds; it is fine if nothing is there. After an error or a crash a part
  /// may be gone.
  virtual DiskStatus remove(const std::string& path) = 0;
  /// After success the names in a folder, made, changed or removed, survive a power cut as they are now.
  virtual DiskStatus sync_folder(const std::string& folder) = 0;
};

}  // namespace stagecraft
