// The closed forms of the zero-bubble family with one chunk per stage: zb-h1 and zb-h2 (Qi et al., ICLR 2024). They
// look at no times. Pure; any thread.
#pragma once

#include <cstdint>
#include <vector>

#include "planning/schedule.hpp"
#include "planning/shape.hpp"

namespace stagecraft {

/// Per stage, the forwards before the first backward. zb-h1: min(m, p-s), as 1f1b. zb-h2: min(m, 2 (p-1-s) + 1), which
/// fills the wait for the first backward.
std::vector<std::uint32_t> zero_bubble_warmup(ScheduleKind kind, const PipelineShape& shape);

/// `warmup` forwards, then B and F in turn; W lags behind B by s (zb-h1) or 2s (zb-h2) micro-batches on stage s, so
/// that every stage holds as much as the first; what is left of W comes last. With equal operators and m large enough
/// the longest stage idles (p-1)(F+B-W) in zb-h1 and (p-1)(F+B-2W) in zb-h2.
Schedule zero_bubble(ScheduleKind kind, const PipelineShape& shape, const std::vector<std::uint32_t>& warmup);

}  // namespace stagecraft
