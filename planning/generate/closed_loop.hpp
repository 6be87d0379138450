// The closed forms with loop placement and a fused backward: gpipe, 1f1b, interleaved, bfs. They look at no times.
// Pure; any thread.
#pragma once

#include <cstdint>
#include <vector>

#include "planning/schedule.hpp"
#include "planning/shape.hpp"

namespace stagecraft {

/// Per stage, the forwards (of all its chunks) before the first backward. gpipe and bfs: all of them. 1f1b:
/// min(m, p-s). interleaved: min(m v, 2 (p-1-s) + (v-1) g + 1) with g the size of the first group of micro-batches
/// (Narayanan et al. 2021, with groups that differ by at most one, the larger first).
std::vector<std::uint32_t> closed_loop_warmup(ScheduleKind kind, const PipelineShape& shape);

/// The lists, every micro-batch in increasing order per chunk and direction. gpipe and bfs have no use for `warmup`.
Schedule closed_loop(ScheduleKind kind, const PipelineShape& shape, const std::vector<std::uint32_t>& warmup);

}  // namespace stagecraft
