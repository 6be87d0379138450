// A pipeline of one replica in a bare event loop: the stage and link machines that also run in the actors, with costs
// instead of devices. Used to check that a plan runs, to price it, and to find how many credits and bytes it needs.
// Pure; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "planning/cost.hpp"
#include "planning/generate.hpp"
#include "planning/stage_machine.hpp"
#include "planning/timeline.hpp"

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

/// Disorder for property tests: seeded durations and delays, and the order of events within one instant.
struct Disturbance {
  std::uint64_t seed = 0;
  Duration operator_extra{};  ///< each operator takes up to this much more
  Duration message_delay{};   ///< each message is late by up to this much, and may overtake
  bool eager = false;         ///< stages choose in the midst of an instant, its events in random order
};

struct SimulationInput {
  PipelineShape shape;
  std::vector<StagePlan> plans;          ///< per stage
  std::vector<OperatorTimes> times;      ///< per chunk
  std::vector<LinkCost> forward_links;   ///< per boundary (chunk c to c+1); empty: free
  std::vector<LinkCost> backward_links;  ///< per boundary (chunk c+1 to c); empty: free
  std::uint32_t credits = 1;             ///< per boundary and direction
  std::vector<ChunkBytes> bytes;         ///< per chunk; empty: nothing is charged
  std::vector<GradientBuffers> buffers;  ///< per micro-batch of the replica; with `bytes`
  Disturbance disturbance;
};

struct SimulationResult {
  bool hung = false;
  std::vector<std::string> blocked;  ///< if hung: what each unfinished stage waits for
  Duration makespan{};
  std::vector<TimedOperator> timeline;  ///< in order of start
  std::vector<StagePeaks> peaks;        ///< per stage
  std::vector<Bytes> peak_bytes;        ///< per stage, activations and tensors in slots
  std::uint32_t slots_used = 0;         ///< most tensors that ever sat in the slots of one direction of a boundary
  std::uint64_t events = 0;
};

SimulationResult simulate(const SimulationInput& input);

}  // namespace stagecraft
