#include "model/math.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "model/kernels/kernels.hpp"
#include "planning/random.hpp"

namespace stagecraft {
namespace {

/// Distance of `got` from `want` in units in the last place of `want` as a T.
template <class T>
long double ulps(T got, long double want) {
  int exponent = 0;
  std::frexp(want, &exponent);
  const int lowest = std::numeric_limits<T>::min_exponent;
  const int digits = std::numeric_limits<T>::digits;
  return std::fabs(static_cast<long double>(got) - want) / std::ldexp(1.0L, std::max(exponent, lowest) - digits);
}

double between(Entropy& entropy, double low, double high) {
  return low + (high - low) * static_cast<double>(entropy.next() >> 11) * 0x1p-53;
}

TEST(Math, float_exp_is_within_two_units_in_the_last_place) {
  Entropy entropy(1, "expf");
  long double worst = 0;
  for (int i = 0; i < 200000; ++i) {
    const auto x = static_cast<float>(between(entropy, -103, 88.7));
    worst = std::max(worst, ulps(math::exp(x), std::exp(static_cast<long double>(x))));
  }
  EXPECT_LT(worst, 2.0L);
  RecordProperty("worst_millionths_of_ulp", static_cast<int>(worst * 1e6L));
}

TEST(Math, float_exp_has_the_right_ends) {
  EXPECT_EQ(math::exp(0.0F), 1.0F);
  EXPECT_EQ(math::exp(-0.0F), 1.0F);
  EXPECT_EQ(math::exp(-200.0F), 0.0F);
  EXPECT_EQ(math::exp(-1e30F), 0.0F);
  EXPECT_EQ(math::exp(-std::numeric_limits<float>::infinity()), 0.0F);
  EXPECT_EQ(math::exp(100.0F), std::numeric_limits<float>::infinity());
  EXPECT_EQ(math::exp(std::numeric_limits<float>::infinity()), std::numeric_limits<float>::infinity());
  EXPECT_TRUE(std::isnan(math::exp(std::numeric_limits<float>::quiet_NaN())));
}

TEST(Math, double_exp_is_within_two_units_in_the_last_place) {
  Entropy entropy(2, "exp");
  long double worst = 0;
  for (int i = 0; i < 100000; ++i) {
    const double x = between(entropy, -708, 709.7);
    worst = std::max(worst, ulps(math::exp(x), std::exp(static_cast<long double>(x))));
  }
  EXPECT_LT(worst, 2.0L);
  EXPECT_EQ(math::exp(0.0), 1.0);
  EXPECT_EQ(math::exp(-1e6), 0.0);
  EXPECT_EQ(math::exp(1e6), std::numeric_limits<double>::infinity());
  EXPECT_TRUE(std::isnan(math::exp(std::numeric_limits<double>::quiet_NaN())));
}

TEST(Math, double_log_is_within_two_units_in_the_last_place) {
  Entropy entropy(3, "log");
  long double worst = 0;
  for (int i = 0; i < 100000; ++i) {
    const double x = i % 2 == 0 ? between(entropy, 0.5, 2.0) : std::ldexp(between(entropy, 1, 2), i % 2000 - 1060);
    if (x == 1) continue;
    worst = std::max(worst, ulps(math::log(x), std::log(static_cast<long double>(x))));
  }
  EXPECT_LT(worst, 2.0L);
  EXPECT_EQ(math::log(1.0), 0.0);
  EXPECT_EQ(math::log(0.0), -std::numeric_limits<double>::infinity());
  EXPECT_TRUE(std::isnan(math::log(-1.0)));
  EXPECT_EQ(math::log(std::numeric_limits<double>::infinity()), std::numeric_limits<double>::infinity());
}

TEST(Math, sine_and_cosine_are_accurate_up_to_a_hundred_thousand) {
  Entropy entropy(4, "sin");
  for (int i = 0; i < 100000; ++i) {
    const double x = between(entropy, -1e5, 1e5) * (i % 3 == 0 ? 1e-4 : 1);
    ASSERT_LT(std::fabs(math::sin(x) - std::sin(static_cast<long double>(x))), 0x1p-51L) << x;
    ASSERT_LT(std::fabs(math::cos(x) - std::cos(static_cast<long double>(x))), 0x1p-51L) << x;
  }
  EXPECT_EQ(math::sin(0.0), 0.0);
  EXPECT_EQ(math::cos(0.0), 1.0);
  EXPECT_EQ(math::cos(math::pi), -1.0);
}

TEST(Math, sine_near_its_zeros_keeps_its_digits) {
  for (int n = 1; n < 30000; n += 7) {
    const double x = n * math::pi;
    ASSERT_LT(ulps(math::sin(x), std::sin(static_cast<long double>(x))), 200.0L) << n;
  }
}

TEST(Math, powers_are_accurate) {
  for (int i = 0; i < 64; ++i) {
    const long double want = std::pow(10000.0L, -2.0L * i / 128);
    EXPECT_LT(ulps(math::pow(10000.0, -2.0 * i / 128), want), 16.0L) << i;
  }
  EXPECT_EQ(math::powi(0.9, 0), 1.0);
  EXPECT_EQ(math::powi(0.9, 1), 0.9);
  EXPECT_EQ(math::powi(2.0, 62), 0x1p62);
  EXPECT_LT(std::fabs(math::powi(0.95, 1000) / std::pow(0.95L, 1000.0L) - 1), 1e-12L);
}

TEST(Math, kernels_and_scalar_exp_have_the_same_bits) {
  Entropy entropy(5, "both");
  for (Isa isa : {Isa::scalar, Isa::avx2}) {
    if (!available(isa)) GTEST_SKIP() << "this CPU has no " << name_of(isa);
    std::vector<float> x(1003), y(x.size());
    for (float& v : x) v = static_cast<float>(between(entropy, -120, 95));
    kernels(isa).exp(x.data(), y.data(), x.size());
    for (std::size_t i = 0; i < x.size(); ++i)
      ASSERT_EQ(std::bit_cast<std::uint32_t>(y[i]), std::bit_cast<std::uint32_t>(math::exp(x[i]))) << x[i];
  }
}

}  // namespace
}  // namespace stagecraft
