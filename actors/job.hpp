// What all actors of a job share, fixed before the first is spawned: the world, the file, the plan. Read only; any
// thread.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "actors/messages.hpp"
#include "actors/world/world.hpp"
#include "model/batch.hpp"
#include "model/checkpoint/checkpoint.hpp"
#include "model/job_plan.hpp"

namespace stagecraft {

/// The micro-batches of a job, a pure function of seed and numbers. Called by the loader only.
using BatchSource = std::function<std::shared_ptr<const TokenBatch>(Iteration, MicroBatch)>;

/// Where and when a job keeps its state.
struct CheckpointPlan {
  std::string folder;  ///< of this job alone
  JobIdentity identity;
  std::uint32_t every = 0, keep = 3;  ///< as CheckpointSpec
};

/// Where a run stands before its first iteration.
struct StartPoint {
  std::uint32_t iteration = 0;  ///< the last one that is in the parameters
  std::uint64_t steps = 0, tokens = 0;
};

struct Job {
  World& world;
  Topology topology;
  JobPlan plan;
  NegativeControls controls;
  BatchSource batches;
  std::string corpus_sha256;
  std::string log_path, trace_path;  ///< empty: not kept
  std::optional<CheckpointPlan> checkpoint;
  StartPoint start;
  std::vector<Move> moves;  ///< of layers, that the run begins with the wish for

  std::uint32_t total_chunks() const { return topology.pipeline.stages * topology.pipeline.chunks; }
  StageId stage_of(ChunkId chunk) const { return topology.pipeline.shape().stage_of(chunk); }
  ChunkId last_chunk() const { return {total_chunks() - 1}; }
  const StagePlan& plan_of(Place place) const { return plan.replicas[place.replica.value].stages[place.stage.value]; }
  /// When something that was due happened: emulated devices in real time report due times, free of late timers.
  Instant event_time(Instant due) const { return topology.emulated() && !world.is_virtual() ? due : world.now(); }
  /// Every place, by replica, then stage.
  std::vector<Place> places() const {
    std::vector<Place> all;
    for (std::uint32_t r = 0; r < topology.pipeline.replicas; ++r)
      for (std::uint32_t s = 0; s < topology.pipeline.stages; ++s) all.push_back({{s}, {r}});
    return all;
  }
};
using JobRef = std::shared_ptr<const Job>;

}  // namespace stagecraft
