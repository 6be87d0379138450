#include "model/exact_sum.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "planning/random.hpp"

namespace stagecraft {
namespace {

/// Numbers of both signs over sixty powers of two.
std::vector<double> wild_numbers(std::size_t count) {
  Entropy entropy(3, "exact sum");
  std::vector<double> numbers(count);
  for (double& x : numbers) {
    const double mantissa = static_cast<double>(entropy.next() >> 11) * 0x1p-53;
    x = std::ldexp(mantissa - 0.5, static_cast<int>(entropy.below(60)) - 30);
  }
  return numbers;
}

ExactSum sum_of(const std::vector<double>& numbers) {
  ExactSum sum;
  for (double x : numbers) sum.add(x);
  return sum;
}

TEST(ExactSum, order_of_addition_does_not_matter) {
  auto numbers = wild_numbers(2000);
  const ExactSum forwards = sum_of(numbers);
  std::reverse(numbers.begin(), numbers.end());
  const ExactSum backwards = sum_of(numbers);
  std::sort(numbers.begin(), numbers.end());
  const ExactSum sorted = sum_of(numbers);
  EXPECT_EQ(forwards, backwards);
  EXPECT_EQ(forwards, sorted);
  EXPECT_EQ(forwards.value(), sorted.value());
}

TEST(ExactSum, grouping_does_not_matter) {
  const auto numbers = wild_numbers(1000);
  ExactSum parts;
  for (std::size_t first = 0; first < numbers.size(); first += 77) {
    ExactSum part;
    for (std::size_t i = first; i < std::min(first + 77, numbers.size()); ++i) part.add(numbers[i]);
    parts.add(part);
  }
  EXPECT_EQ(parts, sum_of(numbers));
}

TEST(ExactSum, small_numbers_survive_large_ones_that_cancel) {
  ExactSum sum;
  sum.add(0x1p80);
  sum.add(3 * 0x1p-96);
  sum.add(-0x1p80);
  EXPECT_EQ(sum.value(), 3 * 0x1p-96);
}

TEST(ExactSum, one_number_comes_back_unchanged) {
  for (double x :
       {0.0, 1.0, -1.0, 0.1, -0.1, 123456.789, 0x1.fffffffffffffp89, -0x1.fffffffffffffp89, 0x1p-96, 1e-10}) {
    ExactSum sum;
    sum.add(x);
    EXPECT_EQ(sum.value(), x);
    EXPECT_TRUE(sum.valid());
  }
}

TEST(ExactSum, numbers_are_rounded_to_the_nearest_multiple_with_ties_to_even) {
  const auto rounded = [](double multiples) {
    ExactSum sum;
    sum.add(multiples * 0x1p-96);
    return sum.value() * 0x1p96;
  };
  EXPECT_EQ(rounded(0.5), 0);
  EXPECT_EQ(rounded(0.75), 1);
  EXPECT_EQ(rounded(1.5), 2);
  EXPECT_EQ(rounded(2.5), 2);
  EXPECT_EQ(rounded(-1.5), -2);
  EXPECT_EQ(rounded(0x1p-60), 0);
  EXPECT_EQ(rounded(1.25), 1);
  ExactSum tiny;
  tiny.add(std::numeric_limits<double>::denorm_min());
  tiny.add(-std::numeric_limits<double>::min());
  EXPECT_EQ(tiny, ExactSum{});
}

TEST(ExactSum, the_value_is_rounded_once) {
  ExactSum half_way;
  half_way.add(0x1p53);
  half_way.add(1.0);
  EXPECT_EQ(half_way.value(), 0x1p53);  // a tie, to even
  half_way.add(0x1p-96);
  EXPECT_EQ(half_way.value(), 0x1p53 + 2);  // just above the tie
  ExactSum negative;
  negative.add(-0x1p53);
  negative.add(-3.0);
  EXPECT_EQ(negative.value(), -(0x1p53 + 4));  // a tie, to even
  ExactSum carries;
  carries.add(0x1p54 - 1.0);
  carries.add(0.75);
  EXPECT_EQ(carries.value(), 0x1p54);
}

TEST(ExactSum, the_value_is_the_nearest_double_of_an_integer_sum) {
  Entropy entropy(9, "integers");
  __extension__ using Wide = __int128;
  for (int round = 0; round < 200; ++round) {
    ExactSum sum;
    Wide exact = 0;
    for (int i = 0; i < 50; ++i) {
      const auto x = static_cast<double>(static_cast<std::int64_t>(entropy.next()) >> entropy.below(60));
      sum.add(x);
      exact += static_cast<Wide>(x);
    }
    EXPECT_EQ(sum.value(), static_cast<double>(exact));
  }
}

TEST(ExactSum, what_cannot_be_represented_makes_it_invalid_for_good) {
  const double infinity = std::numeric_limits<double>::infinity();
  for (double x : {infinity, -infinity, std::numeric_limits<double>::quiet_NaN(), 0x1p90, -0x1p90, 1e300}) {
    ExactSum sum;
    sum.add(1.0);
    sum.add(x);
    EXPECT_FALSE(sum.valid());
    sum.add(1.0);
    EXPECT_FALSE(sum.valid());
    EXPECT_TRUE(std::isnan(sum.value()));
    ExactSum other;
    other.add(2.0);
    EXPECT_FALSE(other == sum);
    other.add(sum);
    EXPECT_FALSE(other.valid());
    EXPECT_EQ(other, sum);
  }
}

TEST(ExactSum, a_total_beyond_the_range_makes_it_invalid) {
  ExactSum sum;
  for (int i = 0; i < 63; ++i) sum.add(0x1p89);
  EXPECT_TRUE(sum.valid());
  sum.add(0x1p89);
  EXPECT_FALSE(sum.valid());
}

TEST(ExactSum, limbs_carry_it_across_a_message) {
  const ExactSum sum = sum_of(wild_numbers(100));
  EXPECT_EQ(ExactSum::from_limbs(sum.limbs(), sum.valid()), sum);
  EXPECT_FALSE(ExactSum::from_limbs(sum.limbs(), false) == sum);
  ExactSum one;
  one.add(1.0);
  EXPECT_EQ(one.limbs(), (ExactSum::Limbs{0, std::uint64_t{1} << 32, 0}));
  ExactSum minus;
  minus.add(-0x1p-96);
  EXPECT_EQ(minus.limbs(), (ExactSum::Limbs{~std::uint64_t{0}, ~std::uint64_t{0}, ~std::uint64_t{0}}));
}

}  // namespace
}  // namespace stagecraft
