// The model as one GGUF file (version 3, F32) for llama.cpp and its kin: header, keys, tensors, all little-endian.
//
// For the architecture `llama` the rows of q and k stand in the interleaved rotary order (dimension 2 i pairs with
// 2 i + 1); ours, as Hugging Face's, stand in halves (i pairs with i + head size / 2).
//
// Who knocks: `stagecraft checkpoint export --gguf`. What it never does: throw at bad input, print, write over
// anything, or hold more than one tensor in memory. Thread promise: any thread; the export blocks on the disk.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "config/topology.hpp"
#include "model/checkpoint/checkpoint.hpp"
#include "transport/disk.hpp"

namespace stagecraft {

/// Tensor data begin at multiples of this many bytes, within the data and within the file.
inline constexpr std::size_t gguf_alignment = 32;

struct GgufTensor {
  std::string name, source;        ///< here, and in the checkpoint
  std::vector<std::size_t> shape;  ///< row-major, as in the checkpoint; the file lists it the other way round
  std::size_t head_size = 0;       ///< above 0: the rows of each head go into the interleaved order
  std::uint64_t offset = 0;        ///< bytes from the start of the data

  std::size_t elements() const;
};

/// All tensors of a model, in file order. A tied model has no `output.weight`: readers take the embedding.
std::vector<GgufTensor> gguf_tensors(const ModelSpec& model);

/// Where row `row` of a head in halves stands in the interleaved order: 0, h, 1, h + 1, ... become 0, 1, 2, 3, ... with
/// h = head_size / 2. row < head_size, which is even.
std::size_t interleaved_row(std::size_t row, std::size_t head_size);

/// Everything before the data: magic, keys and tensor list, padded to the alignment. The rotary base and the epsilon
/// are rounded to fp32, which is all the format has room for.
std::string gguf_header(const ModelSpec& model, const std::string& name, const std::vector<GgufTensor>& tensors);

/// Verifies the checkpoint, then writes `file`, which must not be there yet. All or nothing.
CheckpointStatus export_gguf(Disk& disk, const std::string& checkpoint, const std::string& file);

}  // namespace stagecraft
