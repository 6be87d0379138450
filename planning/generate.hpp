// Generators of static schedules, loop placement (chunk c on stage c mod stages). Pure; any thread.
#pragma once

#include <cstdint>
#include <vector>

#include "planning/schedule.hpp"
#include "planning/shape.hpp"

namespace stagecraft {

/// Per stage: how many forwards (of all its chunks) the schedule starts before its first backward. gpipe and bfs: all
/// of them. 1f1b: min(m, p-s). interleaved: min(m v, 2 (p-1-s) + (v-1) g + 1) with g the size of the first group of
/// micro-batches (Narayanan et al. 2021, with groups that differ by at most one, the larger first).
std::vector<std::uint32_t> natural_warmup(ScheduleKind kind, const PipelineShape& shape);

/// The lists, with fused backward operators (X), every micro-batch in increasing order per chunk and direction.
/// `warmup` has one entry per stage and counts as in `natural_warmup`; gpipe and bfs have no use for it.
Schedule generate(ScheduleKind kind, const PipelineShape& shape, const std::vector<std::uint32_t>& warmup);

}  // namespace stagecraft
