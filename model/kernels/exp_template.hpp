// e^x over any vector of floats (Lanes, or the vector of an instruction set).
// Thread promise: pure.
#pragma once

namespace stagecraft {

/// x = n ln2 + r with |r| <= ln2 / 2; e^r = 1 + r + r^2 q(r) with q the near-minimax polynomial of degree 4 for
/// (e^r - 1 - r) / r^2 (Chebyshev fit; e^r is within 0.14 x 2^-24); then times 2^n. NaN stays NaN: max and min return
/// their second argument when a comparison fails.
template <class F>
[[gnu::always_inline]] inline F exp_of(F x) {  // a call would pass its vectors through memory
  const F shift = F::broadcast(12582912.0F);   // 1.5 x 2^23: adding it rounds to an integer
  // Beyond these bounds the result is 0 or infinity anyway, and 2^n stays within two factors.
  const F bounded = min(F::broadcast(89.0F), max(F::broadcast(-105.0F), x));
  const F shifted = fma(bounded, F::broadcast(1.44269504F), shift);
  const F minus_n = shift - shifted;
  // The first part is ln2 rounded to float, so the first step is exact.
  const F r = fma(minus_n, F::broadcast(-1.9046542e-9F), fma(minus_n, F::broadcast(0.693147182F), bounded));
  F q = F::broadcast(0.00139262508F);
  q = fma(q, r, F::broadcast(0.00836323288F));
  q = fma(q, r, F::broadcast(0.0416665542F));
  q = fma(q, r, F::broadcast(0.166665767F));
  q = fma(q, r, F::broadcast(0.5F));
  const F p = fma(q, r * r, r) + F::broadcast(1.0F);
  return scale_by_power(p, shifted);
}

}  // namespace stagecraft
