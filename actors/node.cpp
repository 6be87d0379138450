#include "actors/node.hpp"

#include <fmt/format.h>

#include "actors/checkpointer.hpp"
#include "actors/coordinator.hpp"
#include "actors/link.hpp"
#include "actors/loader.hpp"
#include "actors/monitor.hpp"
#include "actors/planner.hpp"
#include "actors/recorder.hpp"
#include "actors/reducer.hpp"
#include "actors/stage.hpp"

namespace stagecraft {

void Outbox::put(const IterationReport& report) {
  {
    std::lock_guard guard(mutex_);
    reports_.push_back(report);
  }
  news_();
}
void Outbox::put(Ended ended) {
  {
    std::lock_guard guard(mutex_);
    end_ = std::move(ended);
  }
  news_();
}
std::vector<IterationReport> Outbox::take_reports() {
  std::lock_guard guard(mutex_);
  return std::exchange(reports_, {});
}
std::optional<Outbox::Ended> Outbox::take_end() {
  std::lock_guard guard(mutex_);
  return std::exchange(end_, std::nullopt);
}

namespace {

struct NodeState {
  static inline const char* name = "node";

  NodeActor::pointer self = nullptr;
  std::shared_ptr<Outbox> outbox;
  MonitorActor monitor;
  RecorderActor recorder;
  std::map<caf::actor_addr, std::string> watched;
  std::optional<Outbox::Ended> ending;  // set once, then completed by the last words

  void on(const NodeWiring& x) {
    monitor = x.monitor;
    recorder = x.recorder;
    for (const auto& [actor, who] : x.watched) {
      watched.emplace(actor.address(), who);
      self->monitor(actor);
    }
  }
  void on(const IterationReport& x) { outbox->put(x); }
  void on(const JobEnded& x) {
    if (ending) return;
    ending = Outbox::Ended{x, {}, {}};
    tell(self, monitor, AskProfile{});
  }
  void on(const Profile& x) {
    ending->profile = x.stages;
    tell(self, recorder, CloseLog{});
  }
  void on(const LogClosed& x) {
    ending->log = x;
    outbox->put(std::move(*ending));
  }
  // Nobody leaves before the end: an actor that does has met a broken invariant.
  void on_down(const caf::down_msg& down) {
    const auto it = watched.find(down.source);
    if (it == watched.end() || ending) return;
    const std::string reason = fmt::format("{} ended: {}", it->second, caf::to_string(down.reason));
    if (it->second == "monitor" || it->second == "recorder") {  // they can't give their last words
      ending = Outbox::Ended{{Ending::bug, reason}, {}, {}};
      return outbox->put(std::move(*ending));
    }
    on(JobEnded{Ending::bug, reason});
  }
};

// Handles of everything that was spawned, while it is being wired.
struct Cast {
  std::vector<std::vector<StageActor>> stages;                                    // [replica][stage]
  std::vector<std::vector<ReducerActor>> reducers;                                // [replica][stage]
  std::map<std::pair<ReplicaId, std::uint32_t>, std::array<LinkActor, 2>> links;  // per boundary: lower, upper end
  LoaderActor loader;
  CheckpointerActor checkpointer;  // none: the job keeps no checkpoints
  PlannerActor planner;            // none: the plan stays
  CoordinatorActor coordinator;
};

void wire_links(const Job& job, const Cast& cast) {
  for (const auto& [id, ends] : cast.links) {
    const auto& stages = cast.stages[id.first.value];
    tell_from_outside(ends[0], LinkWiring{stages[job.stage_of({id.second}).value], ends[1]});
    tell_from_outside(ends[1], LinkWiring{stages[job.stage_of({id.second + 1}).value], ends[0]});
  }
}

void wire_reducers(const Job& job, const Cast& cast) {
  const std::uint32_t head = job.stage_of(job.last_chunk()).value;
  for (const Place p : job.places()) {
    ReducerWiring wiring;
    wiring.coordinator = cast.coordinator;
    wiring.stage = cast.stages[p.replica.value][p.stage.value];
    for (const auto& replica : cast.reducers) wiring.replicas.push_back(replica[p.stage.value]);
    if (p.stage.value == 0) wiring.tie_partner = cast.reducers[p.replica.value][head];
    if (p.stage.value == head) wiring.tie_partner = cast.reducers[p.replica.value][0];
    tell_from_outside(cast.reducers[p.replica.value][p.stage.value], wiring);
  }
}

void wire_stages(const Job& job, const Cast& cast, const MonitorActor& monitor, const RecorderActor& recorder,
                 const std::shared_ptr<const LoadedCheckpoint>& start) {
  for (const Place p : job.places()) {
    StageWiring wiring;
    wiring.coordinator = cast.coordinator;
    wiring.loader = cast.loader;
    wiring.reducer = cast.reducers[p.replica.value][p.stage.value];
    wiring.monitor = monitor;
    wiring.recorder = recorder;
    wiring.checkpointer = cast.checkpointer;
    wiring.start = start;
    for (const auto& replica : cast.stages) wiring.replicas.push_back(replica[p.stage.value]);
    for (const ChunkId chunk : job.plan_of(p).chunks) {
      if (chunk.value > 0) wiring.before[chunk] = cast.links.at({p.replica, chunk.value - 1})[1];
      if (chunk != job.last_chunk()) wiring.after[chunk] = cast.links.at({p.replica, chunk.value})[0];
    }
    tell_from_outside(cast.stages[p.replica.value][p.stage.value], wiring);
  }
}

NodeActor::behavior_type node_behavior(NodeActor::stateful_pointer<NodeState> self, std::shared_ptr<Outbox> outbox) {
  NodeState& s = self->state;
  s.self = self;
  s.outbox = std::move(outbox);
  self->set_down_handler([&s](const caf::down_msg& down) { s.on_down(down); });
  return behavior_of(NodeActor{}, s);
}

// Spawns everything but the node; `watch` hears of each.
template <class Watch>
Cast spawn_cast(const JobRef& job, const NodeActor& node, const RecorderActor& recorder, Watch watch) {
  Cast cast;
  std::vector<StageActor> all_stages;
  for (std::uint32_t r = 0; r < job->topology.pipeline.replicas; ++r) {
    cast.stages.emplace_back();
    cast.reducers.emplace_back();
    for (std::uint32_t st = 0; st < job->topology.pipeline.stages; ++st) {
      const Place p{{st}, {r}};
      cast.stages[r].push_back(watch(spawn_stage(job, p), fmt::format("stage {} of replica {}", st, r)));
      cast.reducers[r].push_back(watch(spawn_reducer(job, p), fmt::format("reducer of stage {} of replica {}", st, r)));
      all_stages.push_back(cast.stages[r].back());
    }
    for (std::uint32_t b = 0; b + 1 < job->total_chunks(); ++b)
      for (const LinkSide side : {LinkSide::lower, LinkSide::upper})
        cast.links[{ReplicaId{r}, b}][static_cast<std::size_t>(side)] =
            watch(spawn_link(job, recorder, b, ReplicaId{r}, side), fmt::format("link end at boundary {}", b));
  }
  cast.loader = watch(spawn_loader(job, cast.stages), "loader");
  if (job->checkpoint) cast.checkpointer = watch(spawn_checkpointer(job, recorder), "checkpointer");
  if (job->plan.replans) cast.planner = watch(spawn_planner(job, recorder), "planner");
  cast.coordinator =
      watch(spawn_coordinator(job, node, recorder, cast.checkpointer, cast.planner, all_stages), "coordinator");
  if (job->checkpoint) tell_from_outside(cast.checkpointer, CheckpointerWiring{cast.coordinator, all_stages});
  return cast;
}

}  // namespace

NodeHandles spawn_node(JobRef job, std::shared_ptr<Outbox> outbox, std::shared_ptr<const LoadedCheckpoint> start) {
  NodeHandles handles;
  handles.node = job->world.system().spawn(node_behavior, std::move(outbox));
  handles.all.push_back(caf::actor_cast<caf::actor>(handles.node));
  NodeWiring wiring;
  const auto watch = [&](const auto& actor, std::string who) {
    wiring.watched.emplace_back(caf::actor_cast<caf::actor>(actor), std::move(who));
    handles.all.push_back(wiring.watched.back().first);
    return actor;
  };
  wiring.recorder = watch(spawn_recorder(job, handles.node), "recorder");
  wiring.monitor = watch(spawn_monitor(job, handles.node), "monitor");
  const Cast cast = spawn_cast(job, handles.node, wiring.recorder, watch);
  handles.coordinator = cast.coordinator;
  handles.recorder = wiring.recorder;
  tell_from_outside(handles.node, wiring);
  if (cast.planner) {
    tell_from_outside(wiring.monitor, MonitorWiring{cast.planner});
    tell_from_outside(cast.planner, PlannerWiring{cast.coordinator, wiring.monitor});
  }
  wire_links(*job, cast);
  wire_reducers(*job, cast);
  wire_stages(*job, cast, wiring.monitor, wiring.recorder, start);
  return handles;
}

}  // namespace stagecraft
