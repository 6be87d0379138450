// The best schedule of a small pipeline, and the proof that none is better: branch and bound. Pure; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <variant>

#include "planning/feasible.hpp"
#include "planning/schedule.hpp"

namespace stagecraft {

struct ExactOptions {
  std::uint64_t nodes = 1'000'000;                   ///< partial schedules to look at before giving up
  std::size_t memory = std::size_t{256} << 20;       ///< bytes for what is remembered of them; less means more nodes
  std::uint32_t beam_width = 16;                     ///< of the beam search that finds the first schedule
  std::optional<Schedule> incumbent = std::nullopt;  ///< a schedule known already: F, B, W, within the caps
};

struct ExactResult {
  Schedule schedule;
  Duration makespan{};
  Duration lower_bound{};  ///< the makespan where that is proven
  bool proven = false;
  std::uint64_t nodes = 0;
};

/// Depth first over the branching of `SearchSpace`, the most promising first. A partial schedule is dropped when its
/// lower bound is no better than the best schedule found, or when one seen before ran the same operators and is in no
/// respect later. One chunk per stage, split backward. Small means about 50 stages x micro-batches.
std::variant<ExactResult, ImpossibleCap> exact_search(const PipelineProblem& problem, const ExactOptions& options = {});

}  // namespace stagecraft
