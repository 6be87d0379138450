#include "actors/held_state.hpp"

#include "model/optimizer.hpp"
#include "planning/bug.hpp"

namespace stagecraft {

StageState state_of(StageModel& model, Place place) {
  StageState state{place, {}, {}, {}, model.arena().peak(), model.arena().overdrafts()};
  for (const GroupId g : model.groups()) {
    state.parameters[g] = model.parameters(g);
    if (model.is_alias(g)) continue;
    state.first_moments[g] = model.first_moment(g);
    state.second_moments[g] = model.second_moment(g);
  }
  return state;
}

std::vector<GroupId> groups_of(const Arithmetic& arithmetic, LayerRun layers) {
  std::vector<GroupId> groups;
  for (std::uint32_t layer = layers.begin; layer < layers.end; ++layer)
    for (const GroupId g : arithmetic.groups_of(UnitId{layer + 1})) groups.push_back(g);
  return groups;
}

StepFactors factors_of(const Job& job, const Decision& decision) {
  STAGECRAFT_ASSERT(decision.kind == Decision::Kind::step, "the factors of a step that is not taken");
  return step_factors(job.topology.training.optimizer, decision.step, job.topology.job.iterations, decision.clip,
                      decision.tokens);
}

}  // namespace stagecraft
