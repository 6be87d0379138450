#include "transport/faulty_disk.hpp"

#include <algorithm>
#include <cerrno>

namespace stagecraft {

class FaultyDisk::Writer final : public FileWriter {
 public:
  Writer(FaultyDisk& disk, std::string path, std::unique_ptr<FileWriter> below)
      : disk_(disk), path_(std::move(path)), below_(std::move(below)) {}

  DiskStatus write(std::string_view bytes) override {
    const std::lock_guard lock(disk_.mutex_);
    return disk_.put("write", path_, bytes, [&](std::string_view part) { return below_->write(part); });
  }
  DiskStatus finish() override {
    const std::lock_guard lock(disk_.mutex_);
    return disk_.all_or_nothing("write", path_, [&] { return below_->finish(); });
  }

 private:
  FaultyDisk& disk_;
  std::string path_;
  std::unique_ptr<FileWriter> below_;
};

void FaultyDisk::arm(DiskFault fault) {
  const std::lock_guard lock(mutex_);
  fault.operation += operations_;
  fault_ = fault;
}

std::uint64_t FaultyDisk::operations() const {
  const std::lock_guard lock(mutex_);
  return operations_;
}

bool FaultyDisk::crashed() const {
  const std::lock_guard lock(mutex_);
  return crashed_;
}

// Counts an operation: does the fault meet it?
bool FaultyDisk::is_due() {
  const bool due = ++operations_ == (fault_ ? fault_->operation : 0);
  if (due && fault_->kind == DiskFault::Kind::crash) crashed_ = true;
  return due;
}

DiskError FaultyDisk::cut_off(const char* doing, const std::string& path) const {
  return {doing, path, EIO, "the disk was cut off, as was asked for", "open the disk below it again"};
}

DiskError FaultyDisk::failure(const char* doing, const std::string& path) const {
  return crashed_ ? cut_off(doing, path) : disk_error(doing, path, ENOSPC);
}

template <class Operation>
DiskStatus FaultyDisk::all_or_nothing(const char* doing, const std::string& path, Operation operation) {
  if (crashed_) return cut_off(doing, path);
  if (is_due() && (fault_->kind == DiskFault::Kind::no_space || crashed_)) return failure(doing, path);
  return operation();
}

template <class Put>
DiskStatus FaultyDisk::put(const char* doing, const std::string& path, std::string_view bytes, Put operation) {
  if (crashed_) return cut_off(doing, path);
  if (!is_due()) return operation(bytes);
  const std::size_t at = std::min<std::uint64_t>(fault_->bytes.value_or(bytes.size() / 2), bytes.size());
  if (fault_->kind == DiskFault::Kind::flip_bit) {
    std::string wrong(bytes);
    if (at < wrong.size()) wrong[at] = static_cast<char>(wrong[at] ^ 1);
    return operation(wrong);
  }
  if (fault_->kind == DiskFault::Kind::torn) return operation(bytes.substr(0, at));
  operation(bytes.substr(0, at));  // whose own failure would be the same to the caller
  return failure(doing, path);
}

std::vector<std::string> FaultyDisk::glob(const std::string& pattern) {
  const std::lock_guard lock(mutex_);
  return crashed_ ? std::vector<std::string>{} : below_.glob(pattern);
}

DiskResult<std::string> FaultyDisk::read(const std::string& path) {
  const std::lock_guard lock(mutex_);
  if (crashed_) return cut_off("read", path);
  return below_.read(path);
}

DiskResult<std::size_t> FaultyDisk::read_at(const std::string& path, std::uint64_t offset, std::span<char> into) {
  const std::lock_guard lock(mutex_);
  if (crashed_) return cut_off("read", path);
  return below_.read_at(path, offset, into);
}

DiskResult<std::vector<DiskEntry>> FaultyDisk::list(const std::string& folder) {
  const std::lock_guard lock(mutex_);
  if (crashed_) return cut_off("list", folder);
  return below_.list(folder);
}

DiskStatus FaultyDisk::make_directories(const std::string& path) {
  const std::lock_guard lock(mutex_);
  return all_or_nothing("make folder", path, [&] { return below_.make_directories(path); });
}

DiskStatus FaultyDisk::append(const std::string& path, std::string_view text) {
  const std::lock_guard lock(mutex_);
  return put("append to", path, text, [&](std::string_view part) { return below_.append(path, part); });
}

// The part of a whole write that failed is in the file on the way, not in `path`.
DiskStatus FaultyDisk::write_whole(const std::string& path, std::string_view text) {
  const std::lock_guard lock(mutex_);
  return put("write", path, text, [&](std::string_view part) {
    const bool whole = part.size() == text.size() && !crashed_;
    return whole ? below_.write_whole(path, part) : below_.append(path + ".partial", part);
  });
}

DiskResult<std::unique_ptr<FileWriter>> FaultyDisk::create(const std::string& path) {
  const std::lock_guard lock(mutex_);
  std::unique_ptr<FileWriter> writer;
  const DiskStatus status = all_or_nothing("write", path, [&]() -> DiskStatus {
    auto made = below_.create(path);
    if (!made) return made.error();
    writer = std::make_unique<Writer>(*this, path, std::move(made.value()));
    return std::nullopt;
  });
  if (status) return *status;
  return DiskResult<std::unique_ptr<FileWriter>>(std::move(writer));
}

DiskStatus FaultyDisk::rename(const std::string& from, const std::string& to) {
  const std::lock_guard lock(mutex_);
  return all_or_nothing("rename", from, [&] { return below_.rename(from, to); });
}

DiskStatus FaultyDisk::remove(const std::string& path) {
  const std::lock_guard lock(mutex_);
  if (crashed_) return cut_off("remove", path);
  const bool due = is_due();
  if (!due || fault_->kind == DiskFault::Kind::flip_bit || fault_->kind == DiskFault::Kind::torn)
    return below_.remove(path);
  if (const auto entries = below_.list(path)) {
    for (std::size_t i = 0; i < entries.value().size() / 2; ++i) below_.remove(path + "/" + entries.value()[i].name);
  }
  return failure("remove", path);
}

DiskStatus FaultyDisk::sync_folder(const std::string& folder) {
  const std::lock_guard lock(mutex_);
  return all_or_nothing("sync", folder, [&] { return below_.sync_folder(folder); });
}

}  // namespace stagecraft
