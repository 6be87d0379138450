#include "actors/reducer.hpp"

#include <algorithm>

#include "actors/faults/planted.hpp"
#include "planning/bug.hpp"

namespace stagecraft {

namespace {

struct ReducerState {
  static inline const char* name = "reducer";

  ReducerActor::pointer self = nullptr;
  JobRef job;
  Place place;
  ReducerWiring wiring;
  TieRole role = TieRole::none;
  GroupId embedding, head;

  // of the current key
  struct Work {
    std::map<GroupId, std::map<ReplicaId, std::vector<Segment>>> segments;
    std::size_t reduced = 0, groups = 0;  // of how many, the stage says at the end
    bool stage_done = false, tie_ordered = false, tie_done = false, reported = false;
    std::map<GroupId, bool> tied_reduced;
    Tensor partner;
    bool partner_here = false;
    std::map<GroupId, Tensor> gradients;  // for the twin
    ExactSum square_sum;
    LossSum loss;
    Instant due{};
  };
  Key key;
  Work work;

  bool fresh(Key k) {
    if (planted(PlantedBug::reducer_keeps_groups) && k > key && k.iteration == key.iteration) key = k;
    if (k > key) {
      key = k;
      work = Work{};
      work.tie_done = role == TieRole::none;
    }
    return k == key;
  }
  void seen(Instant due) { work.due = std::max(work.due, due); }

  void on(ReducerWiring&& x) { wiring = std::move(x); }
  void on(const NewStage& x) { wiring.stage = x.stage; }
  void on(const NewTwin& x) { wiring.twin = x.twin; }
  void on(Subtrees&& x) {
    if (!fresh(x.key)) return;
    for (std::uint32_t q = 0; q < wiring.replicas.size(); ++q) {
      Segments message{x.key, x.group, place.replica, x.segments, x.due};
      if (q == place.replica.value) {
        on(std::move(message));
      } else {
        post(self, job->world, wiring.replicas[q], std::move(message));
      }
    }
  }
  void on(Segments&& x) {
    if (!fresh(x.key)) return;
    seen(x.due);
    auto& of_group = work.segments[x.group];
    STAGECRAFT_ASSERT(of_group.emplace(x.from, std::move(x.segments)).second, "group {} came twice from replica {}",
                      x.group.value, x.from.value);
    if (of_group.size() < wiring.replicas.size()) return;
    ReduceOrder order{x.key, x.group, {}, work.due};
    for (auto& [replica, segments] : of_group)
      std::move(segments.begin(), segments.end(), std::back_inserter(order.segments));
    work.segments.erase(x.group);
    post(self, job->world, wiring.stage, std::move(order));
  }
  void on(const Reduced& x) {
    if (!fresh(x.key)) return;
    seen(x.due);
    work.square_sum.add(x.square_sum);
    ++work.reduced;
    if (role != TieRole::none && (x.group == embedding || x.group == head)) {
      work.tied_reduced[x.group] = true;
      if (role != TieRole::both) post(self, job->world, wiring.tie_partner, TiePart{x.key, x.gradient, x.due});
    } else if (wiring.twin) {
      work.gradients[x.group] = x.gradient;
    }
    maybe_tie();
    maybe_report();
  }
  void on(TiePart&& x) {
    if (!fresh(x.key)) return;
    seen(x.due);
    work.partner = std::move(x.value);
    work.partner_here = true;
    maybe_tie();
  }
  void maybe_tie() {
    if (role == TieRole::none || work.tie_ordered) return;
    const std::size_t own = role == TieRole::both ? 2 : 1;
    if (work.tied_reduced.size() < own || (role != TieRole::both && !work.partner_here)) return;
    work.tie_ordered = true;
    post(self, job->world, wiring.stage, TieOrder{key, std::move(work.partner), work.due});
  }
  void on(const Tied& x) {
    if (!fresh(x.key)) return;
    seen(x.due);
    work.square_sum.add(x.square_sum);
    if (wiring.twin) work.gradients[x.group] = x.gradient;
    work.tie_done = true;
    maybe_report();
  }
  void on(const StageDone& x) {
    if (!fresh(x.key)) return;
    seen(x.due);
    work.stage_done = true;
    work.groups = x.groups;
    work.loss = x.loss;
    maybe_report();
  }
  void maybe_report() {
    if (work.reported || !work.stage_done || !work.tie_done || work.reduced < work.groups) return;
    work.reported = true;
    if (wiring.twin) post(self, job->world, wiring.twin, TwinGradients{key, std::move(work.gradients), work.due});
    IterationReady ready{key, place, work.square_sum, work.loss.loss, work.loss.tokens, work.due};
    if (job->controls.round_norm_per_stage) {  // negative control: a rounded partial sum
      ready.square_sum = {};
      ready.square_sum.add(static_cast<double>(static_cast<float>(work.square_sum.value())));
    }
    job->world.tell({RunEvent::ready, key.iteration, place, {}});
    if (job->world.rarely("reducer is ready late")) return tell_after(self, Duration{1000}, wiring.coordinator, ready);
    post(self, job->world, wiring.coordinator, ready);
  }
};

ReducerActor::behavior_type reducer_behavior(ReducerActor::stateful_pointer<ReducerState> self, JobRef job,
                                             Place place) {
  ReducerState& s = self->state;
  s.self = self;
  s.job = job;
  s.place = place;
  // A model that is never initialised, to ask what the stage will hold.
  const StageModel model(job->plan.arithmetic[place.stage.value], job->plan.share(job->topology, place),
                         Arena::make("none", {}));
  s.role = model.tie_role();
  s.embedding = model.arithmetic().embedding_group();
  s.head = model.arithmetic().head_group();
  return behavior_of(ReducerActor{}, s);
}

}  // namespace

ReducerActor spawn_reducer(JobRef job, Place place) {
  caf::actor_system& system = job->world.system();
  return system.spawn(reducer_behavior, std::move(job), place);
}

}  // namespace stagecraft
