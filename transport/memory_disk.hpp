// A disk in memory for the virtual world: what is written stays here, what was never written is read from the disk
// below, if there is one. See disk.hpp for what the calls promise. A folder must be made before a file is written in
// it, as on a real disk. It knows what a power cut would leave.
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
  explicit MemoryDisk(std::shared_ptr<Disk> base = nullptr);
  ~MemoryDisk() override;

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

  /// What was written here: normalised path -> content.
  std::map<std::string, std::string> files() const;

  /// Cuts the power: what was not synced is lost. With a seed some of it is there, as chance has it: a file holds what
  /// it held, nothing, a part, zeros, or all; a folder stands as it was after any of its changes since the last sync.
  void power_cut(std::optional<std::uint64_t> seed = std::nullopt);

 private:
  struct Node;  // a file or a folder, whatever its name is
  using NodeRef = std::shared_ptr<Node>;
  class Writer;
  enum class Kind { nothing, file, folder };

  NodeRef find(const std::string& name) const;
  Kind kind(const std::string& name) const;
  Kind kind_below(const std::string& name) const;
  bool is_gone(const std::string& name) const;
  int folder_to_write(const std::string& name, NodeRef& folder);
  int file_to_write(const std::string& name, NodeRef& file);
  void copy_up(const std::string& name);

  std::shared_ptr<Disk> base_;
  mutable std::mutex mutex_;
  NodeRef absolute_, relative_;  // where paths begin
  std::set<std::string> gone_;   // of the disk below: removed here, with what they hold
};

}  // namespace stagecraft
