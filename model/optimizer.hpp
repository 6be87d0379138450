// The scalars of an optimizer step: clip factor, learning rate, bias corrections. Computed once, used by every owner.
// Pure functions; any thread.
#pragma once

#include <cstdint>

#include "config/topology.hpp"
#include "model/arithmetic.hpp"
#include "model/exact_sum.hpp"

namespace stagecraft {

/// What the gradient is multiplied by so that its norm is at most `spec.clip`; 1 when clipping is off or not needed.
/// `square_sum` is of gradients that are sums over `tokens` tokens: the norm is sqrt(square_sum) / tokens.
/// NaN when the sum is invalid: such a step is skipped, not taken.
double clip_factor(const OptimizerSpec& spec, const ExactSum& square_sum, std::uint64_t tokens);

/// The learning rate of `step` (from 1): linear from 0 to the full rate over `warmup_steps`, then constant, or down to
/// `final_fraction` of it at `total_steps` in a straight line or half a cosine.
double learning_rate(const OptimizerSpec& spec, std::uint64_t step, std::uint64_t total_steps);

/// The numbers of one AdamW step (Loshchilov and Hutter, 2019) with bias correction 1 / (1 - beta^step).
/// step >= 1. With no tokens the gradient scale is 0.
StepFactors step_factors(const OptimizerSpec& spec, std::uint64_t step, std::uint64_t total_steps, double clip_factor,
                         std::uint64_t tokens);

}  // namespace stagecraft
