#include "actors/cast.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "actors/checkpointer.hpp"
#include "actors/cluster/stand_in.hpp"
#include "actors/coordinator.hpp"
#include "actors/faults/planted.hpp"
#include "actors/injector.hpp"
#include "actors/loader.hpp"
#include "actors/migrator.hpp"
#include "actors/monitor.hpp"
#include "actors/planner.hpp"
#include "actors/recorder.hpp"
#include "actors/reducer.hpp"
#include "actors/routes.hpp"
#include "actors/stage.hpp"
#include "actors/twin.hpp"

namespace stagecraft {

template <class Actor>
Actor Cast::add(Actor actor, std::string name, std::optional<Place> place, std::optional<Member> member) {
  // Those who work for one stage are where it is; the others are on the first node.
  if (FaultBoard* faults = job_->world.faults()) faults->place(actor->id(), place);
  const std::lock_guard guard(mutex_);
  all_.push_back({caf::actor_cast<caf::actor>(actor), std::move(name), member});
  return actor;
}

std::vector<Watched> Cast::all() const {
  const std::lock_guard guard(mutex_);
  return all_;
}

Cast::Cast(JobRef job, NodeActor node, std::optional<NodePart> part, std::shared_ptr<const LoadedCheckpoint> start)
    : job_(std::move(job)),
      node_(std::move(node)),
      part_(std::move(part)),
      start_(std::move(start)),
      homes_(job_->topology),
      spares_(job_->topology.spares()) {}

StageActor Cast::new_stage(Place p, Topology::Seat seat) {
  return add_or_stand_in<StageActor>(
      ActorName::at(ActorName::Role::stage, p),
      [&] { return spawn_stage(job_, p, job_->topology.nodes[seat.node].devices[seat.device]); }, p,
      Member{Member::Role::stage, p});
}

Topology::Seat Cast::next_seat(Place p) {
  const Topology::Seat own = job_->topology.seat(p);
  const auto big_enough = std::find_if(spares_.begin(), spares_.end(), [&](Topology::Seat s) {
    if (part_ && s.node != part_->index) return false;
    return job_->topology.nodes[s.node].devices[s.device].memory >= job_->topology.device(p).memory;
  });
  Topology::Seat seat = own;
  if (big_enough != spares_.end()) {
    seat = *big_enough;
    spares_.erase(big_enough);
    if (FaultBoard* faults = job_->world.faults()) faults->moved(p, seat.node);
  } else if (part_ && own.node != part_->index) {
    seat = {part_->index, 0};  // from another node, and shared
  } else {
    return own;
  }
  tell_from_outside(recorder_, Event{.kind = EventKind::moved,
                                     .at = job_->world.now(),
                                     .place = p,
                                     .text = fmt::format("{} is built anew on device {} of node {}",
                                                         to_text(Member{Member::Role::stage, p}), seat.device,
                                                         job_->topology.nodes[seat.node].name)});
  return seat;
}

TwinActor Cast::new_twin(Place p) {
  return add_or_stand_in<TwinActor>(
      ActorName::at(ActorName::Role::twin, p), [&] { return spawn_twin(job_, p); }, {}, Member{Member::Role::twin, p});
}

// Someone of this name who lives here, or a stand-in.
template <class Actor, class Spawn>
Actor Cast::add_or_stand_in(const ActorName& who, Spawn spawn, std::optional<Place> place,
                            std::optional<Member> member) {
  if (!is_here(who))
    return add(spawn_stand_in<Actor>(job_->world.system(), part_->gate, who), "the stand-in of " + to_text(who));
  Actor actor = add(spawn(), to_text(who), place, member);
  hosted_.insert(who);
  if (part_) tell_from_outside(part_->gate, Hosted{who, doorway_of(actor)});
  return actor;
}

ReducerActor Cast::new_reducer(Place p) {
  return add_or_stand_in<ReducerActor>(
      ActorName::at(ActorName::Role::reducer, p), [&] { return spawn_reducer(job_, p); }, p);
}

namespace {

ActorName name_of_end(std::uint32_t boundary, ReplicaId replica, LinkSide side) {
  using Role = ActorName::Role;
  return ActorName::end(side == LinkSide::lower ? Role::lower_end : Role::upper_end, boundary, replica);
}

}  // namespace

LinkActor Cast::new_link(std::uint32_t boundary, ReplicaId replica, LinkSide side) {
  const Place place{job_->stage_of({side == LinkSide::lower ? boundary : boundary + 1}), replica};
  return add_or_stand_in<LinkActor>(
      name_of_end(boundary, replica, side), [&] { return spawn_link(job_, recorder_, boundary, replica, side); },
      place);
}

void Cast::spawn_all() {
  if (part_) {
    tell_from_outside(part_->gate, Served{node_});
    tell_from_outside(part_->gate, Hosted{ActorName::node(part_->index), doorway_of(node_)});
  }
  for (std::uint32_t n = 0; part_ && n < job_->topology.nodes.size(); ++n)
    if (n != part_->index) nodes_[n] = add_or_stand_in<NodeActor>(ActorName::node(n), [this] { return node_; });
  spawn_listeners();
  for (std::uint32_t r = 0; r < job_->topology.pipeline.replicas; ++r) {
    stages_.emplace_back();
    reducers_.emplace_back();
    for (std::uint32_t s = 0; s < job_->topology.pipeline.stages; ++s) {
      const Place p{{s}, {r}};
      stages_[r].push_back(new_stage(p, job_->topology.seat(p)));
      reducers_[r].push_back(new_reducer(p));
      if (job_->topology.recovery.twins) twins_[p] = new_twin(p);
    }
    for (std::uint32_t b = 0; b + 1 < job_->total_chunks(); ++b)
      for (const LinkSide side : {LinkSide::lower, LinkSide::upper})
        links_[{ReplicaId{r}, b}][static_cast<std::size_t>(side)] = new_link(b, ReplicaId{r}, side);
  }
  spawn_leaders();
}

void Cast::spawn_listeners() {
  using Role = ActorName::Role;
  recorder_ =
      add_or_stand_in<RecorderActor>(ActorName::of(Role::recorder), [&] { return spawn_recorder(job_, node_); });
  monitor_ = add_or_stand_in<MonitorActor>(ActorName::of(Role::monitor),
                                           [&] { return spawn_monitor(job_, node_, recorder_); });
}

// Those of whom a job has one, on the node that leads it.
void Cast::spawn_leaders(const std::optional<Minutes>& taken_over) {
  using Role = ActorName::Role;
  std::vector<StageActor> stages;
  std::vector<TwinActor> twins;
  for (const Place p : job_->places()) {
    stages.push_back(stage_at(p));
    if (!twins_.empty()) twins.push_back(twins_.at(p));
  }
  loader_ = add_or_stand_in<LoaderActor>(ActorName::of(Role::loader), [&] { return spawn_loader(job_, stages_); });
  if (job_->checkpoint)
    checkpointer_ = add_or_stand_in<CheckpointerActor>(ActorName::of(Role::checkpointer),
                                                       [&] { return spawn_checkpointer(job_, recorder_); });
  const ActorName coordinator = ActorName::of(Role::coordinator);
  if (job_->plan.replans && is_here(coordinator)) planner_ = add(spawn_planner(job_, recorder_), "the planner");
  if (is_here(coordinator))
    migrator_ = add(spawn_migrator(job_, recorder_, taken_over ? taken_over->newest_move : MoveId{}), "the migrator");
  coordinator_ = add_or_stand_in<CoordinatorActor>(coordinator, [&] {
    const auto hands_out = part_ ? std::exchange(start_, nullptr) : nullptr;
    return spawn_coordinator(job_, {node_, recorder_, checkpointer_, planner_, migrator_, stages, twins, hands_out,
                                    part_ ? part_->gate : GateActor{}, monitor_, taken_over});
  });
  if (checkpointer_ && is_here(coordinator)) tell_from_outside(checkpointer_, CheckpointerWiring{coordinator_, stages});
  if (job_->world.faults() && !taken_over) injector_ = add(spawn_injector(job_, node_, recorder_), "the injector");
}

void Cast::wire_all() {
  using Role = ActorName::Role;
  const std::shared_ptr<const LoadedCheckpoint> start = std::exchange(start_, nullptr);
  wire_leaders();
  wire_links();
  for (const Place p : job_->places()) {
    if (is_here(ActorName::at(Role::reducer, p)))
      tell_from_outside(reducers_[p.replica.value][p.stage.value], wiring_of_reducer(p));
    if (!twins_.empty() && is_here(ActorName::at(Role::twin, p))) {
      TwinWiring twin = wiring_of_twin(p);
      twin.start = start;
      tell_from_outside(twins_.at(p), std::move(twin));
    }
  }
  for (const Place p : job_->places()) {
    if (!is_here(ActorName::at(Role::stage, p))) continue;
    StageWiring stage = wiring_of_stage(p);
    stage.start = start;
    tell_from_outside(stage_at(p), std::move(stage));
  }
}

void Cast::wire_leaders() const {
  if (is_here(ActorName::of(ActorName::Role::monitor))) tell_from_outside(monitor_, MonitorWiring{planner_, senders()});
  if (planner_) tell_from_outside(planner_, PlannerWiring{coordinator_, monitor_});
  if (migrator_) tell_from_outside(migrator_, MigratorWiring{coordinator_, node_});
}

std::map<std::pair<std::uint32_t, Direction>, std::vector<LinkActor>> Cast::senders() const {
  std::map<std::pair<std::uint32_t, Direction>, std::vector<LinkActor>> senders;
  for (const auto& [id, ends] : links_)
    for (const Direction direction : {Direction::forward, Direction::backward})
      if (may_change_route(*job_, id.second, direction))
        senders[{id.second, direction}].push_back(ends[direction == Direction::forward ? 0 : 1]);
  return senders;
}

std::vector<Watched> Cast::take_over(JobRef job, const Succession& from) {
  const std::size_t before = all().size();
  job_ = std::move(job);
  homes_.lead(part_->index);
  adopt(from.homes);
  spawn_listeners();
  spawn_leaders(from.newest);
  wire_leaders();
  const std::vector<Watched> everyone = all();
  return {everyone.begin() + static_cast<std::ptrdiff_t>(before), everyone.end()};
}

void Cast::wire_links() const {
  for (const auto& [id, ends] : links_)
    for (const LinkSide side : {LinkSide::lower, LinkSide::upper})
      if (is_here(name_of_end(id.second, id.first, side))) wire_link(id.second, id.first, side);
}

void Cast::wire_link(std::uint32_t boundary, ReplicaId replica, LinkSide side) const {
  const auto& ends = links_.at({replica, boundary});
  const auto own = static_cast<std::size_t>(side);
  const StageId stage = job_->stage_of({side == LinkSide::lower ? boundary : boundary + 1});
  tell_from_outside(ends[own], LinkWiring{stages_[replica.value][stage.value], ends[1 - own], monitor_});
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

TwinWiring Cast::wiring_of_twin(Place p) const {
  TwinWiring wiring{coordinator_, recorder_, stage_at(p), {}, nullptr, false};
  for (std::uint32_t s = 0; s < job_->topology.pipeline.stages; ++s)
    wiring.fellows.push_back(twins_.at({{s}, p.replica}));
  return wiring;
}

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

std::optional<NodeActor> Cast::node_of(const Member& who) const {
  if (!part_ || homes_.of(who) == part_->index) return std::nullopt;
  return nodes_.at(homes_.of(who));
}

std::vector<std::pair<Member, std::uint32_t>> Cast::keep(const std::vector<std::uint32_t>& left) {
  auto lost = homes_.keep(left);
  rehomed_ = {rehomed_.version + 1, homes_.moved()};
  tell_from_outside(part_->gate, rehomed_);
  return lost;
}

void Cast::adopt(const Rehomed& x) {
  if (x.version <= rehomed_.version) return;
  rehomed_ = x;
  homes_.adopt(x.homes);
}

caf::actor Cast::handle_of(const Member& who) const {
  if (who.role == Member::Role::stage) return caf::actor_cast<caf::actor>(stage_at(who.place));
  const auto it = twins_.find(who.place);
  return it == twins_.end() ? caf::actor{} : caf::actor_cast<caf::actor>(it->second);
}

std::vector<Watched> Cast::replace(const Member& who) {
  const std::size_t before = all().size();
  caf::anon_send_exit(handle_of(who), caf::exit_reason::kill);
  if (who.role == Member::Role::stage) {
    stage_at(who.place) = new_stage(who.place, next_seat(who.place));
    bring_helpers(who.place);
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
  const std::vector<Watched> everyone = all();
  return {everyone.begin() + static_cast<std::ptrdiff_t>(before), everyone.end()};
}

// A stage that comes from another node comes without those who worked for it there.
void Cast::bring_helpers(Place p) {
  if (hosted_.contains(ActorName::at(ActorName::Role::reducer, p))) return;
  reducers_[p.replica.value][p.stage.value] = new_reducer(p);
  tell_from_outside(reducers_[p.replica.value][p.stage.value], wiring_of_reducer(p));
  for (auto& [id, ends] : links_)
    for (const LinkSide side : {LinkSide::lower, LinkSide::upper}) {
      const StageId owner = job_->stage_of({side == LinkSide::lower ? id.second : id.second + 1});
      if (id.first != p.replica || owner != p.stage) continue;
      ends[static_cast<std::size_t>(side)] = new_link(id.second, id.first, side);
      wire_link(id.second, id.first, side);
    }
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
  for (const auto& [place, twin] : twins_)
    if (place.replica == x.place.replica) tell_from_outside(twin, x);
  tell_from_outside(reducers_[x.place.replica.value][x.place.stage.value], x);
  tell_from_outside(stage_at(x.place), x);
  tell_from_outside(coordinator_, x);
}

}  // namespace stagecraft
