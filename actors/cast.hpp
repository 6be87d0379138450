// Everyone who works for one job on this node: spawns them, wires them, and puts others in the place of those who are
// lost. For those who live on other nodes there are stand-ins.
//
// Who knocks: whoever starts a job, then the node actor alone; `all` and `add` may be called by any thread. What it
// never does: watch, or decide that somebody is lost.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "actors/cluster/gate.hpp"
#include "actors/doors.hpp"
#include "actors/job.hpp"
#include "actors/link.hpp"

namespace stagecraft {

struct Watched {
  caf::actor actor;
  std::string name;
  std::optional<Member> member;  ///< none: its death is a bug
};

/// Which node of several this is, and the gate to the others.
struct NodePart {
  std::uint32_t index = 0;
  GateActor gate;
};

class Cast {
 public:
  /// Without a `part` everyone lives here. `start`: what to continue; of several nodes only the first has it, and its
  /// coordinator sends it to the others.
  Cast(JobRef job, NodeActor node, std::optional<NodePart> part = {},
       std::shared_ptr<const LoadedCheckpoint> start = nullptr);

  void spawn_all();
  /// The first message of everyone's life. The job starts with it.
  void wire_all();
  /// Spawns another one, with no state yet, and tells everyone who talks to it. The old one is ended. A stage goes to a
  /// device that nobody has, as its own may be what failed; where there is none, to its own.
  /// Everyone who was spawned for that: of a stage that comes from another node also those who work for it alone.
  std::vector<Watched> replace(const Member& who);
  /// Nodes are gone: finds other homes for who lived there, and tells all nodes. Who they were, and on which node.
  std::vector<std::pair<Member, std::uint32_t>> keep(const std::vector<std::uint32_t>& left);
  void adopt(const Rehomed& x);
  const Rehomed& homes() const { return rehomed_; }
  /// Another node leads the job from now on.
  void follow(std::uint32_t leader) { homes_.lead(leader); }
  /// This node does: spawns and wires those of whom a job has one. `job`: as they see it.
  std::vector<Watched> take_over(JobRef job, const Succession& from);
  /// Where stages and twins live that have left their first homes.
  const std::map<Member, std::uint32_t>& moved() const { return homes_.moved(); }
  /// The node on which a member lives; none: this one.
  std::optional<NodeActor> node_of(const Member& who) const;
  const std::string& name_of(std::uint32_t node) const { return job_->topology.nodes[node].name; }
  /// The node that leads the job, or its stand-in.
  const NodeActor& leader() const {
    return part_ && part_->index != homes_.leader() ? nodes_.at(homes_.leader()) : node_;
  }

  caf::actor handle_of(const Member& who) const;
  /// Everyone so far, the replaced ones too.
  std::vector<Watched> all() const;

  const std::optional<NodePart>& part() const { return part_; }
  const MonitorActor& monitor() const { return monitor_; }
  const RecorderActor& recorder() const { return recorder_; }
  const CoordinatorActor& coordinator() const { return coordinator_; }
  const MigratorActor& migrator() const { return migrator_; }
  /// None in a world that works.
  const InjectorActor& injector() const { return injector_; }

 private:
  bool is_here(const ActorName& who) const { return !part_ || homes_.of(who) == part_->index; }
  template <class Actor, class Spawn>
  Actor add_or_stand_in(const ActorName& who, Spawn spawn, std::optional<Place> place = {},
                        std::optional<Member> member = {});
  void spawn_listeners();
  void spawn_leaders(const std::optional<Minutes>& taken_over = {});
  void wire_leaders() const;
  template <class Actor>
  Actor add(Actor actor, std::string name, std::optional<Place> place = {}, std::optional<Member> member = {});
  StageActor& stage_at(Place p) { return stages_[p.replica.value][p.stage.value]; }
  const StageActor& stage_at(Place p) const { return stages_[p.replica.value][p.stage.value]; }
  StageActor new_stage(Place p, Topology::Seat seat);
  Topology::Seat next_seat(Place p);
  ReducerActor new_reducer(Place p);
  LinkActor new_link(std::uint32_t boundary, ReplicaId replica, LinkSide side);
  void bring_helpers(Place p);
  TwinActor new_twin(Place p);
  StageWiring wiring_of_stage(Place p) const;
  TwinWiring wiring_of_twin(Place p) const;
  ReducerWiring wiring_of_reducer(Place p) const;
  std::map<std::pair<std::uint32_t, Direction>, std::vector<LinkActor>> senders() const;
  void wire_links() const;
  void wire_link(std::uint32_t boundary, ReplicaId replica, LinkSide side) const;
  void tell_of(const NewStage& x) const;
  void tell_of(const NewTwin& x) const;

  JobRef job_;
  NodeActor node_;
  std::optional<NodePart> part_;
  std::shared_ptr<const LoadedCheckpoint> start_;  // until everyone has it
  Homes homes_;
  Rehomed rehomed_;                           // the newest
  std::map<std::uint32_t, NodeActor> nodes_;  // the stand-ins of the others
  MonitorActor monitor_;
  RecorderActor recorder_;
  std::vector<std::vector<StageActor>> stages_;                                    // [replica][stage]
  std::vector<std::vector<ReducerActor>> reducers_;                                // [replica][stage]
  std::map<Place, TwinActor> twins_;                                               // none: the job keeps no twins
  std::map<std::pair<ReplicaId, std::uint32_t>, std::array<LinkActor, 2>> links_;  // per boundary: lower, upper end
  LoaderActor loader_;
  CheckpointerActor checkpointer_;  // none: the job keeps no checkpoints
  PlannerActor planner_;            // none: the plan stays
  MigratorActor migrator_;
  CoordinatorActor coordinator_;
  InjectorActor injector_;              // none: a world that works
  std::vector<Topology::Seat> spares_;  // devices that nobody has
  std::set<ActorName> hosted_;          // who lives here
  mutable std::mutex mutex_;
  std::vector<Watched> all_;
};

}  // namespace stagecraft
