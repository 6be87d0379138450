// All who work for one job in this process: of one node or of several, and their end.
//
// Who knocks: run_job, run_member and tests, on the thread that owns the world.
#pragma once

#include <memory>
#include <vector>

#include "actors/node.hpp"

namespace stagecraft {

struct Company {
  std::vector<NodeHandles> nodes;  ///< in the order of the file
  std::vector<GateActor> gates;    ///< those that end with it
  std::vector<std::shared_ptr<Outbox>> outboxes;
  std::vector<std::shared_ptr<GateNews>> news;  ///< of the gates
  std::size_t leader = 0;                       ///< index in `nodes`

  const Cast& cast() const { return *nodes[leader].cast; }
  Outbox& outbox() const { return *outboxes[leader]; }
};

/// Everyone in one cast.
Company spawn_together(const JobRef& job, const std::shared_ptr<Outbox>& outbox,
                       std::shared_ptr<const LoadedCheckpoint> start);
/// Each node of the file with a cast and a gate of its own, as if it were a process: what passes between two of them
/// takes its wire form.
Company spawn_apart(const JobRef& job, const std::shared_ptr<Outbox>& outbox,
                    std::shared_ptr<const LoadedCheckpoint> start);

/// Every actor gets an exit, the nodes first, so that nobody is missed by them. True when no more than `left` are left
/// within `patience`.
bool end_all(World& world, const Company& company, std::size_t left, Duration patience);

}  // namespace stagecraft
