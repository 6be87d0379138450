// The one door to the generators of schedules: a kind and a problem in, a list per stage out. Pure; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "planning/problem.hpp"
#include "planning/schedule.hpp"
#include "planning/shape.hpp"

namespace stagecraft {

/// Where the chunks of this kind of schedule live: `v` for zb-v, v-half and v-min, else `loop`.
Placement placement_of(ScheduleKind kind);
/// The kind is defined with backward operators in one piece (X): gpipe, 1f1b, interleaved, bfs.
bool is_fused(ScheduleKind kind);
/// Chunks per stage that the kind is defined for: 2 for the V schedules, 1 for the others; none: any number
/// (interleaved, bfs).
std::optional<std::uint32_t> chunks_needed(ScheduleKind kind);

struct GenerateOptions {
  /// Per stage, forwards (of all its chunks) before the first backward; empty: the kind's own. At least one, and never
  /// more than there are. zb-auto and pipemorph change what can't be; a closed form takes any numbers, also an order
  /// that can't proceed. gpipe, bfs and the V schedules have no use for it.
  std::vector<std::uint32_t> warmup;
  /// Write each X as B W.
  bool split = false;
};

/// The lists. Every micro-batch of the shape runs once per chunk and kind, the W (and all else) of one chunk in
/// increasing order, for any number of micro-batches (none: empty lists) and stages. zb-auto and pipemorph plan with
/// the problem's operator times and the crossing times of its links, zb-auto within its caps; the others look at the
/// shape alone. The shape must have the kind's placement, and its chunks (gpipe and 1f1b run more, one chunk after the
/// other).
Schedule generate(ScheduleKind kind, const PipelineProblem& problem, const GenerateOptions& options = {});

/// Per stage: how many forwards (of all its chunks) the schedule starts before its first backward, on equal operators
/// and free links. gpipe and bfs: all of them. 1f1b and zb-h1: min(m, p-s). zb-h2: min(m, 2 (p-1-s) + 1). interleaved:
/// min(m v, 2 (p-1-s) + (v-1) g + 1) with g the size of the first group of micro-batches. At least 1.
std::vector<std::uint32_t> natural_warmup(ScheduleKind kind, const PipelineShape& shape);

/// The lists for equal operators, free links and no caps. `warmup` has one entry per stage and counts as in
/// `natural_warmup`.
Schedule generate(ScheduleKind kind, const PipelineShape& shape, const std::vector<std::uint32_t>& warmup);

}  // namespace stagecraft
