// A checkpoint whose every byte has been compared with its manifest, ready to be read.
// Thread promise: any thread; every call blocks on the disk.
#pragma once

#include <string>
#include <variant>

#include "model/checkpoint/manifest.hpp"
#include "model/checkpoint/tensor_files.hpp"

namespace stagecraft {

struct OpenCheckpoint {
  Manifest manifest;
  TensorFiles model, optimizer;
};

/// What `verify_checkpoint` does, with what it found.
std::variant<OpenCheckpoint, std::string> open_checkpoint(Disk& disk, const std::string& path);

}  // namespace stagecraft
