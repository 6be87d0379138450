#include "actors/twin.hpp"

#include "actors/faults/planted.hpp"
#include "actors/held_state.hpp"
#include "actors/loans.hpp"
#include "actors/mailbox_completions.hpp"
#include "model/stage_model.hpp"
#include "planning/bug.hpp"

namespace stagecraft {

namespace {

struct TwinActorState {
  static inline const char* name = "twin";

  TwinActor::pointer self = nullptr;
  JobRef job;
  Place place;
  TwinWiring wiring;
  std::shared_ptr<StageModel> model;
  Stream* stream = nullptr;

  Key key;
  Open open;
  std::optional<Restore> restore;
  Key restored;
  std::optional<Iteration> state;          // as in the stage
  std::optional<Iteration> becomes;        // in flight: what `state` will be
  bool busy = false;                       // something is in flight
  std::map<Key, TwinGradients> gradients;  // of the present iteration, and of the one that is not decided yet
  std::optional<Key> asked;                // by the stage
  Loans loans;
  std::optional<Key> borrowed;  // in flight: what the stage has lent
  bool said_ready = false;
  Instant due{};
  std::uint64_t tickets = 0;

  void on(TwinWiring&& x) {
    wiring = std::move(x);
    stream = &job->world.open_background_stream(
        fmt::format("twin {}.{}", place.stage.value, place.replica.value),
        std::make_unique<MailboxCompletions<TwinActor>>(job->world, TwinActor{self}));
    const auto first = wiring.rebuilt ? std::nullopt : std::optional(Iteration{job->start.iteration});
    submit(first, [m = model, start = std::move(wiring.start)] {
      m->initialise();
      if (start) m->restore(start->state);
    });
  }
  void on(const NewStage& x) { wiring.stage = x.stage; }
  void on(const Restore& x) {
    if (x.key < key || x.key == restored) return;
    restore = x;
    if (x.key == key && !busy) enter();
  }
  void on(const Open& x) {
    if (x.key <= key) return;
    open = x;
    key = x.key;
    said_ready = false;
    if (!busy) enter();
  }
  // As a stage does: first the state has to be that after the iteration before the one that opens.
  void enter() {
    const Iteration wanted{key.iteration.value - 1};
    if (open.restores && restored != key) {
      if (!restore || restore->key != key) return;
      restored = key;
      loans.separate();  // initialise() makes new buffers
      return submit(wanted, [m = model, from = std::exchange(restore, {})->from] {
        m->initialise();
        if (from) m->restore(from->state);
      });
    }
    if (!state) return post(self, job->world, wiring.stage, AskState{key});
    if (*state == wanted) return settle();
    STAGECRAFT_ASSERT(state->value + 1 == wanted.value,
                      "the twin's state after iteration {} can't become that after {}", state->value, wanted.value);
    if (open.decision.kind == Decision::Kind::step) return step(wanted);
    state = wanted;
    settle();
  }
  void step(Iteration wanted) {
    auto newest = gradients.end();
    for (auto it = gradients.begin(); it != gradients.end(); ++it)
      if (it->first.iteration == wanted) newest = it;
    STAGECRAFT_ASSERT(newest != gradients.end(), "iteration {} was decided before its twin had the gradient",
                      wanted.value);
    submit(wanted, [m = model, g = std::move(newest->second.gradients), separate = loans.separate(),
                    factors = factors_of(*job, open.decision)]() mutable {
      if (separate) m->separate();
      for (auto& [group, gradient] : g) m->prepare(group, std::move(gradient));
      m->step(factors);
      m->drop_prepared();
    });
  }
  // The state is that of the present key.
  void settle() {
    std::erase_if(gradients, [this](const auto& g) {
      return g.first.iteration < key.iteration || (g.first.iteration == key.iteration && g.first < key);
    });
    give();
    say_ready();
  }
  void on(TwinGradients&& x) {
    if (x.key < key) return;
    const Key of = x.key;
    gradients[of] = std::move(x);
    say_ready();
  }
  bool settled() const { return !busy && state && state->value + 1 == key.iteration.value; }
  void say_ready() {
    if (said_ready || !settled() || !gradients.contains(key)) return;
    said_ready = true;
    post(self, job->world, wiring.coordinator, TwinReady{key, place});
  }
  void on(const AskState& x) {
    if (x.key < key) return;
    asked = x.key;
    give();
  }
  void give() {
    if (!settled() || asked != key) return;
    if (job->world.rarely("twin answers late")) return tell_after(self, Duration{1000}, TwinActor{self}, AskState{key});
    asked.reset();
    loans.lend(key);
    post(self, job->world, wiring.stage, StateGiven{key, state_of(*model, place), due});
  }
  void on(const LoanOver& x) { loans.back(x.key); }
  void on(StateGiven&& x) {
    if (x.key != key || state || busy) return post(self, job->world, wiring.stage, LoanOver{x.key});
    borrowed = x.key;
    if (planted(PlantedBug::twin_misses_moments)) {
      x.state.first_moments = state_of(*model, place).first_moments;
      x.state.second_moments = state_of(*model, place).second_moments;
    }
    submit(Iteration{key.iteration.value - 1}, [m = model, given = std::move(x.state)] {
      m->take_over(given.parameters, given.first_moments, given.second_moments);
    });
  }

  // The host's time is not charged: it is not the device's.
  template <class Body>
  void submit(std::optional<Iteration> then, Body body) {
    busy = true;
    becomes = then;
    auto shared = std::make_shared<Body>(std::move(body));
    stream->submit({++tickets, {}, {}, [shared] { (*shared)(); }});
  }
  void on(const OperatorDone& x) {
    STAGECRAFT_ASSERT(busy && x.completion.ticket == tickets, "a twin's completion of nothing in flight");
    if (!x.completion.error.empty()) throw Bug("a twin failed: " + x.completion.error);
    stream->retire(x.completion.ticket);
    busy = false;
    due = x.completion.ended;
    if (becomes) state = becomes;
    if (borrowed) post(self, job->world, wiring.stage, LoanOver{*std::exchange(borrowed, {})});
    if (key.iteration.value > 0) enter();
  }
};

TwinActor::behavior_type twin_behavior(TwinActor::stateful_pointer<TwinActorState> self, JobRef job, Place place) {
  TwinActorState& s = self->state;
  s.self = self;
  s.job = std::move(job);
  s.place = place;
  s.model = std::make_shared<StageModel>(
      s.job->plan.arithmetic[place.stage.value], s.job->plan.share(s.job->topology, place),
      Arena::make(fmt::format("twin {}.{}", place.stage.value, place.replica.value), {}), s.job->controls);
  return behavior_of(TwinActor{}, s);
}

}  // namespace

TwinActor spawn_twin(JobRef job, Place place) {
  caf::actor_system& system = job->world.system();
  return system.spawn(twin_behavior, std::move(job), place);
}

}  // namespace stagecraft
