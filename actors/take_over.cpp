#include "actors/take_over.hpp"

#include "actors/batches.hpp"
#include "actors/migrator.hpp"
#include "actors/runtime.hpp"

namespace stagecraft {

namespace {

// Stages that live on go on by the plans they have until the first Open, which brings them those of this one.
JobPlan plan_in_force(const Job& before, const Layout& layout) {
  if (layout == before.plan.layers) return before.plan;
  Planned planned = plan_for(before, layout);
  if (!planned.plan) throw CannotStart(planned.refusal);
  return std::move(*planned.plan);
}

}  // namespace

JobRef take_over(const Job& before, const Succession& from, const NodeHandles& node, const LeaderFiles& files) {
  const Minutes& minutes = from.newest;
  if (minutes.key == Key{}) throw CannotStart("the leading node was lost before it opened the first iteration");
  Topology topology = before.topology;
  topology.pipeline.layout = minutes.layout;
  Batches batches{before.batches, before.corpus_sha256};
  if (!batches.source) batches = open_batches(before.world, topology);
  std::optional<CheckpointPlan> checkpoint;
  if (before.checkpoint)
    checkpoint = CheckpointPlan{files.checkpoint_folder, identity_of(topology, batches.sha256),
                                topology.checkpoint.every, topology.checkpoint.keep};
  std::vector<Move> moves;
  for (const Move& move : before.moves)
    if (move.at > minutes.key.iteration) moves.push_back(move);
  const StartPoint start{minutes.key.iteration.value - 1, minutes.steps, minutes.tokens};
  auto job = std::make_shared<const Job>(Job{before.world, std::move(topology), plan_in_force(before, minutes.layout),
                                             before.controls, std::move(batches.source), std::move(batches.sha256),
                                             files.log, files.trace, std::move(checkpoint), start, std::move(moves)});
  tell_from_outside(node.node, TakeOver{job, from});
  return job;
}

}  // namespace stagecraft
