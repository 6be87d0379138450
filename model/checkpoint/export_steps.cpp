#include "model/checkpoint/export_steps.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <memory>
#include <vector>

#include "model/corpus.hpp"

namespace stagecraft {
namespace {

constexpr std::size_t piece_bytes = std::size_t{1} << 20;

// Without slashes at the end, so that a suffix may follow.
std::string normal(const std::string& path) {
  std::string name = std::filesystem::path(path).lexically_normal().string();
  while (name.size() > 1 && name.back() == '/') name.pop_back();
  return name;
}

std::string folder_of(const std::string& path) {
  const std::string folder = std::filesystem::path(path).parent_path().string();
  return folder.empty() ? "." : folder;
}

// A folder that can't be listed holds nothing that we know of; the rename looks again.
bool is_taken(Disk& disk, const std::string& path) {
  const std::string name = std::filesystem::path(path).filename().string();
  const auto entries = disk.list(folder_of(path));
  return entries && std::any_of(entries.value().begin(), entries.value().end(),
                                [&](const DiskEntry& entry) { return entry.name == name; });
}

// The first thing that goes wrong on the way from a filled `partial` to `target`.
DiskStatus move_in_place(Disk& disk, const std::string& partial, const std::string& target) {
  if (disk.list(partial)) {
    if (auto status = disk.sync_folder(partial)) return status;
  }
  return disk.rename(partial, target);
}

}  // namespace

CheckpointStatus told(const DiskStatus& status) {
  if (!status) return std::nullopt;
  return status->text();
}

std::variant<CheckpointInfo, std::string> exportable_checkpoint(Disk& disk, const std::string& path) {
  auto manifest = verify_checkpoint(disk, path);
  if (const auto* why = std::get_if<std::string>(&manifest)) return fmt::format("cannot export '{}': {}", path, *why);
  const JobIdentity& identity = std::get<CheckpointInfo>(manifest).identity;
  if (identity.emulated)
    return fmt::format(
        "cannot export '{}': its job ran on emulated devices, so its parameters are digests and no model; export a "
        "checkpoint of a job on cpu devices",
        path);
  if (identity.model.vocabulary != separator_token + 1)
    return fmt::format(
        "cannot export '{}': its vocabulary has {} tokens, and the only tokenizer that is known is that of {} (bytes "
        "and a separator); train with model.vocabulary: bytes",
        path, identity.model.vocabulary, separator_token + 1);
  return manifest;
}

CheckpointStatus appear_at(Disk& disk, const std::string& target,
                           const std::function<CheckpointStatus(const std::string& partial)>& fill) {
  const std::string name = normal(target), partial = name + ".partial";
  if (std::filesystem::path(name).filename().empty() || name == "." || name == "..")
    return fmt::format("cannot export to '{}': it names nothing new; name a file or a folder to be made", target);
  if (is_taken(disk, name))
    return fmt::format("cannot export to '{}': something is there already; name another place, or remove it", target);
  if (is_taken(disk, partial))
    return fmt::format(
        "cannot export to '{}': '{}' is there, left by an export that was cut off or in use by one that runs; remove "
        "it when none does",
        target, partial);
  if (auto status = told(disk.make_directories(folder_of(name)))) return status;
  CheckpointStatus status = fill(partial);
  if (!status) status = told(move_in_place(disk, partial, name));
  if (status) {
    disk.remove(partial);  // the first error says more than one from here
    return status;
  }
  return told(disk.sync_folder(folder_of(name)));
}

CheckpointStatus put_file(Disk& disk, const std::string& path, std::string_view text) {
  auto writer = disk.create(path);
  if (!writer) return writer.error().text();
  if (auto status = told(writer.value()->write(text))) return status;
  return told(writer.value()->finish());
}

CheckpointStatus copy_file(Disk& disk, const std::string& from, const std::string& to) {
  auto writer = disk.create(to);
  if (!writer) return writer.error().text();
  std::vector<char> piece(piece_bytes);
  for (std::uint64_t offset = 0;;) {
    const auto got = disk.read_at(from, offset, piece);
    if (!got) return got.error().text();
    if (got.value() == 0) break;
    if (auto status = told(writer.value()->write({piece.data(), got.value()}))) return status;
    offset += got.value();
  }
  return told(writer.value()->finish());
}

}  // namespace stagecraft
