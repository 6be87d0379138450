// stagecraft checkpoint ls | verify | reshard | export.
//
// Exit codes: 0 done; 2 bad usage: the path names nothing, there is no checkpoint, or something stands where the result
// should go; 3 a checkpoint is damaged, the one that is there can't be written in this form, or the disk failed. `ls`
// ends with 0 when it could look, whatever it saw.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "model/checkpoint/checkpoint.hpp"
#include "model/checkpoint/gguf.hpp"
#include "model/checkpoint/hugging_face.hpp"
#include "model/checkpoint/manifest.hpp"
#include "model/checkpoint/reshard.hpp"
#include "tools/commands.hpp"
#include "tools/open_topology.hpp"
#include "tools/output.hpp"
#include "tools/resume.hpp"
#include "tools/table.hpp"
#include "transport/real_disk.hpp"

namespace stagecraft::tools {

namespace {

using Json = nlohmann::ordered_json;

// What a path on the command line stands for: one checkpoint, or the folder of a job's checkpoints.
struct Found {
  std::string path;
  std::vector<CheckpointEntry> entries;
  bool is_single = false;
  std::string folder_inside;  // the first, where no checkpoint is: perhaps it is that of a job

  std::string nothing() const {
    if (folder_inside.empty()) return fmt::format("no checkpoints in '{}'", path);
    return fmt::format("no checkpoints in '{}'; name a folder in it, such as '{}/{}'", path, path, folder_inside);
  }
};

std::string without_slash(std::string path) {
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  return path;
}

// Some files of a checkpoint may be missing, but hardly all of them.
bool is_of_checkpoint(const std::string& name) {
  return name == manifest_file || name.starts_with("model") || name.starts_with("optimizer");
}

// A folder with steps is a job's; one with files of a checkpoint is that, perhaps a damaged one.
Found look_into(Disk& disk, const std::string& path, const std::vector<DiskEntry>& inside) {
  Found found{path, list_checkpoints(disk, path), false, ""};
  if (!found.entries.empty()) return found;
  for (const DiskEntry& entry : inside) {
    found.is_single = found.is_single || (!entry.folder && is_of_checkpoint(entry.name));
    if (entry.folder && found.folder_inside.empty()) found.folder_inside = entry.name;
  }
  if (found.is_single) {
    const auto info = read_manifest(disk, path);
    const auto* sound = std::get_if<CheckpointInfo>(&info);
    found.entries.push_back({path, sound ? sound->iteration : 0, false});
  }
  return found;
}

// Empty, with the reason on standard error, when there is nothing to look at.
std::optional<Found> find(Disk& disk, const FileOptions& options) {
  std::string path = without_slash(options.file);
  auto inside = disk.list(path);
  if (!inside && inside.error().code == ENOTDIR) {
    const auto topology = open_topology(options);
    if (!topology) return std::nullopt;
    path = checkpoint_folder(*topology);
    inside = disk.list(path);
    if (!inside && inside.error().code == ENOENT) return Found{path, {}, false, ""};
  }
  if (inside) return look_into(disk, path, inside.value());
  complain("{}\n", inside.error().text());
  return std::nullopt;
}

struct Inspected {
  CheckpointEntry entry;
  std::uint64_t bytes = 0;
  std::optional<CheckpointInfo> info;
  std::string why;  // it is not sound; empty when it is

  const char* state() const { return entry.partial ? "unfinished" : why.empty() ? "verified" : "damaged"; }
};

Inspected inspect(Disk& disk, const CheckpointEntry& entry) {
  Inspected result{entry, 0, std::nullopt, ""};
  if (const auto files = disk.list(entry.path))
    for (const DiskEntry& file : files.value()) result.bytes += file.bytes;
  auto info = read_manifest(disk, entry.path);
  if (auto* sound = std::get_if<CheckpointInfo>(&info)) result.info = std::move(*sound);
  if (entry.partial) {
    result.why = "it was never finished; the next checkpoint of the job removes it";
  } else {
    const auto verified = verify_checkpoint(disk, entry.path);
    if (const auto* why = std::get_if<std::string>(&verified)) result.why = *why;
  }
  return result;
}

std::vector<Inspected> inspect_all(Disk& disk, const Found& found) {
  std::vector<Inspected> all;
  for (const CheckpointEntry& entry : found.entries) all.push_back(inspect(disk, entry));
  return all;
}

Json to_json(const Inspected& x) {
  Json j{{"path", x.entry.path}, {"iteration", x.entry.iteration}, {"bytes", x.bytes}, {"state", x.state()}};
  if (!x.why.empty()) j["why"] = x.why;
  if (x.info) {
    j["job"] = x.info->job;
    j["layout"] = x.info->layout;
    j["tokens"] = x.info->tokens;
    j["steps"] = x.info->steps;
  }
  return j;
}

void print_json(const Found& found, const std::vector<Inspected>& all) {
  Json j{{"folder", found.path}, {"newest_verified", nullptr}, {"checkpoints", Json::array()}};
  for (const Inspected& x : all) {
    if (x.why.empty() && j["newest_verified"].is_null()) j["newest_verified"] = x.entry.path;
    j["checkpoints"].push_back(to_json(x));
  }
  say("{}\n", j.dump(-1, ' ', false, Json::error_handler_t::replace));
}

void print_table(const std::vector<Inspected>& all) {
  Table table({"checkpoint", "iteration", "size", "tokens", "layout", "state"});
  for (const Inspected& x : all)
    table.add({x.entry.path, std::to_string(x.entry.iteration), format(Bytes{x.bytes}),
               x.info ? std::to_string(x.info->tokens) : "?", x.info ? x.info->layout : "?", x.state()});
  say("{}", table.text());
  for (const Inspected& x : all)
    if (!x.why.empty()) say("{}: {}\n", x.entry.path, x.why);
}

// The one that is named, or the newest sound one of a job.
std::variant<std::string, ExitCode> choose_one(Disk& disk, const FileOptions& options) {
  const auto found = find(disk, options);
  if (!found) return bad_input;
  if (found->is_single) return found->path;
  const CheckpointChoice choice = newest_verified(disk, found->path);
  for (const PassedOver& p : choice.passed_over) complain("passed over {}: {}\n", p.path, p.why);
  if (choice.path) return *choice.path;
  if (choice.passed_over.empty()) {
    complain("{}\n", found->nothing());
    return bad_input;
  }
  complain("'{}' holds no checkpoint that can be used; take one from elsewhere\n", found->path);
  return fault;
}

bool is_free(const std::string& target) {
  if (target.empty()) {
    complain("--to: expected the place of what is to be made, got ''\n");
    return false;
  }
  std::error_code error;
  const auto status = std::filesystem::symlink_status(without_slash(target), error);
  if (!std::filesystem::exists(status)) return true;
  complain("'{}' is there already, and nothing is written over; name another place with --to, or remove it\n", target);
  return false;
}

}  // namespace

int checkpoint_ls_command(const CheckpointOptions& options) {
  RealDisk disk;
  const auto found = find(disk, options.file);
  if (!found) return bad_input;
  const auto all = inspect_all(disk, *found);
  if (options.file.json) {
    print_json(*found, all);
  } else if (all.empty()) {
    say("{}\n", found->nothing());
  } else {
    print_table(all);
  }
  return done;
}

int checkpoint_verify_command(const CheckpointOptions& options) {
  RealDisk disk;
  const auto found = find(disk, options.file);
  if (!found) return bad_input;
  const auto all = inspect_all(disk, *found);
  const auto is_damaged = [](const Inspected& x) { return !x.entry.partial && !x.why.empty(); };
  const auto damaged = std::count_if(all.begin(), all.end(), is_damaged);
  if (all.empty()) complain("{}\n", found->nothing());
  if (options.file.json) {
    print_json(*found, all);
  } else {
    for (const Inspected& x : all) {
      if (x.why.empty())
        say("{}: verified, iteration {}, {}\n", x.entry.path, x.entry.iteration, format(Bytes{x.bytes}));
      else
        complain("{}: {}: {}\n", x.entry.path, x.state(), x.why);
    }
  }
  if (damaged > 0)
    complain("{} of {} checkpoints can't be used: take another, `run --resume` passes them over\n", damaged,
             all.size());
  return all.empty() ? bad_input : damaged > 0 ? fault : done;
}

int checkpoint_reshard_command(const CheckpointOptions& options) {
  RealDisk disk;
  if (!is_free(options.to)) return bad_input;
  const auto chosen = choose_one(disk, options.file);
  if (const auto* code = std::get_if<ExitCode>(&chosen)) return *code;
  const auto& from = std::get<std::string>(chosen);
  const auto result = reshard_checkpoint(disk, from, options.to, options.split);
  if (const auto* why = std::get_if<std::string>(&result)) {
    complain("{} is not resharded: {}\n", from, *why);
    return fault;
  }
  const auto& [model_files, optimizer_files] = std::get<Resharded>(result);
  if (options.file.json)
    say("{}\n",
        Json{{"from", from}, {"to", options.to}, {"model_files", model_files}, {"optimizer_files", optimizer_files}}
            .dump(-1, ' ', false, Json::error_handler_t::replace));
  else
    say("{} -> {}: {} model files, {} optimizer files, verified\n", from, options.to, model_files, optimizer_files);
  return done;
}

int checkpoint_export_command(const CheckpointOptions& options) {
  RealDisk disk;
  if (!is_free(options.to)) return bad_input;
  const auto chosen = choose_one(disk, options.file);
  if (const auto* code = std::get_if<ExitCode>(&chosen)) return *code;
  const auto& from = std::get<std::string>(chosen);
  const CheckpointStatus problem =
      options.gguf ? export_gguf(disk, from, options.to) : export_hugging_face(disk, from, options.to);
  if (problem) {
    complain("{}\n", *problem);
    return fault;
  }
  const char* form = options.gguf ? "gguf" : "huggingface";
  if (options.file.json)
    say("{}\n", Json{{"from", from}, {"to", options.to}, {"format", form}}.dump(-1, ' ', false,
                                                                                Json::error_handler_t::replace));
  else
    say("{} -> {} ({})\n", from, options.to, options.gguf ? "GGUF" : "Hugging Face");
  return done;
}

}  // namespace stagecraft::tools
