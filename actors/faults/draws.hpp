// Draws of a fault: chance and waits from a seeded generator, the same on every machine. Pure but for the generator.
#pragma once

#include "model/math.hpp"
#include "planning/random.hpp"
#include "planning/units.hpp"

namespace stagecraft {

/// Uniform in (0, 1].
inline double unit_draw(Entropy& draws) { return static_cast<double>((draws.next() >> 11) + 1) * 0x1p-53; }

inline bool chance(Entropy& draws, double probability) { return unit_draw(draws) <= probability; }

/// Exponential, by the inverse of its distribution function.
inline Duration exponential(Entropy& draws, Duration mean) {
  return Duration{static_cast<std::int64_t>(-static_cast<double>(mean.count()) * math::log(unit_draw(draws)))};
}

}  // namespace stagecraft
