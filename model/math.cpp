#include "model/math.hpp"

#include <bit>
#include <cmath>
#include <cstddef>
#include <limits>

#include "model/kernels/exp_template.hpp"
#include "model/kernels/lanes_array.hpp"

namespace stagecraft::math {

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN();

// ln 2 and pi / 2 as sums of doubles: with a fused multiply-add the first step of a reduction is exact.
constexpr double ln2_high = 0x1.62e42fefa39efp-1, ln2_low = 0x1.abc9e3b39803fp-56;
constexpr double half_pi_1 = 0x1.921fb54442d18p+0, half_pi_2 = 0x1.1a62633145c07p-54, half_pi_3 = -0x1.f1976b8p-110;

/// The integer nearest to x, for |x| < 2^51, as a double and as an integer.
struct Nearest {
  double value;
  std::int64_t integer;
};
Nearest nearest(double x) {
  constexpr double shift = 0x1.8p52;
  const double shifted = x + shift;
  return {shifted - shift, std::bit_cast<std::int64_t>(shifted) - std::bit_cast<std::int64_t>(shift)};
}

double power_of_two(std::int64_t n) { return std::bit_cast<double>(static_cast<std::uint64_t>(n + 1023) << 52); }

/// Taylor series of e^r for |r| <= ln2 / 2; the first term left out is below 2^-57.
double exp_series(double r) {
  double p = 1;
  for (int k = 14; k >= 1; --k) p = std::fma(p, r / k, 1.0);
  return p;
}

/// sin r - r and cos r - 1 by their Taylor series for |r| <= pi / 4.
double sine(double r) {
  const double square = r * r;
  double p = 1;
  for (int k = 18; k >= 4; k -= 2) p = std::fma(p, -square / ((k + 1) * k), 1.0);
  return std::fma(r, p * (-square / 6), r);
}
double cosine(double r) {
  const double square = r * r;
  double p = 1;
  for (int k = 18; k >= 4; k -= 2) p = std::fma(p, -square / (k * (k - 1)), 1.0);
  return std::fma(p, square * -0.5, 1.0);
}

/// sin(x + quarters pi / 2).
double turned(double x, std::int64_t quarters) {
  const Nearest n = nearest(x * (2 / pi));
  double r = std::fma(-n.value, half_pi_1, x);
  r = std::fma(-n.value, half_pi_2, r);
  r = std::fma(-n.value, half_pi_3, r);
  const auto quadrant = static_cast<unsigned>(n.integer + quarters) & 3U;
  const double magnitude = (quadrant & 1U) != 0 ? cosine(r) : sine(r);
  return (quadrant & 2U) != 0 ? -magnitude : magnitude;
}

}  // namespace

float exp(float x) { return exp_of(Lanes<1>::broadcast(x)).v[0]; }

double exp(double x) {
  if (x > 709.79) return infinity;
  if (x < -746) return 0;
  if (x != x) return x;
  const Nearest n = nearest(x * (1 / ln2_high));
  const double r = std::fma(-n.value, ln2_low, std::fma(-n.value, ln2_high, x));
  const std::int64_t half = n.integer / 2;
  return exp_series(r) * power_of_two(half) * power_of_two(n.integer - half);
}

double log(double x) {
  if (x == 0) return -infinity;
  if (!(x > 0)) return not_a_number;
  if (x == infinity) return x;
  // x = 2^e m with m in [sqrt(1/2), sqrt(2)); log m = 2 atanh s with s = (m - 1) / (m + 1), |s| < 0.172.
  const bool subnormal = x < std::numeric_limits<double>::min();
  const auto word = std::bit_cast<std::uint64_t>(subnormal ? x * 0x1p54 : x);
  std::int64_t e = static_cast<std::int64_t>(word >> 52) - 1023 - (subnormal ? 54 : 0);
  double m = std::bit_cast<double>((word & 0x000fffffffffffffULL) | 0x3ff0000000000000ULL);
  if (m > 1.4142135623730951) m *= 0.5, ++e;
  const double f = m - 1;
  const double s = f / (2 + f);
  const double square = s * s;
  double series = 1.0 / 23;
  for (int k = 21; k >= 3; k -= 2) series = std::fma(series, square, 1.0 / k);
  // 2 atanh s = f - s (f - 2 square series): the leading term is exact.
  const double tail = -s * (f - 2 * square * series);
  const auto n = static_cast<double>(e);
  return std::fma(n, ln2_high, f + std::fma(n, ln2_low, tail));
}

double sin(double x) { return turned(x, 0); }

double cos(double x) { return turned(x, 1); }

double pow(double base, double exponent) { return exp(exponent * log(base)); }

double powi(double base, std::uint64_t exponent) {
  double result = 1;
  for (double square = base; exponent != 0; exponent >>= 1, square *= square)
    if ((exponent & 1) != 0) result *= square;
  return result;
}

}  // namespace stagecraft::math
