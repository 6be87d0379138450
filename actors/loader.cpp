#include "actors/loader.hpp"

#include "actors/faults/planted.hpp"

namespace stagecraft {

namespace {

struct LoaderState {
  static inline const char* name = "loader";

  LoaderActor::pointer self = nullptr;
  JobRef job;
  std::vector<std::vector<StageActor>> stages;
  std::map<Iteration, std::vector<std::shared_ptr<const TokenBatch>>> ready;  // at most two iterations
  std::map<ReplicaId, Key> answered;

  const std::vector<std::shared_ptr<const TokenBatch>>& batches(Iteration iteration) {
    auto [it, missing] = ready.try_emplace(iteration);
    if (missing)
      for (std::uint32_t m = 0; m < job->topology.training.micro_batches; ++m)
        it->second.push_back(job->batches(iteration, MicroBatch{m}));
    while (ready.size() > 2) ready.erase(ready.begin()->first == iteration ? std::next(ready.begin()) : ready.begin());
    return ready.at(iteration);
  }

  void on(const NewStage& x) { stages[x.place.replica.value][x.place.stage.value] = x.stage; }
  void on(const Prefetch& x) { batches(x.iteration); }
  void on(const Announce& x) {
    Key& last_key = answered[x.replica];
    if (x.key <= last_key) return;  // it came twice
    if (planted(PlantedBug::loader_answers_once) && x.key.iteration == last_key.iteration) return;
    last_key = x.key;
    const auto& all = batches(x.key.iteration);
    const StagePlan& plan = job->plan_of({{0}, x.replica});
    const auto& to = stages[x.replica.value];
    const ChunkId first{0}, last = job->last_chunk();
    for (std::uint32_t m = plan.first.value; m < plan.first.value + plan.micro_batches; ++m) {
      post(self, job->world, to[job->stage_of(first).value], Tokens{x.key, first, all[m], x.due});
      if (last != first) post(self, job->world, to[job->stage_of(last).value], Tokens{x.key, last, all[m], x.due});
    }
    const Iteration next{x.key.iteration.value + 1};
    if (next.value <= job->topology.job.iterations && !ready.contains(next) &&
        !job->world.rarely("loader builds no batch ahead"))
      tell(self, LoaderActor{self}, Prefetch{next});
  }
};

LoaderActor::behavior_type loader_behavior(LoaderActor::stateful_pointer<LoaderState> self, JobRef job,
                                           std::vector<std::vector<StageActor>> stages) {
  LoaderState& s = self->state;
  s.self = self;
  s.job = std::move(job);
  s.stages = std::move(stages);
  return behavior_of(LoaderActor{}, s);
}

}  // namespace

LoaderActor spawn_loader(JobRef job, std::vector<std::vector<StageActor>> stages) {
  caf::actor_system& system = job->world.system();
  return system.spawn(loader_behavior, std::move(job), std::move(stages));
}

}  // namespace stagecraft
