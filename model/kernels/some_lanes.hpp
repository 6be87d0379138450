// Loads and stores of fewer than sixteen floats, for any vector F of sixteen.
// Thread promise: pure.
#pragma once

#include <cstddef>

namespace stagecraft {

/// The first `count` floats at p, zeros in the other lanes; sixteen when count >= 16.
template <class F>
F load_some(const float* p, std::size_t count) {
  if (count >= 16) return F::load(p);
  alignas(64) float lanes[16] = {};
  for (std::size_t i = 0; i < count; ++i) lanes[i] = p[i];
  return F::load(lanes);
}

/// Stores the first `count` lanes; sixteen when count >= 16.
template <class F>
void store_some(F x, float* p, std::size_t count) {
  if (count >= 16) return x.store(p);
  alignas(64) float lanes[16];
  x.store(lanes);
  for (std::size_t i = 0; i < count; ++i) p[i] = lanes[i];
}

}  // namespace stagecraft
