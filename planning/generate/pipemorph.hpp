// The published planner for slow links, the baseline to beat: PipeMorph's Algorithms 1 to 4 (NSDI 2026). Pure; any
// thread.
#pragma once

#include <cstdint>
#include <vector>

#include "planning/problem.hpp"
#include "planning/schedule.hpp"

namespace stagecraft {

/// Algorithm 1: the plan while no link is known to be slow. `most` forwards on the first stage, 1 on the last, and the
/// difference shared out evenly, the first links getting what is left over. One stage: 1.
std::vector<std::int64_t> spread_warmup(std::uint32_t stages, std::uint32_t most);

/// Algorithm 2: the plan for known delays, which takes what a message needs from hand-over to arrival for its link's
/// delay. x_i = x_{i+1} + min(m - 2p, max(2, ceil((tF_i + tB_i + 2 c_i) / (tF_{i+1} + tB_{i+1})))), the last stage 1.
/// As printed: memory isn't looked at, and with m < 2p the clip m - 2p makes the numbers fall upstream, even below 0.
std::vector<std::int64_t> delayed_warmup(const PipelineProblem& problem);

/// Algorithms 3 and 4, the list that results if every stage runs its warm-up and then whatever is there, B before F
/// before W, and no F between the warm-up and its first B. The clock jumps from event to event instead of ticking.
/// Warm-ups are raised to at least 1 and the next stage's and cut to all micro-batches; otherwise the rules would wait
/// for ever. One chunk per stage; links by their crossing times. `warmup` empty: by Algorithm 1 with the first stage's
/// cap on F - B (or else on F - W) if there is one and no link takes time, else by Algorithm 2.
Schedule pipemorph(const PipelineProblem& problem, const std::vector<std::uint32_t>& warmup);

}  // namespace stagecraft
