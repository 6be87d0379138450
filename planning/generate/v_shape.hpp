// Schedules of two chunks per stage placed in a V: zb-v (Qi et al., ICLR 2024), v-half and v-min (controllable memory:
// Qi et al., NeurIPS 2024). They look at no times. Pure; any thread.
#pragma once

#include <cstdint>

#include "planning/schedule.hpp"
#include "planning/shape.hpp"

namespace stagecraft {

/// Zero bubble where F = B = W, in the memory of 1f1b: at most min(2m, 2p) micro-batches x chunks on every stage.
Schedule zero_bubble_v(const PipelineShape& shape);

/// v-half or v-min as it is published: one building block per micro-batch, six slots apart, and each W in the first
/// slot after its B that nothing else uses, in the order of the Bs.
Schedule repeated_block(ScheduleKind kind, const PipelineShape& shape);

/// The most micro-batches x chunks that any stage holds (F - W) when the block repeats: v-half 2 floor((p+2)/2), v-min
/// 2 floor((p+4)/3).
std::uint32_t block_memory(ScheduleKind kind, std::uint32_t stages);

}  // namespace stagecraft
