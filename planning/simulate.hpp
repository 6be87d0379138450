// A pipeline of one replica in a bare event loop: the stage and link machines that also run in the actors, with costs
// instead of devices. Used to check that a plan runs, to price it, and to find how many credits and bytes it needs.
// Pure; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "planning/memory_ledger.hpp"
#include "planning/problem.hpp"
#include "planning/stage_machine.hpp"
#include "planning/timeline.hpp"

namespace stagecraft {

/// Disorder for property tests: seeded durations and delays, and the order of events within one instant.
struct Disturbance {
  std::uint64_t seed = 0;
  Duration operator_extra{};  ///< each operator takes up to this much more
  Duration message_delay{};   ///< each message is late by up to this much, and may overtake
  bool eager = false;         ///< stages choose in the midst of an instant, its events in random order
};

/// What a boundary takes in addition from some moment of the iteration on, in both directions, until the next step. A
/// message takes what is in force when it is handed over; one that is handed over later may arrive earlier.
struct LinkStep {
  Instant from{};
  Duration latency{}, occupancy{};
};

struct SimulationInput {
  PipelineShape shape;
  std::vector<StagePlan> plans;              ///< per stage
  std::vector<OperatorTimes> times;          ///< per chunk
  std::vector<LinkCost> forward_links;       ///< per boundary (chunk c to c+1); empty: free
  std::vector<LinkCost> backward_links;      ///< per boundary (chunk c+1 to c); empty: free
  std::vector<std::vector<LinkStep>> steps;  ///< per boundary, in order of time, on top of its cost; empty: none
  std::vector<Bytes> boundary;               ///< of the tensor that crosses each boundary; empty: as `bytes` say
  std::uint32_t credits = 1;                 ///< per boundary and direction
  std::vector<ChunkBytes> bytes;             ///< per chunk; empty: nothing is charged
  std::vector<GradientBuffers> buffers;      ///< per micro-batch of the replica; with `bytes`
  Disturbance disturbance;
};

struct SimulationResult {
  bool hung = false;
  std::vector<std::string> blocked;            ///< if hung: what each unfinished stage waits for
  std::vector<std::optional<Operator>> stuck;  ///< if hung: the operator that is due next, per stage
  Duration makespan{};
  std::vector<TimedOperator> timeline;  ///< in order of start
  std::vector<StagePeaks> peaks;        ///< per stage
  std::vector<Bytes> peak_bytes;        ///< per stage, activations and tensors in slots
  std::uint32_t slots_used = 0;         ///< most tensors that ever sat in the slots of one direction of a boundary
  std::uint64_t events = 0;
};

SimulationResult simulate(const SimulationInput& input);

}  // namespace stagecraft
