#include "model/optimizer.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "model/math.hpp"

namespace stagecraft {

double clip_factor(const OptimizerSpec& spec, const ExactSum& square_sum, std::uint64_t tokens) {
  if (!square_sum.valid()) return std::numeric_limits<double>::quiet_NaN();
  if (spec.clip == 0 || tokens == 0) return 1;
  const double norm = std::sqrt(square_sum.value()) / static_cast<double>(tokens);
  return norm <= spec.clip ? 1 : spec.clip / norm;
}

double learning_rate(const OptimizerSpec& spec, std::uint64_t step, std::uint64_t total_steps) {
  const double full = spec.learning_rate;
  const std::uint64_t warmup = spec.warmup_steps;
  if (step < warmup) return full * (static_cast<double>(step) / static_cast<double>(warmup));
  if (spec.schedule == RateSchedule::constant || total_steps <= warmup) return full;
  const double done = static_cast<double>(std::min(step, total_steps) - warmup);
  const double progress = done / static_cast<double>(total_steps - warmup);
  const double left = spec.schedule == RateSchedule::linear ? 1 - progress : 0.5 * (1 + math::cos(math::pi * progress));
  return full * (spec.final_fraction + (1 - spec.final_fraction) * left);
}

StepFactors step_factors(const OptimizerSpec& spec, std::uint64_t step, std::uint64_t total_steps, double clip_factor,
                         std::uint64_t tokens) {
  StepFactors factors;
  factors.gradient_scale = tokens == 0 ? 0.0F : static_cast<float>(clip_factor / static_cast<double>(tokens));
  factors.learning_rate = static_cast<float>(learning_rate(spec, step, total_steps));
  factors.weight_decay = static_cast<float>(spec.weight_decay);
  factors.beta1 = static_cast<float>(spec.beta1);
  factors.beta2 = static_cast<float>(spec.beta2);
  factors.epsilon = static_cast<float>(spec.epsilon);
  factors.bias1 = static_cast<float>(1 / (1 - math::powi(spec.beta1, step)));
  factors.bias2 = static_cast<float>(1 / (1 - math::powi(spec.beta2, step)));
  return factors;
}

}  // namespace stagecraft
