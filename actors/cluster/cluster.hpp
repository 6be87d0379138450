// A job's processes from the point of view of one of them: comes together with the others, hears of their ends, tells
// them of the job's.
//
// Who knocks: whoever runs a node (run_job, run_member), on the thread that owns the world. What it owns: the gate.
// Every wait ends by `timeouts.stage` at the latest, and says who is missing.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "actors/cluster/gate.hpp"
#include "actors/cluster/network.hpp"
#include "actors/node.hpp"
#include "actors/runtime.hpp"

namespace stagecraft {

class Cluster {
 public:
  /// Opens the gate of node `index` of the file where that says. Throws CannotStart: the address can't be had.
  Cluster(World& world, const Topology& topology, std::uint32_t index);
  ~Cluster();
  Cluster(const Cluster&) = delete;
  Cluster& operator=(const Cluster&) = delete;

  /// Where this node listens.
  const NetworkAddress& address() const { return address_; }
  NodePart part() const { return {index_, gate_}; }
  std::uint32_t index() const { return index_; }

  /// The first node: returns once every other one is there and reaches all. Throws CannotStart.
  void gather(const RunOptions::StartUp& patience);
  /// The first node: all others spawn their parts.
  void begin(BeginJob job);
  /// Any other: comes to the first node, at `leader`, and waits for its begin. Throws CannotStart.
  BeginJob join(const NetworkAddress& leader, const RunOptions::StartUp& patience);

  /// How the job ended, once the node that leads it has said so, or why this node's part of it is over.
  std::optional<FinishJob> finished();
  /// Once: this node is to lead the job from now on.
  std::optional<Succession> succession();
  /// Which node leads the job.
  std::uint32_t leader() const { return leader_; }
  /// Nodes that are gone and have not been told of, in words.
  std::vector<std::string> newly_lost();
  /// The first node: all others end. Waits a little for them to go.
  void finish(const FinishJob& end);

 private:
  GateNews::Board look();
  void watch_the_door();
  void reach_others(const GateNews::Board& board);
  std::string unreached() const;
  std::string no_answer(const NetworkAddress& leader, const std::set<std::string>& failures) const;
  [[noreturn]] void give_up(const std::string& why) const;

  World& world_;
  const Topology& topology_;
  std::uint32_t index_;
  std::shared_ptr<GateNews> news_;
  GateActor gate_;
  NetworkAddress address_;
  std::optional<Succession> succession_;  // heard of, and not taken
  std::uint32_t leader_ = 0;
  Instant look_again_{};           // at who connected
  std::optional<Instant> closed_;  // since when nobody is let in
  std::set<std::uint32_t> told_;   // lost nodes
  struct Attempt {
    NetworkAddress at;
    std::optional<Knock> knock;
    Instant again{};  // not before
  };
  /// True once there is a door; another attempt is made after a failure. `failed` hears why.
  bool reach(std::uint32_t node, Attempt& attempt, const std::function<void(const std::string&)>& failed);
  std::map<std::uint32_t, Attempt> to_reach_;  // gates
};

/// What this node says of itself to the first one.
Hello hello_of(World& world, const Topology& topology, std::uint32_t index, const std::string& address);

}  // namespace stagecraft
