// One system on one pipeline whose links are slow: what it runs, over which route, and what comes of it in the
// simulator. Pure functions on values; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "planning/problem.hpp"
#include "planning/reproduce/cell.hpp"
#include "planning/schedule.hpp"
#include "planning/simulate.hpp"

namespace stagecraft::reproduce {

struct SlowLink {
  std::uint32_t link = 0;  ///< between stages link and link + 1, both directions
  Duration delay{};
};

/// A pipeline of one chunk per stage, and what is wrong with it.
struct Setting {
  PipelineShape shape;
  std::vector<OperatorTimes> times;  ///< per stage
  std::vector<SlowLink> slow;
  Injection injection = Injection::occupancy;
  Memory memory = Memory::equal;
  /// How many sends a device-ordered route admits before the next one holds up its device; none: any number.
  std::optional<std::uint32_t> admission = 1;
  std::optional<std::uint32_t> delegates;  ///< per direction of a slow link; none: `delegates_for` its delay
  /// `ours`: stages that follow a list hold no more than the list does, where that is not slower on the links as
  /// believed. If not, they fill their waits with whatever `memory` allows.
  bool frugal = true;
};

/// Delegates per direction of a slow link: 3 for delays up to 30 ms, else 6, as in the artifact.
std::uint32_t delegates_for(Duration delay);

/// What the stages may hold: under `equal` 2p - 1 micro-batches between F and W.
std::vector<StageCaps> caps_of(const Setting& setting);

/// The links as the system meets them. 1f1b and zero-bubble: device-ordered; a slow link's directions take turns on it
/// under zero-bubble, and each has its own place under 1f1b, whose runtime exchanges gradient and activation in one go.
/// The others: a lane per delegate and direction, and no send holds up anyone.
PipelineProblem links_of(const Setting& setting, System system);

/// The zero-bubble list, made without knowledge of a slow link. Warm-ups 2 (p-1-s) + 1. `equal`: ZB-H2, whose W stand
/// between the others; `free`: every W waits until nothing else is ready.
Schedule zero_bubble_list(const Setting& setting);

/// What the stages run, given what is believed of the links.
struct Played {
  std::vector<StagePlan> plans;
  Duration forecast{};  ///< of the makespan, on the links as believed
};
/// Only `pipemorph`, `ours` and `hindsight` (which is ours with the right belief) look at the delays of `believed`.
Played plan_for(const Setting& believed, System system);

struct Outcome {
  Duration makespan{};
  std::uint32_t activations = 0;  ///< the most that any stage holds between F and B
  std::uint32_t held = 0;         ///< the same between F and W
  double idle = 0;                ///< share of all stages' time
};
Outcome outcome_of(const SimulationInput& input);

/// The system plans for the setting as it is, and runs on it.
Outcome play(const Setting& setting, System system);

}  // namespace stagecraft::reproduce
