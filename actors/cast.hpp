// Everyone who works for one job on this node: spawns them, wires them, and puts others in the place of those who are
// lost.
//
// Who knocks: whoever starts a job, then the node actor alone; `all` and `add` may be called by any thread. What it
// never does: watch, or decide that somebody is lost.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "actors/doors.hpp"
#include "actors/job.hpp"

namespace stagecraft {

struct Watched {
  caf::actor actor;
  std::string name;
  std::optional<Member> member;  ///< none: its death is a bug
};

class Cast {
 public:
  Cast(JobRef job, NodeActor node) : job_(std::move(job)), node_(std::move(node)), spares_(job_->topology.spares()) {}

  void spawn_all();
  /// The first message of everyone's life. The job starts with it, from `start` where there is one.
  void wire_all(const std::shared_ptr<const LoadedCheckpoint>& start);
  /// Spawns another one, with no state yet, and tells everyone who talks to it. The old one is ended. A stage goes to a
  /// device that nobody has, as its own may be what failed; where there is none, to its own.
  Watched replace(const Member& who);

  caf::actor handle_of(const Member& who) const;
  /// Everyone so far, the replaced ones too.
  std::vector<Watched> all() const;

  const MonitorActor& monitor() const { return monitor_; }
  const RecorderActor& recorder() const { return recorder_; }
  const CoordinatorActor& coordinator() const { return coordinator_; }
  const MigratorActor& migrator() const { return migrator_; }

 private:
  template <class Actor>
  Actor add(Actor actor, std::string name, std::optional<Place> place = {}, std::optional<Member> member = {});
  StageActor& stage_at(Place p) { return stages_[p.replica.value][p.stage.value]; }
  const StageActor& stage_at(Place p) const { return stages_[p.replica.value][p.stage.value]; }
  StageActor new_stage(Place p, Topology::Seat seat);
  Topology::Seat next_seat(Place p);
  TwinActor new_twin(Place p);
  StageWiring wiring_of_stage(Place p) const;
  TwinWiring wiring_of_twin(Place p) const;
  ReducerWiring wiring_of_reducer(Place p) const;
  void wire_links() const;
  void tell_of(const NewStage& x) const;
  void tell_of(const NewTwin& x) const;

  JobRef job_;
  NodeActor node_;
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
  mutable std::mutex mutex_;
  std::vector<Watched> all_;
};

}  // namespace stagecraft
