#include "model/digest.hpp"

#include <cmath>
#include <cstring>
#include <set>

#include <gtest/gtest.h>

#include "tests/model/hand_driven.hpp"

namespace stagecraft {
namespace {

using test::JobSetup;
using test::Order;
using test::PlainProcess;
using test::run_by_hand;
using test::same_bits;
using test::same_run;

CostTable table() {
  CostTable costs;
  costs.parameters = Bytes{1200};
  costs.activation = Bytes{300};
  costs.weight_activation = Bytes{60};
  costs.boundary = Bytes{7};
  return costs;
}

JobSetup emulated(bool tied, std::uint64_t seed = 1) {
  JobSetup setup;
  setup.arithmetic = std::make_shared<DigestArithmetic>(3, tied, seed, table(), 3);
  setup.micro_batches = 7, setup.shards = 4;
  setup.batches = [](Iteration k) {
    test::Batches batches;
    for (std::uint32_t m = 0; m < 7; ++m)
      batches.push_back(std::make_shared<TokenBatch>(TokenBatch{k, {m}, std::make_shared<Packing>(), {}, {}}));
    return batches;
  };
  setup.optimizer.clip = 1e-3;  // always active
  return setup;
}

TEST(Digest, same_bits_hold_for_digests_as_for_numbers) {
  for (const bool tied : {false, true}) {
    const JobSetup alone = emulated(tied);
    const auto plain = PlainProcess(alone).run(3);
    for (const std::uint32_t replicas : {1U, 2U, 3U, 4U}) {
      EXPECT_TRUE(same_run(run_by_hand(alone.on(1, {3}, replicas)), plain)) << tied << replicas;
      EXPECT_TRUE(same_run(run_by_hand(alone.on(3, {1, 1, 1}, replicas, Order::forwards_first)), plain));
      EXPECT_TRUE(same_run(run_by_hand(alone.on(2, {1, 0, 1, 1}, replicas, Order::backwards_first)), plain));
    }
  }
}

TEST(Digest, every_negative_control_changes_the_digest) {
  const JobSetup alone = emulated(false), tied = emulated(true);
  const auto good = run_by_hand(alone);
  EXPECT_FALSE(same_run(run_by_hand(alone.on(1, {3}, 1, Order::weights_reversed)), good)) << "order of accumulation";
  EXPECT_FALSE(same_run(run_by_hand(alone.with({.reduction = ReductionOrder::left_fold})), good));
  EXPECT_FALSE(same_run(run_by_hand(tied.with({.one_tied_accumulator = true})), run_by_hand(tied)));
  EXPECT_FALSE(same_run(run_by_hand(emulated(false, 2)), good)) << "another seed";
}

// Two digests as the floats that hold them.
struct Group {
  std::vector<float> floats = std::vector<float>(4);
  std::span<float> span() { return floats; }
};

struct DigestTest : testing::Test {
  DigestArithmetic arithmetic{2, false, 1, table(), 2};
  std::shared_ptr<Arena> arena = Arena::make("a", Bytes{});

  Group initial(std::uint32_t group) const {
    Group g;
    arithmetic.initialise({group}, g.span());
    return g;
  }
  // The gradient of unit 1 after these micro-batches, in this order.
  Group accumulate(const std::vector<std::uint32_t>& micro_batches) {
    const std::vector<Tensor> weights{tensor(1)};
    std::vector<Tensor> gradients{Tensor(*arena, 4)};
    std::fill_n(gradients[0].data(), 4, 0.0F);
    for (const std::uint32_t m : micro_batches) {
      const BatchView view{Iteration{1}, {m}, nullptr, {}, {}};
      Saved saved;
      LossSum loss;
      arithmetic.forward({1}, weights, tensor(0), view, saved, loss, *arena);
      arithmetic.input_grad({1}, weights, saved, tensor(2), view, *arena);
      arithmetic.weight_grad({1}, saved, view, gradients, *arena);
      EXPECT_TRUE(saved.tensors.empty()) << "W leaves nothing behind";
    }
    Group g;
    g.floats = test::floats_of(gradients[0]);
    return g;
  }
  Tensor tensor(std::uint32_t group) {
    Tensor t(*arena, 4);
    arithmetic.initialise({group}, t.span());
    return t;
  }
};

TEST_F(DigestTest, the_order_of_accumulation_changes_the_digest_and_the_same_order_does_not) {
  EXPECT_TRUE(same_bits(accumulate({0, 1, 2}).floats, accumulate({0, 1, 2}).floats));
  EXPECT_FALSE(same_bits(accumulate({0, 1, 2}).floats, accumulate({1, 0, 2}).floats));
  EXPECT_FALSE(same_bits(accumulate({0, 1, 2}).floats, accumulate({0, 1}).floats)) << "one is missing";
  EXPECT_FALSE(same_bits(accumulate({0, 1, 1}).floats, accumulate({0, 1}).floats)) << "one came twice";
}

TEST_F(DigestTest, an_addition_knows_left_from_right_and_both_its_terms) {
  Group a = initial(0), b = initial(1), ab, ba, in_place = a;
  arithmetic.add(a.floats, b.floats, ab.floats);
  arithmetic.add(b.floats, a.floats, ba.floats);
  EXPECT_FALSE(same_bits(ab.floats, ba.floats));
  arithmetic.add(in_place.floats, b.floats, in_place.floats);
  EXPECT_TRUE(same_bits(in_place.floats, ab.floats));
  Group nested, other, c = initial(2);
  arithmetic.add(ab.floats, c.floats, nested.floats);  // (a + b) + c
  arithmetic.add(b.floats, c.floats, other.floats);
  arithmetic.add(a.floats, other.floats, other.floats);  // a + (b + c)
  EXPECT_FALSE(same_bits(nested.floats, other.floats));
}

TEST_F(DigestTest, a_step_depends_on_the_clip_factor_and_on_every_input) {
  const auto stepped = [&](float scale, float rate, std::uint32_t gradient, std::uint32_t moment) {
    Group p = initial(0), m = initial(moment), v = initial(moment), g = initial(gradient);
    arithmetic.step({0}, 0, p.span(), m.span(), v.span(), g.floats, {.gradient_scale = scale, .learning_rate = rate});
    EXPECT_FALSE(same_bits(m.floats, v.floats));
    p.floats.insert(p.floats.end(), m.floats.begin(), m.floats.end());
    return p.floats;
  };
  const auto base = stepped(0.5F, 0.1F, 1, 2);
  EXPECT_TRUE(same_bits(base, stepped(0.5F, 0.1F, 1, 2)));
  EXPECT_FALSE(same_bits(base, stepped(std::nextafter(0.5F, 1.0F), 0.1F, 1, 2))) << "the clip factor, to the last bit";
  EXPECT_FALSE(same_bits(base, stepped(0.5F, 0.2F, 1, 2)));
  EXPECT_FALSE(same_bits(base, stepped(0.5F, 0.1F, 3, 2)));
  EXPECT_FALSE(same_bits(base, stepped(0.5F, 0.1F, 1, 3)));
}

TEST_F(DigestTest, an_output_depends_on_weights_input_unit_and_micro_batch) {
  const auto output = [&](std::uint32_t unit, std::uint32_t weights, std::uint32_t x, std::uint32_t k,
                          std::uint32_t m) {
    Saved saved;
    LossSum loss;
    const std::vector<Tensor> w{tensor(weights)};
    return test::floats_of(
        arithmetic.forward({unit}, w, tensor(x), {Iteration{k}, {m}, nullptr, {}, {}}, saved, loss, *arena));
  };
  const auto base = output(1, 1, 0, 1, 0);
  EXPECT_TRUE(same_bits(base, output(1, 1, 0, 1, 0)));
  for (const auto& other : {output(2, 1, 0, 1, 0), output(1, 2, 0, 1, 0), output(1, 1, 3, 1, 0), output(1, 1, 0, 2, 0),
                            output(1, 1, 0, 1, 1)})
    EXPECT_FALSE(same_bits(base, other));
}

TEST_F(DigestTest, first_digests_are_all_different) {
  std::set<std::vector<float>> seen;
  for (std::uint32_t g = 0; g < arithmetic.groups(); ++g) {
    const Group group = initial(g);
    for (std::size_t i = 0; i < 4; i += 2) {
      std::vector<float> words(2);
      std::memcpy(words.data(), &group.floats[i], 8);
      EXPECT_TRUE(seen.insert(words).second) << "group " << g;
    }
  }
}

TEST_F(DigestTest, replicas_share_every_group) {
  for (std::uint32_t g = 0; g < arithmetic.groups(); ++g)
    for (std::uint32_t r = 0; r < 2; ++r) EXPECT_EQ(owned_elements(arithmetic, {g}, {r}, 2), 2U);
}

TEST_F(DigestTest, tensors_are_charged_what_the_cost_table_says) {
  EXPECT_EQ(arithmetic.charged({1}, 4), Bytes{600}) << "per stage, shared by its two layers";
  EXPECT_EQ(arithmetic.charged({1}, 2), Bytes{300}) << "half of the group";
  EXPECT_EQ(arithmetic.charged({0}, 4), Bytes{0}) << "the table is of layers";
  EXPECT_EQ(arithmetic.charged({4}, 4), Bytes{0});
  CostTable per_layer = table();
  per_layer.per_layer = true;
  EXPECT_EQ(DigestArithmetic(2, false, 1, per_layer, 2).charged({1}, 4), Bytes{1200});

  const BatchView view{Iteration{1}, {0}, nullptr, {}, {}};
  const std::vector<Tensor> weights{tensor(1)};
  const Tensor x = tensor(0), dy = tensor(2);
  const Bytes before = arena->used();
  const auto used = [&] { return arena->used().value - before.value; };
  Saved saved;
  LossSum loss;
  Tensor y = arithmetic.forward({1}, weights, x, view, saved, loss, *arena);
  EXPECT_EQ(used(), 150U + 7);
  y.reset();
  EXPECT_EQ(used(), 150U);
  Tensor dx = arithmetic.input_grad({1}, weights, saved, dy, view, *arena);
  EXPECT_EQ(used(), 30U + 7);
  dx.reset();
  std::vector<Tensor> gradients{tensor(3)};
  const std::uint64_t gradient = 4 * sizeof(float);
  arithmetic.weight_grad({1}, saved, view, gradients, *arena);
  EXPECT_EQ(used(), gradient) << "all that was kept is gone";
  const ActivationBytes bytes = arithmetic.activation_bytes({1}, 99);
  EXPECT_EQ(bytes.after_forward, Bytes{150});
  EXPECT_EQ(bytes.after_backward_input, Bytes{30});
  EXPECT_EQ(bytes.output, Bytes{7});
  EXPECT_EQ(arithmetic.activation_bytes(arithmetic.head_unit(), 99).output, Bytes{0});
}

TEST_F(DigestTest, the_head_counts_one_token_and_a_loss_of_its_own_per_micro_batch) {
  const std::vector<Tensor> weights{tensor(3), tensor(4)};
  LossSum loss;
  std::set<double> losses;
  for (std::uint32_t m = 0; m < 20; ++m) {
    LossSum one;
    Saved saved;
    EXPECT_TRUE(arithmetic
                    .forward(arithmetic.head_unit(), weights, tensor(0), {Iteration{1}, {m}, nullptr, {}, {}}, saved,
                             one, *arena)
                    .empty());
    EXPECT_TRUE(losses.insert(one.loss.value()).second);
    EXPECT_GE(one.loss.value(), 0);
    EXPECT_LT(one.loss.value(), 1);
    loss.tokens += one.tokens;
  }
  EXPECT_EQ(loss.tokens, 20U);
}

}  // namespace
}  // namespace stagecraft
