// manifest.json: what a checkpoint is, which files belong to it, and their hashes, with its own at the end.
//
// The last line but one is `"sha256": "..."`, of all bytes before the comma that precedes it; so no byte of the file
// can change unnoticed. Numbers are written so that they read back exactly.
//
// Who knocks: the checkpoint writer and reader. Values only; any thread.
#pragma once

#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "model/checkpoint/checkpoint.hpp"
#include "model/checkpoint/safetensors.hpp"

namespace stagecraft {

inline constexpr std::string_view manifest_file = "manifest.json";

struct Manifest {
  CheckpointInfo info;
  std::vector<WrittenFile> files;  ///< all but itself
};

std::string manifest_text(const Manifest& manifest);
/// What `manifest_text` wrote, else what is wrong with it, to go after the name of the file.
std::variant<Manifest, std::string> parse_manifest(std::string_view text);
/// From a checkpoint's folder.
std::variant<Manifest, std::string> load_manifest(Disk& disk, const std::string& path);

}  // namespace stagecraft
