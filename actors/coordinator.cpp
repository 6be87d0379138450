#include "actors/coordinator.hpp"

#include <fmt/format.h>

#include "actors/new_plan.hpp"
#include "actors/plan_answer.hpp"

namespace stagecraft {

namespace {

struct CoordinatorState {
  static inline const char* name = "coordinator";

  CoordinatorActor::pointer self = nullptr;
  JobRef job;
  CoordinatorWiring wiring;
  std::optional<CoordinatorMachine> machine;
  std::optional<Instant> armed_for;  // the earliest tick that is under way

  void on(const CoordinatorEvent& event) {
    if (std::holds_alternative<Tick>(event)) armed_for.reset();
    if (std::holds_alternative<Stop>(event)) note({.kind = EventKind::stopped, .at = job->world.now()});
    for (const CoordinatorEffect& effect : machine->step(event, job->world.now()))
      std::visit([this](const auto& e) { apply(e); }, effect);
    arm();
  }
  void on(const NewStage& x) { wiring.stages[index_of(x.place)] = x.stage; }
  void on(const NewTwin& x) { wiring.twins[index_of(x.place)] = x.twin; }
  std::size_t index_of(Place place) const {
    return std::size_t{place.replica.value} * job->topology.pipeline.stages + place.stage.value;
  }
  // A deadline that moves on waits for the tick under way, which arms the next; one that moves up gets its own.
  void arm() {
    const auto deadline = machine->deadline();
    if (!deadline || (armed_for && *armed_for <= *deadline)) return;
    armed_for = deadline;
    tell_after(self, std::max(*deadline - job->world.now(), Duration{1}), CoordinatorActor{self}, Tick{});
  }
  void apply(const coordinator_effect::Checkpoint& e) { post(self, job->world, wiring.checkpointer, e.begin); }
  void apply(const coordinator_effect::Adopt& e) {
    const auto places = job->places();
    for (std::size_t i = 0; i < places.size(); ++i)
      post(self, job->world, wiring.stages[i],
           to_message(e.key, e.plan.replicas[places[i].replica.value].stages[places[i].stage.value]));
  }
  void apply(const coordinator_effect::Broadcast& e) {
    note({.kind = EventKind::opened, .at = job->world.now(), .key = e.open.key, .text = e.open.last ? "the last" : ""});
    if (!e.open.last) job->world.tell({RunEvent::opened, e.open.key.iteration, {}, {}});
    if (wiring.gate) tell(self, wiring.gate, e.minutes);  // in its mailbox before any Open can be
    for (const StageActor& stage : wiring.stages) post(self, job->world, stage, e.open);
    for (const TwinActor& twin : wiring.twins) post(self, job->world, twin, e.open);
    if (e.open.last) return;
    const IterationOpened opened{e.open.key, e.open.layout, e.minutes.newest_move, e.not_over};
    post(self, job->world, wiring.monitor, opened);
    if (wiring.planner) post(self, job->world, wiring.planner, opened);
    if (wiring.migrator) post(self, job->world, wiring.migrator, opened);
  }
  void apply(const coordinator_effect::MoveTold& e) {
    note({.kind = EventKind::migrated, .at = job->world.now(), .key = e.key, .text = e.text});
  }
  void apply(const coordinator_effect::PauseTold& e) {
    note({.kind = EventKind::paused, .at = job->world.now(), .key = e.key, .text = e.text});
  }
  void apply(const coordinator_effect::TellPlan& e) {
    tell(self, wiring.node, plan_answer(e.wish, *job, e.plan ? e.plan->replicas : job->plan.replicas));
  }
  void apply(const coordinator_effect::Answer& e) { tell(self, wiring.node, e.answer); }
  void apply(const coordinator_effect::InForce& e) {
    if (wiring.planner) post(self, job->world, wiring.planner, LayoutInForce{e.plan});
  }
  void apply(const move_effect::Lead& e) {
    post(self, job->world, wiring.twins[index_of(e.lane.source())], LeadMove{e.key, e.move, e.lane});
  }
  void apply(const move_effect::AskVote& e) {
    const AskVote ask{e.key, e.move, e.lane};
    post(self, job->world, wiring.stages[index_of(e.lane.source())], ask);
    post(self, job->world, wiring.twins[index_of(e.lane.destination())], ask);
  }
  void apply(const coordinator_effect::Commit& e) {
    const IterationReport& r = e.report;
    note({.kind = EventKind::committed,
          .at = job->world.now(),
          .key = e.key,
          .text = fmt::format("loss {:a} norm {:a} clip {:a} tokens {}{}", r.loss, r.gradient_norm, r.clip, r.tokens,
                              r.skipped ? " skipped" : "")});
    job->world.tell({RunEvent::committed, r.iteration, {}, {}});
    tell(self, wiring.node, r);
  }
  void apply(const coordinator_effect::Missed& e) {
    note({.kind = EventKind::lost,
          .at = job->world.now(),
          .place = e.lost.who.place,
          .text = fmt::format("{}: {}", to_text(e.lost.who), e.lost.why)});
  }
  void apply(const coordinator_effect::BeginAgain& e) {
    note({.kind = EventKind::begun_again, .at = job->world.now(), .key = e.key, .text = e.why});
    job->world.tell({RunEvent::recovered, e.key.iteration, {}, {}});
  }
  // Supervision does not depend on what may get lost.
  void apply(const Replace& e) { tell(self, wiring.node, e); }
  void apply(const FindCheckpoint& e) { post(self, job->world, wiring.checkpointer, e); }
  void apply(const Restore& e) {
    for (const StageActor& stage : wiring.stages) post(self, job->world, stage, e);
    for (const TwinActor& twin : wiring.twins) post(self, job->world, twin, e);
  }
  void apply(const coordinator_effect::AskAll&) {
    for (const StageActor& stage : wiring.stages) post(self, job->world, stage, Explain{});
  }
  void apply(const coordinator_effect::End& e) {
    note({.kind = EventKind::ended, .at = job->world.now(), .text = e.ended.reason});
    tell(self, wiring.node, e.ended);
  }
  void note(Event event) { tell(self, wiring.recorder, std::move(event)); }
};

CoordinatorActor::behavior_type coordinator_behavior(CoordinatorActor::stateful_pointer<CoordinatorState> self,
                                                     JobRef job, CoordinatorWiring wiring) {
  CoordinatorState& s = self->state;
  s.self = self;
  s.job = std::move(job);
  s.wiring = std::move(wiring);
  std::optional<CoordinatorMachine::Checkpoints> checkpoints;
  if (s.job->checkpoint) checkpoints = CoordinatorMachine::Checkpoints{s.job->checkpoint->every};
  s.machine.emplace(s.job->topology, s.job->places(), s.job->world.now(), checkpoints, s.job->start,
                    std::exchange(s.wiring.start, nullptr));
  if (s.wiring.taken_over) s.machine->take_over(*s.wiring.taken_over, s.job->world.now());
  s.arm();
  return behavior_of(CoordinatorActor{}, s);
}

}  // namespace

CoordinatorActor spawn_coordinator(JobRef job, CoordinatorWiring wiring) {
  caf::actor_system& system = job->world.system();
  return system.spawn(coordinator_behavior, std::move(job), std::move(wiring));
}

}  // namespace stagecraft
