#include "planning/random.hpp"

#include <array>
#include <bit>
#include <limits>
#include <set>

#include <gtest/gtest.h>

namespace stagecraft {
namespace {

TEST(Random, the_mixer_and_the_name_hash_give_their_published_values) {
  EXPECT_EQ(mix_bits(0), 0xE220A8397B1DCDAFULL) << "first output of SplitMix64 with seed 0";
  EXPECT_EQ(mix_bits(0x9e3779b97f4a7c15ULL), 0x6E789E6AA1B965F4ULL) << "second output of SplitMix64 with seed 0";
  EXPECT_EQ(name_key(""), 0xCBF29CE484222325ULL) << "FNV-1a of nothing";
  EXPECT_EQ(name_key("a"), 0xAF63DC4C8601EC8CULL) << "FNV-1a of a";
  EXPECT_EQ(name_key("foobar"), 0x85944171F73967E8ULL) << "FNV-1a of foobar";
}

TEST(Random, every_key_and_its_place_matters) {
  EXPECT_EQ(keyed(7, 1, 2), keyed(7, 1, 2));
  EXPECT_NE(keyed(7, 1, 2), keyed(7, 2, 1));
  EXPECT_NE(keyed(7, 1, 2), keyed(8, 1, 2));
  EXPECT_NE(keyed(7, 1), keyed(7, 1, 0));
}

TEST(Random, bounded_numbers_stay_within_bounds_and_reach_all) {
  EXPECT_EQ(bounded(std::numeric_limits<std::uint64_t>::max(), 10), 9u);
  EXPECT_EQ(bounded(0, 10), 0u);
  std::array<int, 10> hits{};
  for (std::uint64_t i = 0; i < 10000; ++i) ++hits[bounded(keyed(3, i), 10)];
  for (int count : hits) EXPECT_NEAR(count, 1000, 150);
}

TEST(Random, neighbouring_keys_differ_in_about_half_of_their_bits) {
  int bits = 0;
  for (std::uint64_t i = 0; i < 1000; ++i) bits += std::popcount(keyed(1, i) ^ keyed(1, i + 1));
  EXPECT_NEAR(bits / 1000.0, 32.0, 1.0);
}

TEST(Entropy, a_stream_is_its_seed_and_its_name) {
  Entropy a(7, "faults"), b(7, "faults"), other_name(7, "order"), other_seed(8, "faults");
  const auto first = a.next();
  EXPECT_EQ(first, b.next());
  EXPECT_NE(first, other_name.next());
  EXPECT_NE(first, other_seed.next());
  EXPECT_NE(first, a.next());
}

TEST(Entropy, between_reaches_both_ends_and_no_more) {
  Entropy entropy(1, "ends");
  std::set<std::uint64_t> seen;
  for (int i = 0; i < 200; ++i) seen.insert(entropy.between(3, 6));
  EXPECT_EQ(seen, (std::set<std::uint64_t>{3, 4, 5, 6}));
}

}  // namespace
}  // namespace stagecraft
