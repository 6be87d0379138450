// The credits of a link: who may cross, in which order, and what is a broken promise.
#include "planning/link_machine.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "planning/bug.hpp"
#include "planning/random.hpp"

namespace stagecraft {
namespace {

std::vector<MicroBatch> batch(std::initializer_list<std::uint32_t> numbers) {
  std::vector<MicroBatch> result;
  for (const std::uint32_t n : numbers) result.push_back({n});
  return result;
}

TEST(LinkMachine, a_tensor_crosses_at_once_while_slots_are_free) {
  LinkMachine link(2, {0}, 4);
  EXPECT_TRUE(link.quiet());
  EXPECT_EQ(link.offer({0}), batch({0}));
  EXPECT_EQ(link.offer({1}), batch({1}));
  EXPECT_EQ(link.free(), 0);
  EXPECT_FALSE(link.quiet()) << "slots are taken";
}

TEST(LinkMachine, a_tensor_without_a_slot_waits_for_the_next_credit) {
  LinkMachine link(1, {0}, 3);
  EXPECT_EQ(link.offer({0}), batch({0}));
  EXPECT_EQ(link.offer({1}), batch({}));
  EXPECT_EQ(link.waiting(), 1);
  EXPECT_EQ(link.credit(), batch({1}));
  EXPECT_EQ(link.waiting(), 0);
  EXPECT_EQ(link.credit(), batch({}));
  EXPECT_TRUE(link.quiet());
}

TEST(LinkMachine, the_lowest_waiting_micro_batch_goes_first) {
  LinkMachine link(2, {0}, 5);
  link.offer({0});
  link.offer({1});
  for (const std::uint32_t m : {4, 2, 3}) EXPECT_EQ(link.offer({m}), batch({}));
  EXPECT_EQ(link.credit(), batch({2}));
  EXPECT_EQ(link.credit(), batch({3}));
  EXPECT_EQ(link.credit(), batch({4}));
}

TEST(LinkMachine, the_last_slot_is_kept_for_the_lowest_that_has_not_had_one) {
  LinkMachine link(2, {0}, 4);
  EXPECT_EQ(link.offer({2}), batch({2})) << "two slots are free: one may go to anyone";
  EXPECT_EQ(link.offer({1}), batch({})) << "the last one is for micro-batch 0";
  EXPECT_EQ(link.free(), 1);
  EXPECT_EQ(link.offer({0}), batch({0}));
  EXPECT_EQ(link.credit(), batch({1})) << "now 1 is the lowest";
  EXPECT_EQ(link.offer({3}), batch({}));
  EXPECT_EQ(link.credit(), batch({3})) << "2 has had its slot long ago, so 3 is the lowest";
}

TEST(LinkMachine, several_tensors_can_go_with_one_credit_event) {
  LinkMachine link(2, {0}, 4);
  link.offer({3});
  EXPECT_EQ(link.offer({2}), batch({}));
  EXPECT_EQ(link.offer({1}), batch({}));
  EXPECT_EQ(link.credit(), batch({1})) << "two free: one goes to the lowest that waits, the last stays for 0";
  EXPECT_EQ(link.offer({0}), batch({0}));
  EXPECT_EQ(link.credit(), batch({2}));
}

TEST(LinkMachine, micro_batches_are_counted_from_the_first_of_the_replica) {
  LinkMachine link(1, {8}, 2);
  EXPECT_EQ(link.offer({9}), batch({}));
  EXPECT_EQ(link.offer({8}), batch({8}));
  EXPECT_EQ(link.credit(), batch({9}));
}

TEST(LinkMachine, broken_promises_are_bugs) {
  EXPECT_THROW(LinkMachine(0, {0}, 1), Bug) << "no credits";
  LinkMachine link(1, {2}, 2);
  EXPECT_THROW(link.offer({1}), Bug) << "before the replica's first";
  EXPECT_THROW(link.offer({4}), Bug) << "after its last";
  EXPECT_THROW(link.credit(), Bug) << "none is out";
  link.offer({2});
  EXPECT_THROW(link.offer({2}), Bug) << "has crossed already";
  link.offer({3});
  EXPECT_THROW(link.offer({3}), Bug) << "waits already";
}

// Offers come in any order. The far side adopts what came in any order it likes, except that it adopts the lowest
// micro-batch not yet adopted when nothing else moves: what a stage does that waits for its lowest.
TEST(LinkMachine, every_tensor_crosses_once_within_the_credits_whatever_the_order) {
  for (std::uint64_t seed = 0; seed < 2000; ++seed) {
    Entropy draw(seed, "link");
    const auto credits = static_cast<std::uint32_t>(draw.between(1, 4));
    const auto count = static_cast<std::uint32_t>(draw.between(1, 12));
    const auto first = static_cast<std::uint32_t>(draw.below(5));
    LinkMachine link(credits, {first}, count);
    std::vector<MicroBatch> to_offer, in_slots, crossed;
    for (std::uint32_t m = 0; m < count; ++m) to_offer.push_back({first + m});
    const auto carry = [&](const std::vector<MicroBatch>& go) {
      in_slots.insert(in_slots.end(), go.begin(), go.end());
      crossed.insert(crossed.end(), go.begin(), go.end());
      ASSERT_LE(in_slots.size(), credits) << "seed " << seed;
      ASSERT_EQ(link.free(), credits - in_slots.size()) << "seed " << seed;
    };
    std::uint32_t adopted_in_order = 0;  // a stage that needs them in order adopts only this one
    std::vector<bool> adopted(count, false);
    const bool in_order = draw.below(2) == 0;
    while (crossed.size() < count || !in_slots.empty()) {
      while (adopted_in_order < count && adopted[adopted_in_order]) ++adopted_in_order;
      auto next = in_slots.end();
      if (in_order)
        next = std::find(in_slots.begin(), in_slots.end(), MicroBatch{first + adopted_in_order});
      else if (!in_slots.empty())
        next = in_slots.begin() + static_cast<std::ptrdiff_t>(draw.below(in_slots.size()));
      const bool adopt = next != in_slots.end() && (to_offer.empty() || draw.below(2) == 0);
      ASSERT_TRUE(adopt || !to_offer.empty()) << "stuck at seed " << seed;
      if (adopt) {
        adopted[next->value - first] = true;
        in_slots.erase(next);
        carry(link.credit());
      } else {
        const auto pick = to_offer.begin() + static_cast<std::ptrdiff_t>(draw.below(to_offer.size()));
        const MicroBatch offered = *pick;
        to_offer.erase(pick);
        carry(link.offer(offered));
      }
    }
    EXPECT_TRUE(link.quiet()) << "seed " << seed;
    ASSERT_TRUE(credits > 1 || std::is_sorted(crossed.begin(), crossed.end())) << "one slot means in order";
    std::sort(crossed.begin(), crossed.end());
    ASSERT_EQ(std::adjacent_find(crossed.begin(), crossed.end()), crossed.end()) << "seed " << seed;
  }
}

}  // namespace
}  // namespace stagecraft
