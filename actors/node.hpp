// The node: watches the actors of a job on this process, replaces those that are lost when the coordinator says so, and
// gathers what the job leaves.
//
// Who knocks: the coordinator (iterations, replacements, the end), monitor and recorder (their last words), CAF (the
// death of an actor). What it answers: the outbox, which the thread that drives the world reads; losses, to the
// coordinator. What it never does: take part in an iteration.
#pragma once

#include <functional>
#include <mutex>

#include "actors/cast.hpp"

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
  /// Who was lost so far, and where others were built in their places.
  struct Losses {
    std::map<Member, std::uint32_t> replaced;    ///< how often
    std::map<Member, std::uint32_t> homes;       ///< who has left the node where it began, and for which
    std::map<std::uint32_t, std::string> nodes;  ///< that are gone: why
  };
  void put(const IterationReport& report);
  void put(const WishAnswer& answer);
  void put(const Replace& lost, const std::map<Member, std::uint32_t>& homes);
  void put(const NodeGone& gone);
  void put(Ended ended);
  /// All reports since the last call.
  std::vector<IterationReport> take_reports();
  /// All answers since the last call.
  std::vector<WishAnswer> take_answers();
  Losses losses() const;
  std::optional<Ended> take_end();

 private:
  std::function<void()> news_;
  mutable std::mutex mutex_;
  std::vector<IterationReport> reports_;
  std::vector<WishAnswer> answers_;
  Losses losses_;
  std::optional<Ended> end_;
};

/// A running job, for the owner of the world.
struct NodeHandles {
  NodeActor node;
  std::shared_ptr<Cast> cast;
};

/// Spawns all actors of a job that live on this node, and starts them. `outbox` outlives them. `part` and `start` as in
/// Cast.
NodeHandles spawn_node(const JobRef& job, std::shared_ptr<Outbox> outbox, std::optional<NodePart> part = {},
                       std::shared_ptr<const LoadedCheckpoint> start = nullptr);

}  // namespace stagecraft
