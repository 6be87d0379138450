// The zero-bubble heuristic (Qi et al., ICLR 2024): a list made for the problem's own operator times, latencies and
// memory. Pure; any thread.
#pragma once

#include <cstdint>
#include <vector>

#include "planning/problem.hpp"
#include "planning/schedule.hpp"

namespace stagecraft {

/// One chunk per stage, B and W apart. Rounds of one forward and one backward on every stage, W where a stage waits or
/// is full; three open questions of the heuristic are settled both ways, and of the 8 lists the one with the shortest
/// longest stage time wins, then the one that ends first. Never above the caps of the problem, each at least 1 (an
/// upstream stage with a smaller cap than the next one's limits that too). Without caps the first backward of a stage
/// waits for as many forwards as fit before its gradient can be there. `warmup`, per stage, sets the forwards before
/// the first backward instead, as far as caps and the stage upstream allow; empty: the heuristic's own.
Schedule zero_bubble_auto(const PipelineProblem& problem, const std::vector<std::uint32_t>& warmup);

}  // namespace stagecraft
