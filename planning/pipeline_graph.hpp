// The precedence graph of a pipeline, memory arcs included, in flat 64-bit numbers, and the longest paths in it: what
// lower bound and search have in common. Pure functions on values; any thread.
//
// Micro-batches are equal, so the k-th F (B, W) that a chunk runs may be called that of micro-batch k. Then the caps of
// a stage with one chunk are arcs too: A on F - B is B(k-A) -> F(k), M on F - W is W(k-M) -> F(k), and P on B - W is
// W(k-P) -> B(k). Where a stage has several chunks, the arcs hold for each chunk alone, which is weaker, but never
// wrong.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "planning/feasible.hpp"

namespace stagecraft {

/// Operators of a chunk by kind: the index into arrays of three.
enum Phase : std::uint8_t { phase_f, phase_b, phase_w };
constexpr std::size_t phases = 3;

struct PipelineGraph {
  /// One direction of one boundary, in ns. A message waits until the one before it has left the server.
  struct Message {
    std::int64_t service = 0, latency = 0;
    std::int64_t crossing() const { return service + latency; }
  };
  /// Largest counts; the number of micro-batches means no limit.
  struct Caps {
    std::uint32_t activations = 0, pending = 0, held = 0;
    bool operator==(const Caps&) const = default;
  };

  std::uint32_t stages = 0, chunks = 0, micro_batches = 0;  ///< `chunks` of all stages together
  std::vector<std::array<std::int64_t, phases>> times;      ///< per chunk: F, B, W in ns
  std::vector<Message> forward, backward;                   ///< per boundary; those inside a stage are zero
  std::vector<std::uint32_t> stage_of;                      ///< per chunk
  std::vector<Caps> caps;                                   ///< per chunk: those of its stage

  std::size_t index(std::uint32_t chunk, std::uint32_t k) const { return std::size_t{chunk} * micro_batches + k; }
  /// No stage has a limit that could matter.
  bool unlimited() const;
};

/// The problem in numbers. With a fused backward B takes the time of both and W none. Caps that can't be respected
/// (`find_impossible_cap`) and times that add up to more than about 30 years are broken promises.
PipelineGraph graph_of(const PipelineProblem& problem, BackwardForm backward = BackwardForm::split);

/// The same without limits on memory.
PipelineGraph without_caps(PipelineGraph graph);

/// Per phase, then chunk x micro-batch: `PipelineGraph::index`.
using PathLengths = std::array<std::vector<std::int64_t>, phases>;

/// The earliest start of every operator: the longest path to it, and the work that its device must have done before.
PathLengths heads_of(const PipelineGraph& graph);
/// From the end of every operator to the end of all: the longest path, and the work left on its device.
PathLengths tails_of(const PipelineGraph& graph);

}  // namespace stagecraft
