// The fused multiply-add peak of this CPU: independent chains in registers only, which no kernel can exceed. The wider
// of AVX2 and AVX-512 that it has. Thread promise: measures the calling thread.
#pragma once

#include <algorithm>

#include "tools/bench/cpu_time.hpp"

// Ten chains: two units of four or five cycles each are kept busy. All registers are zero, so nothing is denormal.
#define STAGECRAFT_FMA_ROUNDS(reg)                                                                              \
  asm volatile(                                                                                                 \
      "vzeroall\n"                                                                                              \
      "1:\n"                                                                                                    \
      "vfmadd231ps %%" reg "10, %%" reg "10, %%" reg "0\n vfmadd231ps %%" reg "10, %%" reg "10, %%" reg         \
      "1\n"                                                                                                     \
      "vfmadd231ps %%" reg "10, %%" reg "10, %%" reg "2\n vfmadd231ps %%" reg "10, %%" reg "10, %%" reg         \
      "3\n"                                                                                                     \
      "vfmadd231ps %%" reg "10, %%" reg "10, %%" reg "4\n vfmadd231ps %%" reg "10, %%" reg "10, %%" reg         \
      "5\n"                                                                                                     \
      "vfmadd231ps %%" reg "10, %%" reg "10, %%" reg "6\n vfmadd231ps %%" reg "10, %%" reg "10, %%" reg         \
      "7\n"                                                                                                     \
      "vfmadd231ps %%" reg "10, %%" reg "10, %%" reg "8\n vfmadd231ps %%" reg "10, %%" reg "10, %%" reg         \
      "9\n"                                                                                                     \
      "dec %0\n"                                                                                                \
      "jnz 1b\n"                                                                                                \
      "vzeroupper\n"                                                                                            \
      : "+r"(rounds)                                                                                            \
      :                                                                                                         \
      : "cc", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", \
        "xmm12", "xmm13", "xmm14", "xmm15")

namespace stagecraft::bench {

namespace detail {
inline void fma_rounds_avx2(long rounds) { STAGECRAFT_FMA_ROUNDS("ymm"); }
inline void fma_rounds_avx512(long rounds) { STAGECRAFT_FMA_ROUNDS("zmm"); }
}  // namespace detail

/// FLOP/s over some milliseconds of CPU time; 0 on a CPU without AVX2 and FMA.
inline double measure_fma_peak() {
  const auto rate = [](void (*body)(long), double lanes) {
    constexpr long rounds = 2'000'000;
    const double begin = cpu_seconds(CLOCK_THREAD_CPUTIME_ID);
    body(rounds);
    return 2 * lanes * 10 * rounds / (cpu_seconds(CLOCK_THREAD_CPUTIME_ID) - begin);
  };
  double peak = 0;
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) peak = rate(detail::fma_rounds_avx2, 8);
  if (__builtin_cpu_supports("avx512f")) peak = std::max(peak, rate(detail::fma_rounds_avx512, 16));
  return peak;
}

}  // namespace stagecraft::bench

#undef STAGECRAFT_FMA_ROUNDS
