// Named tensors in a folder, whether in one safetensors file or split over several with an index, as Hugging Face does:
//
//   model.safetensors                          or
//   model-00001-of-00003.safetensors ..., and model.safetensors.index.json, which tells what is where
//
// Who knocks: the checkpoint reader, the exports. What it never does: throw, print, or read data unasked.
// Thread promise: any thread; every call blocks on the disk.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "model/checkpoint/safetensors.hpp"
#include "transport/disk.hpp"

namespace stagecraft {

/// "model.safetensors.index.json"
std::string index_file_of(const std::string& stem);
/// "model-00001-of-00003.safetensors", `number` from 1; "model.safetensors" when it is the only one.
std::string tensor_file_of(const std::string& stem, std::size_t number, std::size_t of);

class TensorFiles {
 public:
  struct Tensor {
    std::string file;  ///< without the folder
    TensorEntry entry;
  };

  /// Reads the headers of `<folder>/<stem>.safetensors`, or of all files of its index: what is there, or what is wrong.
  /// An index that disagrees with its files is an error.
  static std::variant<TensorFiles, std::string> open(Disk& disk, const std::string& folder, const std::string& stem);

  const std::map<std::string, Tensor>& tensors() const { return tensors_; }
  /// The files that it takes, index included, without the folder; sorted.
  const std::vector<std::string>& files() const { return files_; }
  std::uint64_t bytes() const;  ///< of all tensors

  /// The names in the order in which they are stored, files one after the other.
  std::vector<std::string> stored_order() const;

  /// Fills `values` with a tensor of dtype F32 and just as many elements; else an error that names it.
  std::optional<std::string> read(Disk& disk, const std::string& name, std::span<float> values) const;
  /// Gives a tensor's bytes piece by piece to `take`, and stops at the first error, its own or that of `take`.
  std::optional<std::string> stream(Disk& disk, const std::string& name,
                                    const std::function<std::optional<std::string>(std::string_view)>& take) const;

 private:
  std::optional<std::string> add_file(Disk& disk, const std::string& file);
  std::optional<std::string> add_index(Disk& disk, const std::string& index);

  std::string folder_;
  std::vector<std::string> files_;
  std::map<std::string, Tensor> tensors_;
};

/// Reads a file piece by piece: what differs from what is expected of it, sizes first. `path` is with the folder.
std::optional<std::string> check_file(Disk& disk, const std::string& path, const WrittenFile& expected);

}  // namespace stagecraft
