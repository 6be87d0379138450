#include "actors/coordinator.hpp"

#include <fmt/format.h>

#include "actors/new_plan.hpp"

namespace stagecraft {

namespace {

struct CoordinatorState {
  static inline const char* name = "coordinator";

  CoordinatorActor::pointer self = nullptr;
  JobRef job;
  NodeActor node;
  RecorderActor recorder;
  CheckpointerActor checkpointer;
  PlannerActor planner;  // none: the plan stays
  std::vector<StageActor> stages;
  std::optional<CoordinatorMachine> machine;
  std::optional<Instant> armed_for;  // the earliest tick that is under way

  void on(const CoordinatorEvent& event) {
    if (std::holds_alternative<Tick>(event)) armed_for.reset();
    if (std::holds_alternative<Stop>(event)) note({.kind = EventKind::stopped, .at = job->world.now()});
    for (const CoordinatorEffect& effect : machine->step(event, job->world.now()))
      std::visit([this](const auto& e) { apply(e); }, effect);
    arm();
  }
  // A deadline that moves on waits for the tick under way, which arms the next; one that moves up gets its own.
  void arm() {
    const auto deadline = machine->deadline();
    if (!deadline || (armed_for && *armed_for <= *deadline)) return;
    armed_for = deadline;
    tell_after(self, std::max(*deadline - job->world.now(), Duration{1}), CoordinatorActor{self}, Tick{});
  }
  void apply(const coordinator_effect::Checkpoint& e) { post(self, job->world, checkpointer, e.begin); }
  void apply(const coordinator_effect::Adopt& e) {
    const auto places = job->places();
    for (std::size_t i = 0; i < places.size(); ++i)
      post(self, job->world, stages[i],
           to_message(e.key, e.plan.replicas[places[i].replica.value].stages[places[i].stage.value]));
  }
  void apply(const coordinator_effect::Broadcast& e) {
    note({.kind = EventKind::opened, .at = job->world.now(), .key = e.open.key, .text = e.open.last ? "the last" : ""});
    for (const StageActor& stage : stages) post(self, job->world, stage, e.open);
    if (planner && !e.open.last) post(self, job->world, planner, IterationOpened{e.open.key});
  }
  void apply(const coordinator_effect::Commit& e) {
    const IterationReport& r = e.report;
    note({.kind = EventKind::committed,
          .at = job->world.now(),
          .key = Key{{}, r.iteration},
          .text = fmt::format("loss {:a} norm {:a} clip {:a} tokens {}{}", r.loss, r.gradient_norm, r.clip, r.tokens,
                              r.skipped ? " skipped" : "")});
    tell(self, node, r);
  }
  void apply(const coordinator_effect::AskAll&) {
    for (const StageActor& stage : stages) post(self, job->world, stage, Explain{});
  }
  void apply(const coordinator_effect::End& e) {
    note({.kind = EventKind::ended, .at = job->world.now(), .text = e.ended.reason});
    tell(self, node, e.ended);
  }
  void note(Event event) { tell(self, recorder, std::move(event)); }
};

CoordinatorActor::behavior_type coordinator_behavior(CoordinatorActor::stateful_pointer<CoordinatorState> self,
                                                     JobRef job, NodeActor node, RecorderActor recorder,
                                                     CheckpointerActor checkpointer, PlannerActor planner,
                                                     std::vector<StageActor> stages) {
  CoordinatorState& s = self->state;
  s.self = self;
  s.job = std::move(job);
  s.node = std::move(node);
  s.recorder = std::move(recorder);
  s.checkpointer = std::move(checkpointer);
  s.planner = std::move(planner);
  s.stages = std::move(stages);
  std::optional<CoordinatorMachine::Checkpoints> checkpoints;
  if (s.job->checkpoint) checkpoints = CoordinatorMachine::Checkpoints{s.job->checkpoint->every};
  s.machine.emplace(s.job->topology, s.job->places(), s.job->world.now(), checkpoints, s.job->start);
  s.arm();
  return behavior_of(CoordinatorActor{}, s);
}

}  // namespace

CoordinatorActor spawn_coordinator(JobRef job, NodeActor node, RecorderActor recorder, CheckpointerActor checkpointer,
                                   PlannerActor planner, std::vector<StageActor> stages) {
  caf::actor_system& system = job->world.system();
  return system.spawn(coordinator_behavior, std::move(job), std::move(node), std::move(recorder),
                      std::move(checkpointer), std::move(planner), std::move(stages));
}

}  // namespace stagecraft
