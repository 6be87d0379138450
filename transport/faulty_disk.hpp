// A disk that fails where it is told to: full at the n-th operation, cut off at the n-th operation, or one bit of it
// wrong. Everything else goes to the disk below.
//
// Who knocks: tests, and scenarios that inject faults. What it never does: fail unasked, or by chance.
// Thread promise: any thread; calls exclude each other.
#pragma once

#include <mutex>

#include "transport/disk.hpp"

namespace stagecraft {

struct DiskFault {
  enum class Kind : std::uint8_t {
    no_space,  ///< the operation fails with ENOSPC after a part of it; later ones work
    crash,     ///< the operation is left off after a part of it; it and all later calls fail with EIO
    torn,      ///< a part of the operation gets through, and nobody is told
    flip_bit,  ///< the lowest bit of one byte is turned on its way down, and nobody is told
  };
  Kind kind = Kind::no_space;
  std::uint64_t operation = 1;  ///< which one; the first is 1
  /// Of the operation's bytes: how many get through, or the number of the byte that is turned. None: half of them.
  std::optional<std::uint64_t> bytes = std::nullopt;
};

/// An operation is a call that changes the disk: make_directories, append, write_whole, create, a writer's write and
/// finish, rename, remove, sync_folder. A part of a `remove` is half of the names in a folder; a rename or sync that
/// fails has done nothing. A crash is that of the process: what a power cut takes besides, MemoryDisk::power_cut takes.
class FaultyDisk final : public Disk {
 public:
  /// `below` outlives this.
  explicit FaultyDisk(Disk& below, std::optional<DiskFault> fault = std::nullopt) : below_(below), fault_(fault) {}

  /// From now on: `fault.operation` counts from the next one. In the place of a fault that has not struck yet.
  void arm(DiskFault fault);
  /// So far, with the one that failed.
  std::uint64_t operations() const;
  bool crashed() const;

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

 private:
  class Writer;

  bool is_due();
  DiskError failure(const char* doing, const std::string& path) const;
  DiskError cut_off(const char* doing, const std::string& path) const;
  template <class Operation>
  DiskStatus all_or_nothing(const char* doing, const std::string& path, Operation operation);
  template <class Put>
  DiskStatus put(const char* doing, const std::string& path, std::string_view bytes, Put operation);

  Disk& below_;
  std::optional<DiskFault> fault_;
  mutable std::mutex mutex_;
  std::uint64_t operations_ = 0;
  bool crashed_ = false;
};

}  // namespace stagecraft
