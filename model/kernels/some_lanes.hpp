// Loads and stores of fewer than sixteen floats, for any vector F of sixteen.
// Thread promise: pure.
#pragma once

#include <cstddef>

namespace stagecraft {

/// The first `count` floats at p, zeros in the other lanes; sixteen when count >= 16. Nothing beyond is read.
template <class F>
[[gnu::always_inline]] inline F load_some(const float* p, std::size_t count) {
  return count >= F::lanes ? F::load(p) : F::load_first(p, count);
}

/// Stores the first `count` lanes; sixteen when count >= 16.
template <class F>
[[gnu::always_inline]] inline void store_some(F x, float* p, std::size_t count) {
  if (count >= F::lanes) return x.store(p);
  x.store_first(p, count);
}

}  // namespace stagecraft
