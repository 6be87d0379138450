#include "model/checkpoint/reshard.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "model/checkpoint/checkpoint_folder.hpp"
#include "model/checkpoint/export_steps.hpp"
#include "model/checkpoint/read_checkpoint.hpp"

namespace stagecraft {
namespace {

using Names = std::vector<std::string>;

// Consecutive tensors for each file. At least one file, even without tensors.
std::vector<Names> divide(const TensorFiles& tensors, const Names& order, const Split& split) {
  const auto* count = std::get_if<FileCount>(&split);
  const std::uint64_t total = tensors.bytes(), files = count ? count->files : 1;
  std::vector<Names> parts(1);
  std::uint64_t in_part = 0, before = 0;
  for (std::size_t i = 0; i < order.size(); ++i) {
    const std::uint64_t bytes = tensors.tensors().at(order[i]).entry.bytes;
    bool begins = false;
    if (count) {  // where its middle is past the share of the files so far, or when the rest needs a file each
      const double share = static_cast<double>(total) * static_cast<double>(parts.size()) / static_cast<double>(files);
      const bool is_past = static_cast<double>(before) + static_cast<double>(bytes) / 2 > share;
      const bool is_last_chance = order.size() - i == files - parts.size();
      begins = parts.size() < files && (is_past || is_last_chance);
    } else {
      begins = in_part + bytes > std::get<Bytes>(split).value;
    }
    if (begins && !parts.back().empty()) parts.emplace_back(), in_part = 0;
    parts.back().push_back(order[i]);
    in_part += bytes;
    before += bytes;
  }
  return parts;
}

// Writes the files of one stem, and notes them for the manifest.
class TensorFilesWriter {
 public:
  TensorFilesWriter(Disk& disk, const TensorFiles& source, std::string folder, std::string stem)
      : disk_(disk), source_(source), folder_(std::move(folder)), stem_(std::move(stem)) {}

  CheckpointStatus write(const Split& split, std::vector<WrittenFile>& written) {
    parts_ = divide(source_, source_.stored_order(), split);
    nlohmann::ordered_json index;
    index["metadata"] = {{"total_size", source_.bytes()}};
    auto& map = index["weight_map"] = nlohmann::ordered_json::object();
    for (std::size_t i = 0; i < parts_.size(); ++i) {
      const std::string file = tensor_file_of(stem_, i + 1, parts_.size());
      for (const std::string& tensor : parts_[i]) map[tensor] = file;
      if (auto why = note(write_part(file, parts_[i]), written)) return why;
    }
    if (parts_.size() == 1) return std::nullopt;
    return note(write_synced(disk_, folder_, index_file_of(stem_), index.dump(2) + "\n"), written);
  }
  std::size_t files() const { return parts_.size(); }

 private:
  static CheckpointStatus note(std::variant<WrittenFile, std::string> file, std::vector<WrittenFile>& written) {
    if (auto* why = std::get_if<std::string>(&file)) return std::move(*why);
    written.push_back(std::get<WrittenFile>(std::move(file)));
    return std::nullopt;
  }

  std::variant<WrittenFile, std::string> write_part(const std::string& file, const Names& names) {
    std::vector<TensorEntry> entries;
    for (const std::string& name : names) entries.push_back(source_.tensors().at(name).entry);
    auto created = SafetensorsWriter::create(disk_, folder_ + "/" + file, entries);
    if (auto* why = std::get_if<std::string>(&created)) return std::move(*why);
    auto& writer = std::get<SafetensorsWriter>(created);
    for (const std::string& name : names)
      if (auto why = source_.stream(disk_, name, [&](std::string_view piece) { return writer.write(piece); }))
        return *why;
    return writer.finish();
  }

  Disk& disk_;
  const TensorFiles& source_;
  std::string folder_, stem_;
  std::vector<Names> parts_;
};

CheckpointStatus too_many(const TensorFiles& tensors, const std::string& stem, const Split& split) {
  const auto* count = std::get_if<FileCount>(&split);
  const std::size_t most = std::max<std::size_t>(tensors.tensors().size(), 1);
  if (!count || (count->files >= 1 && count->files <= most)) return std::nullopt;
  return fmt::format("{} files for the {} tensors of the {}: give 1 to {}", count->files, tensors.tensors().size(),
                     stem, most);
}

// Files that hold no tensors go along as they are.
CheckpointStatus copy_others(Disk& disk, const std::string& from, const OpenCheckpoint& open, const std::string& to,
                             Manifest& manifest) {
  const auto holds = [](const TensorFiles& tensors, const std::string& name) {
    return std::find(tensors.files().begin(), tensors.files().end(), name) != tensors.files().end();
  };
  for (const WrittenFile& file : open.manifest.files) {
    if (holds(open.model, file.name) || holds(open.optimizer, file.name)) continue;
    if (auto why = copy_file(disk, from + "/" + file.name, to + "/" + file.name)) return why;
    manifest.files.push_back(file);
  }
  return std::nullopt;
}

}  // namespace

std::variant<Resharded, std::string> reshard_checkpoint(Disk& disk, const std::string& from, const std::string& to,
                                                        const Split& split) {
  const auto opened = open_checkpoint(disk, from);
  if (const auto* why = std::get_if<std::string>(&opened)) return *why;
  const auto& open = std::get<OpenCheckpoint>(opened);
  if (auto why = too_many(open.model, "model", split)) return *why;
  Resharded resharded;
  const auto fill = [&](const std::string& folder) -> CheckpointStatus {
    if (const DiskStatus status = disk.make_directories(folder)) return status->text();
    Manifest manifest{open.manifest.info, {}};
    if (auto why = copy_others(disk, from, open, folder, manifest)) return why;
    TensorFilesWriter model(disk, open.model, folder, "model"), optimizer(disk, open.optimizer, folder, "optimizer");
    if (auto why = model.write(split, manifest.files)) return why;
    if (auto why = optimizer.write(split, manifest.files)) return why;
    resharded = {model.files(), optimizer.files()};
    const auto last = write_synced(disk, folder, std::string(manifest_file), manifest_text(manifest));
    if (const auto* why = std::get_if<std::string>(&last)) return *why;
    const auto verified = verify_checkpoint(disk, folder);
    if (const auto* why = std::get_if<std::string>(&verified)) return *why;
    return std::nullopt;
  };
  if (auto why = appear_at(disk, to, fill)) return *why;
  return resharded;
}

}  // namespace stagecraft
