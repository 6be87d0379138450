// The node: spawns and wires the actors of a job on this process, watches them, gathers what the job leaves, and ends
// them all.
//
// Who knocks: the coordinator (iterations, the end), monitor and recorder (their last words), CAF (the death of an
// actor). What it answers: the outbox, which the thread that drives the world reads. What it never does: take part in
// an iteration.
#pragma once

#include <functional>
#include <mutex>

#include "actors/job.hpp"
#include "actors/messages.hpp"

namespace stagecraft {

/// What the node tells the thread that drives the world. Any thread. `news` is called after each put.
class Outbox {
 public:
  explicit Outbox(std::function<void()> news = [] {}) : news_(std::move(news)) {}
  struct Ended {
    JobEnded job;
    std::vector<StageProfile> profile;
    LogClosed log;
  };
  void put(const IterationReport& report);
  void put(Ended ended);
  /// All reports since the last call.
  std::vector<IterationReport> take_reports();
  std::optional<Ended> take_end();

 private:
  std::function<void()> news_;
  std::mutex mutex_;
  std::vector<IterationReport> reports_;
  std::optional<Ended> end_;
};

/// The handles of a running job, for the owner of the world.
struct NodeHandles {
  NodeActor node;
  CoordinatorActor coordinator;
  RecorderActor recorder;
  std::vector<caf::actor> all;  ///< everything to end, the node first
};

/// Spawns all actors of a job and starts it, from `start` where there is one. `outbox` outlives them.
NodeHandles spawn_node(JobRef job, std::shared_ptr<Outbox> outbox,
                       std::shared_ptr<const LoadedCheckpoint> start = nullptr);

}  // namespace stagecraft
