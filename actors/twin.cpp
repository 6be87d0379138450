#include "actors/twin.hpp"

#include "actors/faults/planted.hpp"
#include "actors/held_state.hpp"
#include "actors/loans.hpp"
#include "actors/mailbox_completions.hpp"
#include "actors/twin_moves.hpp"
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
  std::shared_ptr<const JobLayout> layout;  // in force here
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
  // layers on their way
  std::vector<LeadLane> leads;
  FollowedLanes followed;
  std::map<Iteration, Decision> decisions;                // the last ones, for those that follow
  std::function<void()> and_then;                         // in flight: what comes after it
  std::vector<std::pair<TwinActor, Key>> borrowed_lanes;  // in flight: what other twins have lent

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
  void on(const NewTwin& x) { wiring.fellows[x.place.stage.value] = x.twin; }
  const TwinActor& fellow(Place of) const { return wiring.fellows[of.stage.value]; }
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
    if (open.restores) decisions.clear();
    decisions[Iteration{key.iteration.value - 1}] = open.decision;
    if (open.layout == layout->layers) forget_moves();
    if (!busy) enter();
  }
  // As a stage does: first the state has to be that after the iteration before the one that opens.
  void enter() {
    const Iteration wanted{key.iteration.value - 1};
    if (open.layout != layout->layers) return lay_out_anew(wanted);
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
  std::map<GroupId, Tensor> take_gradients(Iteration of) {
    auto newest = gradients.end();
    for (auto it = gradients.begin(); it != gradients.end(); ++it)
      if (it->first.iteration == of) newest = it;
    STAGECRAFT_ASSERT(newest != gradients.end(), "iteration {} was decided before its twin had the gradient", of.value);
    return std::move(newest->second.gradients);
  }
  // Layers have moved: what was followed is the stage's own from now on, and steps with the rest.
  void lay_out_anew(Iteration wanted) {
    layout = std::make_shared<const JobLayout>(lay_out(job->topology, *layout, open.layout));
    const auto& arithmetic = layout->arithmetic[place.stage.value];
    const auto& chunks = layout->chunks[place.stage.value];
    FollowedState taken = followed.take(wanted);
    leads.clear();
    if (!state || open.restores) {
      model->reshape(arithmetic, chunks);
      return enter();
    }
    STAGECRAFT_ASSERT(state->value + 1 == wanted.value, "layers moved to a twin whose state is that after iteration {}",
                      state->value);
    if (open.decision.kind == Decision::Kind::step) {
      for (auto& [group, gradient] : take_gradients(wanted)) taken.gradients.emplace(group, std::move(gradient));
    } else {
      taken.gradients.clear();
    }
    submit(wanted, [m = model, arithmetic, chunks, taken = std::move(taken), separate = loans.separate(),
                    factors = open.decision.kind == Decision::Kind::step ? factors_of(*job, open.decision)
                                                                         : StepFactors{}]() mutable {
      m->reshape(arithmetic, chunks, std::move(taken.state));
      STAGECRAFT_ASSERT(m->complete(), "layers moved to a twin before it held them");
      if (separate) m->separate();
      if (taken.gradients.empty()) return;
      for (auto& [group, gradient] : taken.gradients) m->prepare(group, std::move(gradient));
      m->step(factors);
      m->drop_prepared();
    });
  }
  void step(Iteration wanted) {
    // In one go with the layers that it follows: they would never catch up where it gets little time.
    submit(wanted, [m = model, g = take_gradients(wanted), separate = loans.separate(),
                    factors = factors_of(*job, open.decision), others = catch_up()]() mutable {
      if (separate) m->separate();
      for (auto& [group, gradient] : g) m->prepare(group, std::move(gradient));
      m->step(factors);
      m->drop_prepared();
      for (const auto& each : others) each();
    });
  }
  // The state is that of the present key.
  void settle() {
    std::erase_if(gradients, [this](const auto& g) {
      return g.first.iteration < key.iteration || (g.first.iteration == key.iteration && g.first < key);
    });
    give();
    say_ready();
    lead();
    follow();
  }
  void on(TwinGradients&& x) {
    if (x.key < key) return;
    const Key of = x.key;
    for (const LeadLane& l : leads) pass_on(l, x);
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

  // -- layers on their way from its stage to another: to that one's twin
  void on(const LeadMove& x) {
    leads.push_back({x, false});
    for (const auto& [of, held] : gradients)
      if (of >= key) pass_on(leads.back(), held);
    lead();
  }
  void lead() {
    if (!settled()) return;
    for (LeadLane& l : leads) {
      if (l.given || l.order.key > key) continue;
      l.given = true;
      loans.lend(key);
      post(self, job->world, fellow(l.order.lane.destination()),
           MovingState{key, l.order.move, l.order.lane,
                       model->held(groups_of(model->arithmetic(), l.order.lane.layers))});
    }
  }
  void pass_on(const LeadLane& l, const TwinGradients& x) {
    MovingGradients message{x.key, l.order.move, l.order.lane, {}};
    for (const GroupId g : groups_of(model->arithmetic(), l.order.lane.layers))
      if (const auto it = x.gradients.find(g); it != x.gradients.end()) message.gradients.insert(*it);
    if (!message.gradients.empty()) post(self, job->world, fellow(l.order.lane.destination()), std::move(message));
  }

  // -- layers on their way from another stage to its own: copied once, then kept fresh by replay
  FollowedLane& lane_of(MoveId move, const MoveLane& lane, Key heard) {
    return followed.at(move, lane, heard, [&] {
      return std::make_shared<StageModel>(
          layout->arithmetic[place.stage.value], FollowedLane::share(layout->share(job->topology, place), lane.layers),
          Arena::make(fmt::format("on their way to stage {}.{}", place.stage.value, place.replica.value), {}),
          job->controls);
    });
  }
  void on(MovingState&& x) {
    FollowedLane& f = lane_of(x.move, x.lane, x.key);
    f.given = std::move(x);
    follow();
  }
  void on(MovingGradients&& x) {
    FollowedLane& f = lane_of(x.move, x.lane, x.key);
    f.follower.has_gradient(x.key.iteration);
    f.gradients[x.key.iteration] = std::move(x.gradients);
    follow();
  }
  void on(AskVote&& x) {
    lane_of(x.move, x.lane, x.key).asked = x;
    follow();
  }
  // Everything that the copies can do now, for the device. It is noted at once: nobody looks before it is done.
  using Work = std::vector<std::function<void()>>;
  Work catch_up() {
    Work work;
    for (FollowedLane& f : followed.all()) {
      for (const auto& [iteration, decision] : decisions)
        f.follower.decided(iteration, decision.kind == Decision::Kind::step);
      if (f.given) {
        borrowed_lanes.emplace_back(fellow(f.given->lane.source()), f.given->key);
        f.follower.given(Iteration{f.given->key.iteration.value - 1});
        work.emplace_back([m = f.model, g = std::move(f.given->state)] {
          m->take_over(g.parameters, g.first_moments, g.second_moments);
        });
        f.given.reset();
      }
      while (const auto replay = f.follower.next()) {
        const Iteration next = replay->becomes;
        if (replay->steps)
          work.emplace_back([m = f.model, gradients = f.gradients.at(next),
                             factors = factors_of(*job, decisions.at(next))]() mutable {
            for (auto& [group, gradient] : gradients) m->prepare(group, std::move(gradient));
            m->step(factors);
            m->drop_prepared();
          });
        f.follower.replayed(next);
        std::erase_if(f.gradients, [next](const auto& g) { return g.first <= next; });
      }
    }
    return work;
  }
  // After what the twin owes its own stage.
  void follow() {
    if (!settled()) return;
    if (Work work = catch_up(); !work.empty())
      return background([work = std::move(work)] {
        for (const auto& each : work) each();
      });
    std::vector<FollowedLane*> voters;
    for (FollowedLane& f : followed.all()) {
      if (!f.follower.has_caught_up(key.iteration)) continue;
      if (!f.told) vote(f, MoveVote::Kind::follows, 0);
      f.told = true;
      if (f.asked && f.asked->key == key) {
        voters.push_back(&f);
      } else {
        hand_over(f);
      }
    }
    if (!voters.empty()) digest(voters);
  }
  // The votes, and a copy of each that the stage may take for its own.
  void digest(const std::vector<FollowedLane*>& lanes) {
    struct Found {
      MoveId move;
      MoveLane lane;
      std::shared_ptr<StageModel> model;
      std::uint64_t digest = 0;
      HeldGroups copy;
    };
    auto all = std::make_shared<std::vector<Found>>();
    for (FollowedLane* f : lanes) {
      f->asked.reset();
      all->push_back({f->move, f->lane, f->model, 0, {}});
    }
    background([all] {
      for (Found& f : *all) {
        f.digest = f.model->digest(f.model->groups());
        f.copy = f.model->copy();
      }
    });
    and_then = [this, of = key, all] {
      for (Found& f : *all) {
        FollowedLane* now = followed.find(f.move, f.lane);
        if (!now || of != key) continue;
        now->for_stage = LayersGiven{of, f.move, f.lane, std::move(f.copy), {}};
        vote(*now, MoveVote::Kind::copy, f.digest);
      }
    };
  }
  void hand_over(FollowedLane& f) {
    if (!f.for_stage || !f.follower.can_take_over_after(key.iteration)) return;
    if (f.for_stage->key == key) {
      f.for_stage->gradients = f.gradients.at(key.iteration);
      post(self, job->world, wiring.stage, std::move(*f.for_stage));
    }
    f.for_stage.reset();
  }
  void vote(const FollowedLane& f, MoveVote::Kind kind, std::uint64_t digest) {
    post(self, job->world, wiring.coordinator, MoveVote{kind, f.move, key, f.lane, digest});
  }
  // What takes part in no move that is under way.
  void forget_moves() {
    for (FollowedLane& f : followed.all())
      if (f.is_over(open.move, key) && f.given)
        post(self, job->world, fellow(f.given->lane.source()), LoanOver{f.given->key});
    followed.forget(open.move, key);
    std::erase_if(leads, [this](const LeadLane& l) { return l.order.move != open.move && l.order.key < key; });
    constexpr std::size_t remembered = 8;
    while (followed.all().empty() && decisions.size() > remembered) decisions.erase(decisions.begin());
  }

  template <class Body>
  void background(Body body) {
    submit(std::nullopt, std::move(body));
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
    if (auto then = std::exchange(and_then, nullptr)) then();
    for (const auto& [giver, of] : std::exchange(borrowed_lanes, {})) post(self, job->world, giver, LoanOver{of});
    if (borrowed) post(self, job->world, wiring.stage, LoanOver{*std::exchange(borrowed, {})});
    if (key.iteration.value > 0) enter();
  }
};

TwinActor::behavior_type twin_behavior(TwinActor::stateful_pointer<TwinActorState> self, JobRef job, Place place) {
  TwinActorState& s = self->state;
  s.self = self;
  s.job = std::move(job);
  s.place = place;
  s.layout = std::shared_ptr<const JobLayout>(s.job, &s.job->plan);
  s.model = std::make_shared<StageModel>(
      s.layout->arithmetic[place.stage.value], s.layout->share(s.job->topology, place),
      Arena::make(fmt::format("twin {}.{}", place.stage.value, place.replica.value), {}), s.job->controls);
  return behavior_of(TwinActor{}, s);
}

}  // namespace

TwinActor spawn_twin(JobRef job, Place place) {
  caf::actor_system& system = job->world.system();
  return system.spawn(twin_behavior, std::move(job), place);
}

}  // namespace stagecraft
