#include "actors/state_view.hpp"

#include <algorithm>

namespace stagecraft {

namespace {

// A replica holds the moments of its own blocks, packed.
void add_moments(const Arithmetic& arithmetic, GroupId group, const StageState& state, std::uint32_t replicas,
                 GroupFragments& fragments) {
  const Tensor &first_moment = state.first_moments.at(group), &second_moment = state.second_moments.at(group);
  std::size_t at = 0;
  each_owned_block(arithmetic, group, state.place.replica, replicas, [&](std::size_t first, std::size_t count) {
    fragments.first_moments.push_back({first, {first_moment.data() + at, count}});
    fragments.second_moments.push_back({first, {second_moment.data() + at, count}});
    at += count;
  });
}

}  // namespace

StateView view_of(const Job& job, const std::vector<StageState>& states) {
  const Arithmetic& arithmetic = *job.plan.arithmetic[0];
  StateView view;
  for (const StageState& state : states)
    for (const auto& [group, parameters] : state.parameters) {
      if (arithmetic.tied() && group == arithmetic.head_group()) continue;
      GroupFragments& fragments = view[group];
      if (fragments.parameters.empty()) fragments.parameters.push_back({0, {parameters.data(), parameters.size()}});
      add_moments(arithmetic, group, state, job.topology.pipeline.replicas, fragments);
    }
  const auto by_place = [](const Fragment& a, const Fragment& b) { return a.first < b.first; };
  for (auto& [group, fragments] : view)
    for (auto* moments : {&fragments.first_moments, &fragments.second_moments})
      std::sort(moments->begin(), moments->end(), by_place);
  return view;
}

}  // namespace stagecraft
