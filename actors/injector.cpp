#include "actors/injector.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "config/describe_scenario.hpp"

namespace stagecraft {

namespace {

struct InjectorState {
  static inline const char* name = "injector";

  InjectorActor::pointer self = nullptr;
  JobRef job;
  NodeActor node;
  RecorderActor recorder;
  FaultBoard* board = nullptr;
  std::optional<InjectorMachine> machine;
  std::optional<Instant> armed_for;

  void on(const InjectFault& x) {
    board->add(x.fault);
    apply(machine->inject(x.fault, job->world.now()), fmt::format(", {}: {}", x.who, describe(x.fault)));
    answer(x.wish, WishAnswer::Fate::done, fmt::format("'{}' strikes", x.fault.id));
  }
  void on(const HealFault& x) {
    std::vector<std::string> in_force, healed;
    for (std::size_t i = 0; i < machine->faults().size(); ++i) {
      if (!machine->is_in_force(i)) continue;
      const std::string& id = machine->faults()[i].id;
      in_force.push_back(id);
      if (!x.id.empty() && id != x.id) continue;
      healed.push_back(id);
      apply(machine->heal(i), ", " + x.who);
    }
    const std::string there = in_force.empty() ? "none is" : fmt::format("{} are", fmt::join(in_force, ", "));
    if (healed.empty())
      return answer(x.wish, WishAnswer::Fate::refused,
                    x.id.empty() ? "no fault is in force" : fmt::format("no fault '{}' is in force; {}", x.id, there));
    answer(x.wish, WishAnswer::Fate::done, fmt::format("healed: {}", fmt::join(healed, ", ")));
  }
  void answer(WishId wish, WishAnswer::Fate fate, std::string text) {
    tell(self, node, WishAnswer{fate, wish, std::move(text), machine->iteration(), {}, {}});
  }
  void on(const Happened& x) { apply(machine->step(x, job->world.now())); }
  void on(const Tick&) {
    armed_for.reset();
    apply(machine->tick(job->world.now()));
  }
  // `who`: behind the text, where it was somebody; else it is as the scenario, or its `for`, says.
  void apply(const std::vector<FaultSwitch>& switches, const std::string& who = {}) {
    for (const FaultSwitch& s : switches) {
      const FaultSpec fault = machine->faults()[s.fault];
      board->note({s.fault, s.on, job->world.now(), machine->iteration()});
      tell(self, recorder,
           Event{.kind = EventKind::injected,
                 .at = job->world.now(),
                 .text = fmt::format("{} ({}) {}{}", fault.id, name_of(fault.kind), s.on ? "strikes" : "heals", who)});
      if (fault.kind == FaultKind::kill) {
        const auto role = fault.on.kind == FaultTarget::Kind::twin ? Member::Role::twin : Member::Role::stage;
        tell(self, node, KillOrder{{role, {fault.on.stage, fault.on.replica.value_or(ReplicaId{0})}}});
      } else if (s.on) {
        board->strike(s.fault);
      } else {
        board->heal(s.fault);
      }
    }
    arm();
  }
  void arm() {
    const auto deadline = machine->deadline();
    if (!deadline || (armed_for && *armed_for <= *deadline)) return;
    armed_for = deadline;
    tell_after(self, std::max(*deadline - job->world.now(), Duration{1}), InjectorActor{self}, Tick{});
  }
};

InjectorActor::behavior_type injector_behavior(InjectorActor::stateful_pointer<InjectorState> self, JobRef job,
                                               NodeActor node, RecorderActor recorder) {
  InjectorState& s = self->state;
  s.self = self;
  s.job = std::move(job);
  s.node = std::move(node);
  s.recorder = std::move(recorder);
  s.board = s.job->world.faults();
  s.machine.emplace(s.board->scenario().faults, s.board->scenario().calm, s.board->seed());
  return behavior_of(InjectorActor{}, s);
}

}  // namespace

InjectorActor spawn_injector(JobRef job, NodeActor node, RecorderActor recorder) {
  World& world = job->world;
  InjectorActor injector =
      world.system().spawn(injector_behavior, std::move(job), std::move(node), std::move(recorder));
  // Here, not when the actor first runs: by then the first iteration may have opened. The board goes with the world,
  // and tells nobody once its listener is gone.
  world.faults()->listen([to = caf::actor_cast<caf::weak_actor_ptr>(injector)](Happened what) {
    if (const auto strong = caf::actor_cast<InjectorActor>(to)) tell_from_outside(strong, what);
  });
  return injector;
}

}  // namespace stagecraft
