#include "actors/cast.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "actors/checkpointer.hpp"
#include "actors/coordinator.hpp"
#include "actors/faults/planted.hpp"
#include "actors/injector.hpp"
#include "actors/link.hpp"
#include "actors/loader.hpp"
#include "actors/migrator.hpp"
#include "actors/monitor.hpp"
#include "actors/planner.hpp"
#include "actors/recorder.hpp"
#include "actors/reducer.hpp"
#include "actors/stage.hpp"
#include "actors/twin.hpp"

namespace stagecraft {

template <class Actor>
Actor Cast::add(Actor actor, std::string name, std::optional<Place> place, std::optional<Member> member) {
  // Those who work for one stage are where it is; the others are on the first node.
  if (FaultBoard* faults = job_->world.faults())
    faults->place(actor->id(), place ? job_->topology.seat(*place).node : 0, place);
  const std::lock_guard guard(mutex_);
  all_.push_back({caf::actor_cast<caf::actor>(actor), std::move(name), member});
  return actor;
}

std::vector<Watched> Cast::all() const {
  const std::lock_guard guard(mutex_);
  return all_;
}

StageActor Cast::new_stage(Place p, Topology::Seat seat) {
  const Member who{Member::Role::stage, p};
  return add(spawn_stage(job_, p, job_->topology.nodes[seat.node].devices[seat.device]), to_text(who), p, who);
}

Topology::Seat Cast::next_seat(Place p) {
  const auto big_enough = std::find_if(spares_.begin(), spares_.end(), [&](Topology::Seat s) {
    return job_->topology.nodes[s.node].devices[s.device].memory >= job_->topology.device(p).memory;
  });
  if (big_enough == spares_.end()) return job_->topology.seat(p);
  const Topology::Seat seat = *big_enough;
  spares_.erase(big_enough);
  if (FaultBoard* faults = job_->world.faults()) faults->moved(p);
  tell_from_outside(recorder_, Event{.kind = EventKind::moved,
                                     .at = job_->world.now(),
                                     .place = p,
                                     .text = fmt::format("{} is built anew on device {} of node {}",
                                                         to_text(Member{Member::Role::stage, p}), seat.device,
                                                         job_->topology.nodes[seat.node].name)});
  return seat;
}

TwinActor Cast::new_twin(Place p) {
  const Member who{Member::Role::twin, p};
  return add(spawn_twin(job_, p), to_text(who), {}, who);
}

void Cast::spawn_all() {
  recorder_ = add(spawn_recorder(job_, node_), "the recorder");
  monitor_ = add(spawn_monitor(job_, node_), "the monitor");
  for (std::uint32_t r = 0; r < job_->topology.pipeline.replicas; ++r) {
    stages_.emplace_back();
    reducers_.emplace_back();
    for (std::uint32_t s = 0; s < job_->topology.pipeline.stages; ++s) {
      const Place p{{s}, {r}};
      stages_[r].push_back(new_stage(p, job_->topology.seat(p)));
      reducers_[r].push_back(
          add(spawn_reducer(job_, p), fmt::format("the reducer of stage {} of replica {}", s, r), p));
      if (job_->topology.recovery.twins) twins_[p] = new_twin(p);
    }
    for (std::uint32_t b = 0; b + 1 < job_->total_chunks(); ++b)
      for (const LinkSide side : {LinkSide::lower, LinkSide::upper})
        links_[{ReplicaId{r}, b}][static_cast<std::size_t>(side)] =
            add(spawn_link(job_, recorder_, b, ReplicaId{r}, side), fmt::format("a link end at boundary {}", b),
                Place{job_->stage_of({side == LinkSide::lower ? b : b + 1}), {r}});
  }
  std::vector<StageActor> stages;
  std::vector<TwinActor> twins;
  for (const Place p : job_->places()) {
    stages.push_back(stage_at(p));
    if (!twins_.empty()) twins.push_back(twins_.at(p));
  }
  loader_ = add(spawn_loader(job_, stages_), "the loader");
  if (job_->checkpoint) checkpointer_ = add(spawn_checkpointer(job_, recorder_), "the checkpointer");
  if (job_->plan.replans) planner_ = add(spawn_planner(job_, recorder_), "the planner");
  migrator_ = add(spawn_migrator(job_, recorder_), "the migrator");
  coordinator_ = add(spawn_coordinator(job_, {node_, recorder_, checkpointer_, planner_, migrator_, stages, twins}),
                     "the coordinator");
  if (checkpointer_) tell_from_outside(checkpointer_, CheckpointerWiring{coordinator_, stages});
  if (job_->world.faults()) injector_ = add(spawn_injector(job_, node_, recorder_), "the injector");
}

void Cast::wire_all(const std::shared_ptr<const LoadedCheckpoint>& start) {
  if (planner_) {
    tell_from_outside(monitor_, MonitorWiring{planner_});
    tell_from_outside(planner_, PlannerWiring{coordinator_, monitor_});
  }
  tell_from_outside(migrator_, MigratorWiring{coordinator_});
  wire_links();
  for (const Place p : job_->places()) {
    tell_from_outside(reducers_[p.replica.value][p.stage.value], wiring_of_reducer(p));
    if (!twins_.empty()) {
      TwinWiring twin = wiring_of_twin(p);
      twin.start = start;
      tell_from_outside(twins_.at(p), std::move(twin));
    }
  }
  for (const Place p : job_->places()) {
    StageWiring stage = wiring_of_stage(p);
    stage.start = start;
    tell_from_outside(stage_at(p), std::move(stage));
  }
}

void Cast::wire_links() const {
  for (const auto& [id, ends] : links_) {
    const auto& stages = stages_[id.first.value];
    tell_from_outside(ends[0], LinkWiring{stages[job_->stage_of({id.second}).value], ends[1]});
    tell_from_outside(ends[1], LinkWiring{stages[job_->stage_of({id.second + 1}).value], ends[0]});
  }
}

ReducerWiring Cast::wiring_of_reducer(Place p) const {
  const std::uint32_t head = job_->stage_of(job_->last_chunk()).value;
  ReducerWiring wiring;
  wiring.coordinator = coordinator_;
  wiring.stage = stage_at(p);
  for (const auto& replica : reducers_) wiring.replicas.push_back(replica[p.stage.value]);
  if (p.stage.value == 0) wiring.tie_partner = reducers_[p.replica.value][head];
  if (p.stage.value == head) wiring.tie_partner = reducers_[p.replica.value][0];
  if (!twins_.empty()) wiring.twin = twins_.at(p);
  return wiring;
}

TwinWiring Cast::wiring_of_twin(Place p) const { return {coordinator_, recorder_, stage_at(p), nullptr, false}; }

StageWiring Cast::wiring_of_stage(Place p) const {
  StageWiring wiring;
  wiring.coordinator = coordinator_;
  wiring.loader = loader_;
  wiring.reducer = reducers_[p.replica.value][p.stage.value];
  wiring.monitor = monitor_;
  wiring.recorder = recorder_;
  wiring.checkpointer = checkpointer_;
  if (!twins_.empty()) wiring.twin = twins_.at(p);
  for (const auto& replica : stages_) wiring.replicas.push_back(replica[p.stage.value]);
  for (const ChunkId chunk : job_->plan_of(p).chunks) {
    if (chunk.value > 0) wiring.before[chunk] = links_.at({p.replica, chunk.value - 1})[1];
    if (chunk != job_->last_chunk()) wiring.after[chunk] = links_.at({p.replica, chunk.value})[0];
  }
  return wiring;
}

caf::actor Cast::handle_of(const Member& who) const {
  if (who.role == Member::Role::stage) return caf::actor_cast<caf::actor>(stage_at(who.place));
  const auto it = twins_.find(who.place);
  return it == twins_.end() ? caf::actor{} : caf::actor_cast<caf::actor>(it->second);
}

Watched Cast::replace(const Member& who) {
  caf::anon_send_exit(handle_of(who), caf::exit_reason::kill);
  if (who.role == Member::Role::stage) {
    stage_at(who.place) = new_stage(who.place, next_seat(who.place));
    StageWiring wiring = wiring_of_stage(who.place);
    wiring.rebuilt = true;
    tell_from_outside(stage_at(who.place), std::move(wiring));
    tell_of(NewStage{who.place, stage_at(who.place)});
  } else {
    twins_[who.place] = new_twin(who.place);
    TwinWiring wiring = wiring_of_twin(who.place);
    wiring.rebuilt = true;
    tell_from_outside(twins_.at(who.place), std::move(wiring));
    tell_of(NewTwin{who.place, twins_.at(who.place)});
  }
  return all().back();
}

void Cast::tell_of(const NewStage& x) const {
  tell_from_outside(loader_, x);
  tell_from_outside(reducers_[x.place.replica.value][x.place.stage.value], x);
  if (checkpointer_) tell_from_outside(checkpointer_, x);
  if (!twins_.empty()) tell_from_outside(twins_.at(x.place), x);
  for (const auto& replica : stages_) tell_from_outside(replica[x.place.stage.value], x);
  for (const auto& [id, ends] : links_)
    if (id.first == x.place.replica && !planted(PlantedBug::node_forgets_links))
      for (const LinkActor& end : ends) tell_from_outside(end, x);
  tell_from_outside(coordinator_, x);
}

void Cast::tell_of(const NewTwin& x) const {
  tell_from_outside(reducers_[x.place.replica.value][x.place.stage.value], x);
  tell_from_outside(stage_at(x.place), x);
  tell_from_outside(coordinator_, x);
}

}  // namespace stagecraft
