#include "model/checkpoint/checkpoint_folder.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <optional>
#include <tuple>

#include "model/checkpoint/manifest.hpp"

namespace stagecraft {
namespace {

constexpr std::array<std::string_view, 4> suffixes{"", ".replaced", ".partial", ".removed"};  // by StepState
constexpr std::string_view step_prefix = "step-";

// Only names that this program writes.
std::optional<StepFolder> parse_step(std::string_view name) {
  if (!name.starts_with(step_prefix)) return std::nullopt;
  const std::string_view digits = name.substr(step_prefix.size());
  StepFolder step;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), step.iteration);
  if (error != std::errc{}) return std::nullopt;
  for (std::size_t i = 0; i < suffixes.size(); ++i) {
    step.state = static_cast<StepState>(i);
    if (step.name() == name) return step;
  }
  return std::nullopt;
}

// Takes names out of sight, durably, then removes what they held: a crash in between leaves nothing that looks whole.
void discard(Disk& disk, const std::string& folder, const std::vector<StepFolder>& steps) {
  std::vector<std::string> removed;
  for (const StepFolder& step : steps) {
    const std::string path = folder + "/" + StepFolder{step.iteration, StepState::removed}.name();
    if (disk.remove(path)) continue;
    if (!disk.rename(folder + "/" + step.name(), path)) removed.push_back(path);
  }
  if (removed.empty() || disk.sync_folder(folder)) return;
  for (const std::string& path : removed) disk.remove(path);
}

bool looks_sound(Disk& disk, const std::string& path) {
  const auto manifest = load_manifest(disk, path);
  const auto entries = disk.list(path);
  if (std::holds_alternative<std::string>(manifest) || !entries) return false;
  const auto is_there = [&](const WrittenFile& file) {
    return std::any_of(entries.value().begin(), entries.value().end(), [&](const DiskEntry& entry) {
      return entry.name == file.name && entry.bytes == file.bytes && !entry.folder;
    });
  };
  const auto& files = std::get<Manifest>(manifest).files;
  return std::all_of(files.begin(), files.end(), is_there);
}

bool same_manifest(Disk& disk, const std::string& a, const std::string& b) {
  const auto first = disk.read(a + "/" + std::string(manifest_file));
  const auto second = disk.read(b + "/" + std::string(manifest_file));
  return first && second && first.value() == second.value();
}

}  // namespace

std::string StepFolder::name() const {
  return fmt::format("{}{:08}{}", step_prefix, iteration, suffixes[static_cast<std::size_t>(state)]);
}

DiskResult<std::vector<StepFolder>> list_steps(Disk& disk, const std::string& folder) {
  std::vector<StepFolder> steps;
  const auto entries = disk.list(folder);
  if (!entries && entries.error().code == ENOENT) return steps;
  if (!entries) return entries.error();
  for (const DiskEntry& entry : entries.value())
    if (const auto step = parse_step(entry.name); step && entry.folder) steps.push_back(*step);
  std::sort(steps.begin(), steps.end(), [](const StepFolder& a, const StepFolder& b) {
    return std::make_tuple(b.iteration, a.state) < std::make_tuple(a.iteration, b.state);
  });
  return steps;
}

void clear_abandoned(Disk& disk, const std::string& folder) {
  const auto steps = list_steps(disk, folder);
  if (!steps) return;
  for (const StepFolder& step : steps.value())
    if (step.state == StepState::partial || step.state == StepState::removed) disk.remove(folder + "/" + step.name());
}

CheckpointStatus put_in_place(Disk& disk, const std::string& folder, const std::string& name) {
  const std::string path = folder + "/" + name, partial = path + ".partial";
  if (const DiskStatus status = disk.sync_folder(partial)) return status->text();
  if (const DiskStatus status = disk.rename(partial, path)) return status->text();
  if (const DiskStatus status = disk.sync_folder(folder)) return status->text();
  return std::nullopt;
}

CheckpointStatus put_step_in_place(Disk& disk, const std::string& folder, std::uint32_t iteration) {
  const StepFolder step{iteration, StepState::whole}, replaced{iteration, StepState::replaced};
  const std::string path = folder + "/" + step.name(), partial = path + ".partial";
  const auto steps = list_steps(disk, folder);
  if (!steps) return steps.error().text();
  const auto is_there = [&](const StepFolder& which) {
    return std::find(steps.value().begin(), steps.value().end(), which) != steps.value().end();
  };
  bool has_replaced = is_there(replaced);
  if (is_there(step)) {
    const bool is_sound = std::holds_alternative<CheckpointInfo>(verify_checkpoint(disk, path));
    if (is_sound && same_manifest(disk, path, partial)) {
      if (const DiskStatus status = disk.sync_folder(folder)) return status->text();
      if (has_replaced) discard(disk, folder, {replaced});
      disk.remove(partial);
      return std::nullopt;
    }
    if (is_sound && has_replaced) discard(disk, folder, {replaced});
    if (is_sound) {
      if (const DiskStatus status = disk.rename(path, folder + "/" + replaced.name())) return status->text();
      has_replaced = true;
    } else {
      discard(disk, folder, {step});
    }
  }
  if (auto why = put_in_place(disk, folder, step.name())) return why;
  if (has_replaced) discard(disk, folder, {replaced});
  return std::nullopt;
}

void remove_beyond(Disk& disk, const std::string& folder, std::uint32_t keep, std::uint32_t just_written) {
  const auto steps = list_steps(disk, folder);
  if (!steps) return;
  std::uint32_t kept = 0;
  std::vector<StepFolder> old;
  for (const StepFolder& step : steps.value()) {
    if (step.state != StepState::whole && step.state != StepState::replaced) continue;
    if (kept < keep || step.iteration == just_written)
      kept += looks_sound(disk, folder + "/" + step.name());
    else
      old.push_back(step);
  }
  discard(disk, folder, old);
}

std::variant<WrittenFile, std::string> write_synced(Disk& disk, const std::string& folder, const std::string& name,
                                                    std::string_view text) {
  auto file = disk.create(folder + "/" + name);
  if (!file) return file.error().text();
  if (const DiskStatus status = file.value()->write(text)) return status->text();
  if (const DiskStatus status = file.value()->finish()) return status->text();
  return WrittenFile{name, text.size(), Checksum().update(text).hex()};
}

}  // namespace stagecraft
