#include "model/reduction.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <set>

#include <gtest/gtest.h>

#include "planning/bug.hpp"
#include "tests/model/llama_fixture.hpp"

namespace stagecraft {
namespace {

using test::Floats;
using test::same_bits;

// -- ranges

// parts ranges that follow each other from 0 to total.
template <class RangeOf>
void expect_partition(std::uint32_t parts, std::uint32_t total, RangeOf&& range_of, const std::string& what) {
  std::uint32_t next = 0;
  for (std::uint32_t i = 0; i < parts; ++i) {
    const Range range = range_of(i);
    ASSERT_EQ(range.begin, next) << what << ", part " << i;
    ASSERT_GE(range.end, range.begin) << what << ", part " << i;
    next = range.end;
  }
  ASSERT_EQ(next, total) << what;
}

TEST(Reduction, shards_and_micro_batches_are_shared_out_without_gap_or_overlap) {
  for (std::uint32_t v = 1; v <= 16; ++v) {
    for (std::uint32_t m = 1; m <= 40; ++m) {
      const std::string what = fmt::format("M = {}, V = {}", m, v);
      expect_partition(
          v, m, [&](std::uint32_t s) { return micro_batches_of_shard(s, v, m); }, what);
      for (std::uint32_t b = 0; b < m; ++b)
        ASSERT_TRUE(micro_batches_of_shard(shard_of({b}, v, m), v, m).contains(b)) << what << ", micro-batch " << b;
    }
    for (std::uint32_t r = 1; r <= v; ++r) {
      const std::string what = fmt::format("V = {}, R = {}", v, r);
      expect_partition(
          r, v, [&](std::uint32_t q) { return shards_of({q}, r, v); }, what);
      for (std::uint32_t m = 1; m <= 40; ++m)
        for (std::uint32_t q = 0; q < r; ++q) {
          const Range own = shards_of({q}, r, v), batches = micro_batches_of({q}, r, v, m);
          ASSERT_GE(own.size(), 1U) << what << ": a replica without a shard";
          ASSERT_EQ(batches.begin, micro_batches_of_shard(own.begin, v, m).begin) << what << ", M = " << m;
          ASSERT_EQ(batches.end, micro_batches_of_shard(own.end - 1, v, m).end) << what << ", M = " << m;
        }
    }
  }
}

TEST(Reduction, shards_are_as_even_as_they_can_be) {
  for (std::uint32_t v : {1U, 2U, 4U, 8U, 16U})
    for (std::uint32_t m = 1; m <= 40; ++m)
      for (std::uint32_t s = 0; s < v; ++s) {
        EXPECT_GE(micro_batches_of_shard(s, v, m).size(), m / v);
        EXPECT_LE(micro_batches_of_shard(s, v, m).size(), (m + v - 1) / v);
      }
}

TEST(Reduction, the_slowest_replica_has_the_published_number_of_shards) {
  const std::uint32_t slowest[] = {8, 4, 3, 2, 2, 2, 2, 1};
  for (std::uint32_t r = 1; r <= 8; ++r) {
    std::uint32_t most = 0;
    for (std::uint32_t q = 0; q < r; ++q) most = std::max(most, shards_of({q}, r, 8).size());
    EXPECT_EQ(most, slowest[r - 1]) << r;
  }
}

TEST(Reduction, only_the_two_halves_of_one_aligned_range_merge) {
  EXPECT_TRUE(can_merge({0, 1}, {1, 2}));
  EXPECT_TRUE(can_merge({4, 6}, {6, 8}));
  EXPECT_FALSE(can_merge({1, 2}, {2, 3})) << "not aligned";
  EXPECT_FALSE(can_merge({2, 4}, {4, 6})) << "not aligned";
  EXPECT_FALSE(can_merge({0, 2}, {2, 3})) << "not equal";
  EXPECT_FALSE(can_merge({0, 1}, {3, 4})) << "not neighbours";
}

// -- the tree

constexpr std::uint32_t all_shards = 8;
constexpr std::size_t elements = 20'000;

// Floats of both signs over six decades.
float drawn(std::uint64_t seed, std::uint64_t shard, std::uint64_t element) {
  const std::uint64_t bits = keyed(seed, shard, element);
  const double magnitude = std::pow(10.0, static_cast<double>(bits >> 40) * 0x1p-24 * 6 - 3);
  return static_cast<float>(bits & 1 ? magnitude : -magnitude);
}

using Values = std::map<std::uint32_t, Floats>;  // by shard; absent shards are not there

Values draw_values(std::uint64_t seed, const std::set<std::uint32_t>& absent = {}) {
  Values values;
  for (std::uint32_t s = 0; s < all_shards; ++s)
    if (!absent.contains(s))
      for (std::size_t i = 0; i < elements; ++i) values[s].push_back(drawn(seed, s, i));
  return values;
}

// T(begin, end), straight from its definition; empty when every shard is absent.
Floats defined_tree(const Values& values, std::uint32_t begin, std::uint32_t end) {
  if (end - begin == 1) return values.contains(begin) ? values.at(begin) : Floats{};
  const std::uint32_t middle = (begin + end) / 2;
  Floats left = defined_tree(values, begin, middle), right = defined_tree(values, middle, end);
  if (left.empty() || right.empty()) return left.empty() ? right : left;
  for (std::size_t i = 0; i < left.size(); ++i) left[i] += right[i];
  return left;
}

struct Evaluated {
  Floats value;
  bool any = false;
  std::size_t segments = 0;
  std::uint64_t peak_buffers = 0;  // the most that one replica held, the shard in the making included
};

class Reducers {
 public:
  Evaluated run(const Values& values, std::uint32_t replicas, ReductionOrder order = ReductionOrder::tree) {
    Evaluated result;
    std::vector<Segment> segments;
    for (std::uint32_t r = 0; r < replicas; ++r) {
      const auto arena = Arena::make("replica", Bytes{});
      SegmentStack stack(order);
      const Range own = shards_of({r}, replicas, all_shards);
      for (std::uint32_t s = own.begin; s < own.end; ++s) stack.push(arithmetic_, s, tensor(*arena, values, s));
      for (Segment& segment : stack.take()) segments.push_back(std::move(segment));
      EXPECT_TRUE(stack.take().empty()) << "nothing is left behind";
      result.peak_buffers = std::max(result.peak_buffers, arena->peak().value / (elements * sizeof(float)));
    }
    result.segments = segments.size();
    result.value.assign(elements, -7.0F);
    const std::size_t block = 3000;  // owners see slices, not the whole
    const auto scratch = Arena::make("scratch", Bytes{});
    for (std::size_t first = 0; first < elements; first += block) {
      const std::span<float> out(result.value.data() + first, std::min(block, elements - first));
      result.any |= evaluate_tree(arithmetic_, segments, all_shards, first, out, *scratch, order);
    }
    EXPECT_EQ(scratch->used(), Bytes{0});
    EXPECT_LE(scratch->peak(), Bytes{3 * block * sizeof(float)}) << "one slice for each level of the tree";
    return result;
  }
  const Arithmetic& arithmetic() const { return arithmetic_; }

 private:
  static Tensor tensor(Arena& arena, const Values& values, std::uint32_t shard) {
    if (!values.contains(shard)) return {};
    Tensor t(arena, elements);
    std::copy(values.at(shard).begin(), values.at(shard).end(), t.data());
    return t;
  }
  LlamaArithmetic arithmetic_{test::small_spec(), 1};
};

std::size_t count_different(const Floats& a, const Floats& b) {
  std::size_t n = 0;
  for (std::size_t i = 0; i < a.size(); ++i)
    n += std::bit_cast<std::uint32_t>(a[i]) != std::bit_cast<std::uint32_t>(b[i]);
  return n;
}

TEST(Reduction, the_tree_has_the_same_bits_for_every_number_of_replicas) {
  const Values values = draw_values(1);
  const Floats expected = defined_tree(values, 0, all_shards);
  Reducers reducers;
  for (std::uint32_t r = 1; r <= all_shards; ++r) {
    const Evaluated result = reducers.run(values, r);
    EXPECT_TRUE(result.any);
    EXPECT_TRUE(same_bits(result.value, expected)) << r << " replicas";
  }
}

TEST(Reduction, segments_and_buffers_are_as_many_as_the_table_says) {
  // Five replicas own 1, 2, 1, 2, 2 shards, and the second one's two are no halves of one range.
  const std::size_t segments[] = {1, 2, 5, 4, 6, 6, 7, 8}, buffers[] = {4, 3, 3, 2, 2, 2, 2, 1};
  const Values values = draw_values(2);
  Reducers reducers;
  for (std::uint32_t r = 1; r <= all_shards; ++r) {
    const Evaluated result = reducers.run(values, r);
    EXPECT_EQ(result.segments, segments[r - 1]) << r << " replicas";
    EXPECT_EQ(result.peak_buffers, buffers[r - 1]) << r << " replicas";
    if ((r & (r - 1)) == 0) {  // powers of two: log2(V / R) + 1
      EXPECT_EQ(result.peak_buffers, std::log2(all_shards / r) + 1);
    }
  }
}

TEST(Reduction, fewer_micro_batches_than_shards_leave_some_absent_and_the_bits_alone) {
  Reducers reducers;
  for (std::uint32_t m = 0; m < all_shards; ++m) {
    std::set<std::uint32_t> absent;
    for (std::uint32_t s = 0; s < all_shards; ++s)
      if (micro_batches_of_shard(s, all_shards, m).size() == 0) absent.insert(s);
    ASSERT_EQ(absent.size(), all_shards - m);
    const Values values = draw_values(3, absent);
    const Floats expected = m == 0 ? Floats(elements, -7.0F) : defined_tree(values, 0, all_shards);
    for (std::uint32_t r = 1; r <= all_shards; ++r) {
      const Evaluated result = reducers.run(values, r);
      EXPECT_EQ(result.any, m > 0) << "M = " << m << ", R = " << r;
      EXPECT_TRUE(same_bits(result.value, expected)) << "M = " << m << ", R = " << r;
    }
  }
}

TEST(Reduction, any_set_of_absent_shards_is_right) {
  Reducers reducers;
  for (std::uint32_t mask = 1; mask < 255; mask += 7) {
    std::set<std::uint32_t> absent;
    for (std::uint32_t s = 0; s < all_shards; ++s)
      if ((mask >> s & 1) != 0) absent.insert(s);
    const Values values = draw_values(4, absent);
    const Floats expected = defined_tree(values, 0, all_shards);
    const std::uint32_t replicas = 1 + mask % all_shards;
    EXPECT_TRUE(same_bits(reducers.run(values, replicas).value, expected)) << "mask " << mask;
  }
}

TEST(Reduction, the_negative_control_of_a_left_fold_has_other_bits_and_depends_on_the_replicas) {
  const Values values = draw_values(5);
  const Floats expected = defined_tree(values, 0, all_shards);
  Reducers reducers;
  const Floats alone = reducers.run(values, 1, ReductionOrder::left_fold).value;
  for (std::uint32_t r = 1; r <= all_shards; ++r) {
    const Floats folded = reducers.run(values, r, ReductionOrder::left_fold).value;
    const std::size_t different = count_different(folded, expected);
    if (r > 1) {
      EXPECT_GE(different, 1U) << r;
    }
    if (r == 2) {  // fold of folds; a half of eight shards is a fold, not a tree
      EXPECT_GT(different, elements / 4);
      EXPECT_GT(count_different(folded, alone), elements / 4);
    }
    for (std::size_t i = 0; i < elements; ++i)  // it is a sum all the same
      ASSERT_NEAR(folded[i], expected[i], 0.05) << i;
  }
}

TEST(Reduction, a_shard_out_of_order_is_a_bug_and_so_is_a_missing_one) {
  Reducers reducers;
  const auto arena = Arena::make("a", Bytes{});
  SegmentStack stack;
  stack.push(reducers.arithmetic(), 0, Tensor(*arena, 4));
  EXPECT_THROW(stack.push(reducers.arithmetic(), 2, Tensor(*arena, 4)), Bug);
  const std::vector<Segment> half{{{0, 2}, Tensor(*arena, 4)}};
  Floats out(4);
  EXPECT_THROW(evaluate_tree(reducers.arithmetic(), half, 4, 0, out, *arena, ReductionOrder::tree), Bug);
}

// -- ownership

ModelSpec spec_with(bool tied) {
  ModelSpec spec = test::small_spec();
  spec.tied_embeddings = tied;
  return spec;
}

TEST(Reduction, every_element_of_every_group_has_one_owner) {
  for (const bool tied : {false, true}) {
    const LlamaArithmetic arithmetic(spec_with(tied), 1, best_isa(), 64);
    for (std::uint32_t replicas = 1; replicas <= 7; ++replicas)
      for (std::uint32_t g = 0; g < arithmetic.groups(); ++g) {
        std::vector<int> owners(arithmetic.elements({g}));
        std::size_t total = 0;
        for (std::uint32_t r = 0; r < replicas; ++r) {
          std::size_t own = 0;
          each_owned_block(arithmetic, {g}, {r}, replicas, [&](std::size_t first, std::size_t count) {
            EXPECT_EQ(first % 64, 0U);
            EXPECT_LE(count, 64U);
            ASSERT_LE(first + count, owners.size());
            for (std::size_t i = first; i < first + count; ++i) ++owners[i];
            own += count;
          });
          EXPECT_EQ(owned_elements(arithmetic, {g}, {r}, replicas), own);
          total += own;
        }
        EXPECT_EQ(total, owners.size());
        EXPECT_TRUE(std::all_of(owners.begin(), owners.end(), [](int n) { return n == 1; })) << "group " << g;
      }
  }
}

std::vector<std::size_t> blocks_of(const Arithmetic& arithmetic, GroupId group, std::uint32_t replica) {
  std::vector<std::size_t> firsts;
  each_owned_block(arithmetic, group, {replica}, 3, [&](std::size_t first, std::size_t) { firsts.push_back(first); });
  return firsts;
}

TEST(Reduction, a_tied_head_is_owned_like_the_embedding) {
  const LlamaArithmetic tied(spec_with(true), 1, best_isa(), 64), untied(spec_with(false), 1, best_isa(), 64);
  ASSERT_NE(tied.head_group().value % 3, 0U) << "or the rule would show nothing";
  for (std::uint32_t r = 0; r < 3; ++r) {
    EXPECT_FALSE(blocks_of(tied, tied.head_group(), r).empty());
    EXPECT_EQ(blocks_of(tied, tied.head_group(), r), blocks_of(tied, tied.embedding_group(), r));
    EXPECT_NE(blocks_of(untied, untied.head_group(), r), blocks_of(untied, untied.embedding_group(), r));
  }
}

TEST(Reduction, the_first_blocks_of_the_groups_go_round_the_replicas) {
  const LlamaArithmetic arithmetic(spec_with(false), 1, best_isa(), 1 << 20);  // each group is one block
  for (std::uint32_t g = 0; g < arithmetic.groups(); ++g)
    for (std::uint32_t r = 0; r < 3; ++r)
      EXPECT_EQ(owned_elements(arithmetic, {g}, {r}, 3), g % 3 == r ? arithmetic.elements({g}) : 0);
}

}  // namespace
}  // namespace stagecraft
