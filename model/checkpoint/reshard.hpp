// The same checkpoint in other files: each tensor file split into several with an index, or put together again.
//
// Who knocks: `stagecraft checkpoint reshard`. What it never does: throw, print, change the source, write over
// anything, or hold more than a piece of one tensor in memory. Thread promise: any thread; every call blocks on the
// disk.
#pragma once

#include <cstdint>
#include <string>
#include <variant>

#include "planning/units.hpp"
#include "transport/disk.hpp"

namespace stagecraft {

/// Into just so many files of about the same size, at most one for each tensor.
struct FileCount {
  std::uint32_t files = 1;
};
/// Into files with at most so many bytes of tensors; a tensor that is larger has a file of its own. Or into so many.
using Split = std::variant<FileCount, Bytes>;

struct Resharded {
  std::size_t model_files = 0, optimizer_files = 0;  ///< without indices
};

/// Verifies the checkpoint `from`, writes it as the folder `to`, which must not be there, and verifies that. All or
/// nothing; everything but the tensor files and the manifest's list of files is as it was.
std::variant<Resharded, std::string> reshard_checkpoint(Disk& disk, const std::string& from, const std::string& to,
                                                        const Split& split);

}  // namespace stagecraft
