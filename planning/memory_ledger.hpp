// The bytes that the stages of a simulated pipeline hold, as its events go by. One owner; not thread-safe.
#pragma once

#include <cstdint>
#include <vector>

#include "planning/operator.hpp"
#include "planning/shape.hpp"
#include "planning/units.hpp"

namespace stagecraft {

/// Bytes of one micro-batch in one chunk.
struct ChunkBytes {
  Bytes activation;         ///< kept from F to B, without the input
  Bytes weight_activation;  ///< kept from B to W
  Bytes input;              ///< the tensor that F receives and keeps until B (none in chunk 0)
  Bytes output;             ///< the tensor that F returns (none in the last chunk)
  Bytes forward_scratch, backward_scratch, weight_scratch;  ///< allocated and freed again inside the operator
  Bytes gradient;                                           ///< one buffer for the gradient of all its parameters
};

/// How many gradient buffers of a chunk are alive while W of a micro-batch runs, and after it has merged what it can.
struct GradientBuffers {
  std::uint32_t during = 0, after = 0;
};

/// A tensor is charged to its sender until it arrives, then to its receiver; the output of a forward leaves with it.
class MemoryLedger {
 public:
  /// `bytes` per chunk, `buffers` per micro-batch (or empty); both outlive the ledger.
  MemoryLedger(const PipelineShape& shape, const std::vector<ChunkBytes>& bytes,
               const std::vector<GradientBuffers>& buffers);

  void arrived(ChunkId to, Direction direction);
  void started(const Operator& op);
  void finished(const Operator& op);
  /// The tensor that crosses to chunk `to`.
  Bytes crossing(Direction direction, ChunkId to) const {
    return direction == Direction::forward ? bytes_[to.value].input : bytes_[to.value].output;
  }
  /// Per stage.
  const std::vector<Bytes>& peaks() const { return peaks_; }

 private:
  std::uint64_t& used(ChunkId chunk) { return used_[shape_.stage_of(chunk).value]; }
  void charge(ChunkId chunk, Bytes bytes) { note(chunk, used(chunk) += bytes.value); }
  void note(ChunkId chunk, std::uint64_t bytes);
  std::uint64_t more_buffers(const Operator& op) const;
  void set_buffers(const Operator& op, std::uint32_t GradientBuffers::*count);

  const PipelineShape& shape_;
  const std::vector<ChunkBytes>& bytes_;
  const std::vector<GradientBuffers>& buffers_;
  std::vector<std::uint64_t> used_;       // per stage
  std::vector<std::uint32_t> gradients_;  // buffers alive, per chunk
  std::vector<Bytes> peaks_;
};

}  // namespace stagecraft
