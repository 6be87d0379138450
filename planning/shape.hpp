// The shape of one replica's pipeline: how many stages, chunks and micro-batches, and where each chunk lives. Values
// only; any thread.
#pragma once

#include <cstdint>

#include "planning/ids.hpp"

namespace stagecraft {

/// Which stage hosts which chunk. `loop`: chunk c on stage c mod stages. `v`: the first pass over the stages goes down,
/// the next up, and so on, so that with two chunks the model starts and ends on stage 0 and turns on the last.
enum class Placement : std::uint8_t { loop, v };

/// The pipeline of one replica.
struct PipelineShape {
  std::uint32_t stages = 1;
  std::uint32_t chunks = 1;  ///< per stage
  MicroBatch first;          ///< of this replica
  std::uint32_t micro_batches = 1;
  Placement placement = Placement::loop;

  std::uint32_t total_chunks() const { return stages * chunks; }
  StageId stage_of(ChunkId chunk) const {
    const std::uint32_t pass = chunk.value / stages, place = chunk.value % stages;
    return {placement == Placement::v && pass % 2 == 1 ? stages - 1 - place : place};
  }
  /// The chunk that a stage hosts as its `local`-th, 0 .. chunks-1, in model order.
  ChunkId chunk_of(StageId stage, std::uint32_t local) const {
    const bool up = placement == Placement::v && local % 2 == 1;
    return {local * stages + (up ? stages - 1 - stage.value : stage.value)};
  }
  /// The boundary between chunk `boundary` and the next lies inside one stage.
  bool is_inside(std::uint32_t boundary) const { return stage_of({boundary}) == stage_of({boundary + 1}); }
  bool operator==(const PipelineShape&) const = default;
};

}  // namespace stagecraft
