// Random pipelines with a plan for each, for the property tests of `follow`. Values only; any thread.
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "planning/beam.hpp"
#include "planning/follow.hpp"
#include "planning/random.hpp"
#include "tests/planning/pipelines.hpp"

namespace stagecraft::pipelines {

/// A problem, a schedule for it, and its replay.
struct Planned {
  PipelineProblem problem;
  Schedule schedule;
  SimulationResult forecast;
};

inline bool keeps_caps(const std::vector<StageCaps>& caps, const SimulationResult& result) {
  for (std::size_t s = 0; s < caps.size(); ++s) {
    if (result.peaks[s].activations > caps[s].activations.value_or(~0U)) return false;
    if (result.peaks[s].pending_weights > caps[s].pending_weights.value_or(~0U)) return false;
    if (result.peaks[s].held > caps[s].held.value_or(~0U)) return false;
  }
  return true;
}

/// The shorter one that runs within the caps.
inline void consider(std::optional<Planned>& best, const PipelineProblem& problem, Schedule schedule) {
  SimulationResult forecast = replay(problem, schedule);
  if (forecast.hung || !keeps_caps(problem.caps, forecast)) return;
  if (!best || forecast.makespan < best->forecast.makespan)
    best = Planned{problem, std::move(schedule), std::move(forecast)};
}

/// One chunk per stage: the best of the zero-bubble heuristic and the closed forms that the caps allow.
inline std::optional<Planned> plan_by_heuristics(const PipelineProblem& problem) {
  std::optional<Planned> best;
  for (const ScheduleKind kind : {ScheduleKind::zb_auto, ScheduleKind::zb_h1, ScheduleKind::zb_h2})
    consider(best, problem, generate(kind, problem));
  return best;
}

/// One chunk per stage: the heuristic and a beam search.
inline Planned plan_by_search(const PipelineProblem& problem) {
  std::optional<Planned> best;
  consider(best, problem, generate(ScheduleKind::zb_auto, problem));
  consider(best, problem, std::get<BeamResult>(beam_search(problem, 16)).schedule);
  return best.value();
}

/// The stages follow the plan; links, times and bytes are those of `truth`.
inline SimulationInput follow_input(const Planned& planned, const PipelineProblem& truth) {
  return simulation_of(truth, follow_plans(planned.problem, planned.schedule, planned.forecast));
}

inline std::string to_text(const PipelineProblem& problem) {
  std::string text = to_text(problem.shape);
  for (const OperatorTimes& t : problem.times)
    text += fmt::format("; {}/{}/{}", t.forward.count(), t.backward_input.count(), t.backward_weight.count());
  for (const LinkCost& l : problem.forward_links)
    text += fmt::format("; link {}+{}", l.latency.count(), l.occupancy.count());
  const auto number = [](const std::optional<std::uint32_t>& cap) { return cap ? std::to_string(*cap) : "-"; };
  for (const StageCaps& c : problem.caps)
    text += "; caps " + number(c.activations) + " " + number(c.pending_weights) + " " + number(c.held);
  return text;
}

}  // namespace stagecraft::pipelines
