#include "planning/partition.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "planning/bug.hpp"

namespace stagecraft {
namespace {

using Layout = std::vector<std::uint32_t>;

TEST(Partition, an_even_layout_gives_the_remainder_to_the_first_chunks) {
  EXPECT_EQ(even_layout(30, 4), (Layout{8, 8, 7, 7}));
  EXPECT_EQ(even_layout(8, 4), (Layout{2, 2, 2, 2}));
  EXPECT_EQ(even_layout(5, 1), (Layout{5}));
}

TEST(Partition, more_chunks_than_layers_leave_the_last_ones_empty) {
  EXPECT_EQ(even_layout(3, 5), (Layout{1, 1, 1, 0, 0}));
}

TEST(Partition, an_even_layout_adds_up_and_differs_by_at_most_one_for_every_pair) {
  for (std::uint32_t layers = 1; layers <= 100; ++layers) {
    for (std::uint32_t chunks = 1; chunks <= 64; ++chunks) {
      const Layout layout = even_layout(layers, chunks);
      ASSERT_EQ(layout.size(), chunks);
      ASSERT_EQ(std::accumulate(layout.begin(), layout.end(), 0U), layers);
      ASSERT_TRUE(std::is_sorted(layout.rbegin(), layout.rend()));
      ASSERT_LE(layout.front() - layout.back(), 1U);
      ASSERT_FALSE(check_layout(layout, layers, chunks));
    }
  }
}

TEST(Partition, a_layout_of_the_wrong_length_is_refused_with_both_lengths) {
  const auto problem = check_layout(Layout{8, 8, 8}, 24, 4);
  ASSERT_TRUE(problem);
  EXPECT_EQ(problem->kind, LayoutProblem::Kind::length);
  EXPECT_EQ(problem->expected, 4U);
  EXPECT_EQ(problem->got, 3U);
}

TEST(Partition, a_layout_with_the_wrong_sum_is_refused_with_both_sums) {
  const auto problem = check_layout(Layout{7, 7, 7, 7}, 30, 4);
  ASSERT_TRUE(problem);
  EXPECT_EQ(problem->kind, LayoutProblem::Kind::sum);
  EXPECT_EQ(problem->expected, 30U);
  EXPECT_EQ(problem->got, 28U);
}

TEST(Partition, a_sum_beyond_32_bits_does_not_wrap_around_to_the_right_one) {
  const Layout layout{0xffffffffU, 31U};  // 30 in 32 bits
  const auto problem = check_layout(layout, 30, 2);
  ASSERT_TRUE(problem);
  EXPECT_EQ(problem->got, 0xffffffffULL + 31);
}

TEST(Partition, no_chunks_at_all_is_a_bug) { EXPECT_THROW(even_layout(3, 0), Bug); }

}  // namespace
}  // namespace stagecraft
