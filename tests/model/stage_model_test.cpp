#include "model/stage_model.hpp"

#include <cmath>

#include <gtest/gtest.h>

#include "planning/bug.hpp"
#include "tests/model/hand_driven.hpp"

namespace stagecraft {
namespace {

using test::Batches;
using test::HandDriven;
using test::History;
using test::JobSetup;
using test::Order;
using test::PlainProcess;
using test::run_by_hand;
using test::same_bits;
using test::same_run;
using test::Snapshot;

constexpr std::uint32_t vocabulary = 19, context = 24, width = 16;

std::shared_ptr<const TokenBatch> make_batch(Iteration k, std::uint32_t m, const std::vector<std::uint32_t>& lengths) {
  const test::Batch drawn(lengths, vocabulary, keyed(5, k.value, m));
  return std::make_shared<TokenBatch>(
      TokenBatch{k, {m}, std::make_shared<Packing>(drawn.packing), drawn.inputs, drawn.targets});
}

// One to three documents in each micro-batch, none in one of four.
Batches uneven_batches(Iteration k, std::uint32_t micro_batches) {
  Batches batches;
  for (std::uint32_t m = 0; m < micro_batches; ++m) {
    std::vector<std::uint32_t> lengths;
    for (std::uint64_t d = 0; d < (m + k.value) % 4; ++d)
      lengths.push_back(static_cast<std::uint32_t>(1 + bounded(keyed(3, k.value, m, d), context)));
    batches.push_back(make_batch(k, m, lengths));
  }
  return batches;
}

// Three layers of width 16, blocks of 64 elements, so that every group but the final norm has several.
JobSetup tiny(bool tied = false, std::uint32_t micro_batches = 7, std::uint32_t shards = 4) {
  ModelSpec spec;
  spec.layers = 3, spec.width = width, spec.heads = 2, spec.kv_heads = 1, spec.hidden = 24;
  spec.context = context, spec.vocabulary = vocabulary, spec.tied_embeddings = tied;
  JobSetup setup;
  setup.arithmetic = std::make_shared<LlamaArithmetic>(spec, 11, best_isa(), 64);
  setup.micro_batches = micro_batches, setup.shards = shards;
  setup.batches = [micro_batches](Iteration k) { return uneven_batches(k, micro_batches); };
  setup.optimizer.learning_rate = 1e-2;
  setup.optimizer.clip = 0.05;  // always active
  return setup;
}

bool clips(const JobSetup& setup, const Snapshot& s) {
  return clip_factor(setup.optimizer, s.square_sum, s.tokens) < 1;
}

bool finite(const std::vector<test::Floats>& groups) {
  for (const auto& group : groups)
    for (const float x : group)
      if (!std::isfinite(x)) return false;
  return true;
}

// -- the same bits

TEST(StageModel, pipeline_and_single_process_runs_give_the_same_gradients) {  // B04
  const JobSetup alone = tiny(false, 8);
  const History plain = PlainProcess(alone).run(3);
  ASSERT_TRUE(finite(plain.back().parameters));
  ASSERT_FALSE(same_bits(plain[0].parameters[1], plain[2].parameters[1])) << "it trains";
  for (const Snapshot& s : plain) ASSERT_TRUE(clips(alone, s)) << "the norm must matter";
  EXPECT_TRUE(same_run(run_by_hand(alone), plain)) << "one stage";
  EXPECT_TRUE(same_run(run_by_hand(alone.on(4, {1, 1, 1, 0})), plain)) << "four stages";
}

TEST(StageModel, stages_chunks_replicas_and_orders_leave_the_bits_alone) {
  for (const bool tied : {false, true}) {
    const JobSetup alone = tiny(tied);
    const History plain = PlainProcess(alone).run(3);
    for (const std::uint32_t replicas : {1U, 2U, 3U, 4U}) {
      const std::string what = fmt::format("tied {}, {} replicas", tied, replicas);
      EXPECT_TRUE(same_run(run_by_hand(alone.on(1, {3}, replicas)), plain)) << what;
      EXPECT_TRUE(same_run(run_by_hand(alone.on(2, {2, 1}, replicas, Order::forwards_first)), plain)) << what;
      EXPECT_TRUE(same_run(run_by_hand(alone.on(3, {1, 1, 1}, replicas, Order::backwards_first)), plain)) << what;
      EXPECT_TRUE(same_run(run_by_hand(alone.on(2, {1, 1, 1, 0}, replicas, Order::forwards_first)), plain)) << what;
      EXPECT_TRUE(same_run(run_by_hand(alone.on(1, {1, 2}, replicas, Order::backwards_first)), plain)) << what;
    }
  }
}

TEST(StageModel, micro_batches_that_do_not_divide_by_the_shards_are_right) {
  for (const std::uint32_t micro_batches : {1U, 3U, 5U, 9U, 13U}) {
    const JobSetup alone = tiny(false, micro_batches, 8);
    const History plain = PlainProcess(alone).run(2);
    for (const std::uint32_t replicas : {1U, 2U, 5U, 8U})  // some replicas have no micro-batch at all
      EXPECT_TRUE(same_run(run_by_hand(alone.on(2, {1, 2}, replicas, Order::forwards_first), 2), plain))
          << micro_batches << " micro-batches, " << replicas << " replicas";
  }
}

TEST(StageModel, a_chunk_without_layers_passes_its_tensors_on) {
  const JobSetup alone = tiny(true);
  EXPECT_TRUE(same_run(run_by_hand(alone.on(3, {0, 3, 0}, 2)), PlainProcess(alone).run(3)));
  EXPECT_TRUE(same_run(run_by_hand(alone.on(5, {1, 0, 1, 0, 1})), PlainProcess(alone).run(3)));

  HandDriven empty(alone.on(3, {1, 0, 2}));
  StageModel& middle = empty.model(1, 0);
  EXPECT_TRUE(middle.groups().empty());
  EXPECT_EQ(middle.tie_role(), TieRole::none);
  const auto batch = make_batch({1}, 0, {5});
  const Tensor x(middle.arena(), 5 * width), dy(middle.arena(), 5 * width);
  EXPECT_EQ(middle.forward({1}, x, batch).buffer(), x.buffer());
  EXPECT_EQ(middle.backward_input({1}, {0}, dy).buffer(), dy.buffer());
  middle.backward_weight({1}, {0});
  EXPECT_EQ(middle.loss().tokens, 0U);
}

TEST(StageModel, a_redone_iteration_gives_the_same_bits) {
  const JobSetup setup = tiny(true).on(2, {2, 1}, 2);
  HandDriven interrupted(setup);
  History run = interrupted.run(1);
  interrupted.compute({2});  // given up before the reduction
  run.push_back(interrupted.iterate({2}));
  interrupted.compute({3});
  interrupted.reduce();  // given up before the step
  run.push_back(interrupted.iterate({3}));
  EXPECT_TRUE(same_run(run, run_by_hand(setup)));
}

TEST(StageModel, an_iteration_given_up_half_way_leaves_no_trace) {
  const JobSetup setup = tiny(true);
  HandDriven clean(setup), interrupted(setup);
  StageModel& model = interrupted.model(0, 0);
  const Bytes at_rest = interrupted.arena(0, 0).used();
  model.begin({1});
  const Batches batches = setup.batches({1});
  for (std::uint32_t m = 0; m < 5; ++m) model.forward({0}, {}, batches[m]);
  for (std::uint32_t m = 0; m < 3; ++m) model.backward_input({0}, {m}, {});
  for (std::uint32_t m = 0; m < 2; ++m) model.backward_weight({0}, {m});  // the second shard has one more to come
  EXPECT_GT(interrupted.arena(0, 0).used(), at_rest);
  model.begin({1});
  EXPECT_EQ(interrupted.arena(0, 0).used(), at_rest);
  EXPECT_TRUE(same_run(interrupted.run(2), clean.run(2)));
}

// -- tokens

TEST(StageModel, every_token_counts_once_wherever_it_lands) {  // B07
  const std::vector<std::uint32_t> hundred{24, 24, 24, 20, 8}, three{2, 1};
  JobSetup apart = tiny(false, 3, 1), together = tiny(false, 1, 1);
  apart.batches = [&](Iteration k) {
    return Batches{make_batch(k, 0, hundred), make_batch(k, 1, three), make_batch(k, 2, {})};
  };
  together.batches = [&](Iteration k) {
    TokenBatch all = *make_batch(k, 0, hundred);
    const auto rest = make_batch(k, 1, three);
    auto packing = *all.packing;
    for (std::size_t d = 1; d < rest->packing->starts.size(); ++d)
      packing.starts.push_back(100 + rest->packing->starts[d]);
    all.packing = std::make_shared<Packing>(packing);
    all.inputs.insert(all.inputs.end(), rest->inputs.begin(), rest->inputs.end());
    all.targets.insert(all.targets.end(), rest->targets.begin(), rest->targets.end());
    return Batches{std::make_shared<TokenBatch>(all)};
  };
  const History whole = run_by_hand(together);
  EXPECT_EQ(whole[0].tokens, 103U);
  EXPECT_TRUE(same_run(run_by_hand(apart), whole)) << "in one shard it is one chain";

  for (const std::uint32_t shards : {2U, 4U}) {
    apart.shards = shards;
    const History one_replica = run_by_hand(apart);
    EXPECT_EQ(one_replica[0].tokens, 103U);
    for (std::uint32_t replicas = 2; replicas <= shards; ++replicas) {
      const History run = run_by_hand(apart.on(2, {1, 2}, replicas));
      EXPECT_TRUE(same_run(run, one_replica)) << shards << " shards, " << replicas << " replicas";
      EXPECT_EQ(run[0].loss, whole[0].loss) << "losses add up exactly in any order";
    }
    for (std::size_t g = 0; g < whole[0].gradients.size(); ++g)
      for (std::size_t i = 0; i < whole[0].gradients[g].size(); ++i)
        ASSERT_NEAR(one_replica[0].gradients[g][i], whole[0].gradients[g][i],
                    1e-4 + 1e-4 * std::abs(whole[0].gradients[g][i]));
  }
}

TEST(StageModel, an_iteration_without_tokens_divides_nothing_by_zero) {
  JobSetup setup = tiny(true, 3, 2).on(2, {1, 2}, 2);
  setup.batches = [](Iteration k) { return Batches{make_batch(k, 0, {}), make_batch(k, 1, {}), make_batch(k, 2, {})}; };
  const History run = run_by_hand(setup);
  EXPECT_EQ(run.back().tokens, 0U);
  EXPECT_EQ(run.back().loss.value(), 0);
  EXPECT_EQ(run.back().square_sum.value(), 0);
  EXPECT_TRUE(finite(run.back().parameters) && finite(run.back().second_moments));
  for (const auto& moment : run.back().second_moments)
    EXPECT_TRUE(std::all_of(moment.begin(), moment.end(), [](float x) { return x == 0; }));
}

TEST(StageModel, uneven_micro_batch_sizes_are_right_or_refused) {  // B10
  JobSetup setup = tiny(false, 3, 1);
  const std::vector<std::vector<std::uint32_t>> lengths{{6, 6, 6}, {6, 6, 6}, {6, 6}};
  setup.batches = [&](Iteration k) {
    Batches batches;
    for (std::uint32_t m = 0; m < 3; ++m) batches.push_back(make_batch(k, m, lengths[m]));
    return batches;
  };
  const History plain = PlainProcess(setup).run(3);
  EXPECT_TRUE(same_run(run_by_hand(setup.on(3, {1, 1, 1}, 1, Order::forwards_first)), plain));
  EXPECT_EQ(plain[0].tokens, 48U);

  HandDriven stages(setup.on(3, {1, 1, 1}));
  for (std::uint32_t m = 0; m < 3; ++m) {
    const auto batch = setup.batches({1})[m];
    Tensor x;
    for (std::uint32_t s = 0; s < 3; ++s) {
      x = stages.model(s, 0).forward({s}, std::move(x), batch);
      EXPECT_EQ(x.size(), s == 2 ? 0 : batch->packing->tokens() * width) << "micro-batch " << m << ", stage " << s;
    }
    EXPECT_EQ(stages.model(2, 0).loss().tokens, std::vector<std::uint64_t>({18, 36, 48})[m]);
  }
  // The tensor of one micro-batch with the documents of another.
  Tensor short_one(stages.arena(1, 0), 12 * width), short_gradient(stages.arena(1, 0), 12 * width);
  EXPECT_THROW(stages.model(1, 0).forward({1}, short_one, setup.batches({1})[0]), Bug);
  EXPECT_THROW(stages.model(2, 0).forward({2}, short_one, setup.batches({1})[0]), Bug);
  EXPECT_THROW(stages.model(1, 0).backward_input({1}, {1}, short_gradient), Bug);
  EXPECT_THROW(stages.model(0, 0).backward_input({0}, {1}, short_gradient), Bug);
}

// -- tied embeddings

TEST(StageModel, shared_embeddings_stay_equal_on_both_ends) {  // B09
  const JobSetup alone = tiny(true, 4, 2);
  const History plain = PlainProcess(alone).run(50);
  const std::uint32_t head = alone.arithmetic->head_group().value;
  const History run = run_by_hand(alone.on(4, {1, 1, 1, 0}, 2), 50);
  EXPECT_TRUE(same_run(run, plain));
  for (std::size_t k = 0; k < run.size(); ++k) {
    ASSERT_TRUE(same_bits(run[k].parameters[0], run[k].parameters[head])) << "iteration " << k + 1;
    ASSERT_TRUE(same_bits(run[k].second_moments[0], run[k].second_moments[head])) << "iteration " << k + 1;
  }
  EXPECT_FALSE(same_bits(run[0].gradients[0], run[0].gradients[head])) << "each end has a gradient of its own";
  EXPECT_TRUE(same_run(run_by_hand(alone.on(2, {1, 1, 1, 0}, 2), 50), plain)) << "two chunks per stage";
}

TEST(StageModel, one_stage_with_both_ends_has_one_table) {
  for (const auto& layout : {std::vector<std::uint32_t>{3}, std::vector<std::uint32_t>{1, 2}}) {
    HandDriven one(tiny(true).on(1, layout));
    StageModel& model = one.model(0, 0);
    const GroupId head = model.arithmetic().head_group(), embedding = model.arithmetic().embedding_group();
    EXPECT_EQ(model.tie_role(), TieRole::both);
    EXPECT_TRUE(model.is_alias(head));
    EXPECT_FALSE(model.is_alias(embedding));
    EXPECT_EQ(model.parameters(head).buffer(), model.parameters(embedding).buffer());
  }
  HandDriven two(tiny(true).on(2, {1, 2}));
  EXPECT_EQ(two.model(0, 0).tie_role(), TieRole::embedding);
  EXPECT_EQ(two.model(1, 0).tie_role(), TieRole::head);
  EXPECT_FALSE(two.model(1, 0).is_alias(two.model(1, 0).arithmetic().head_group()));
  HandDriven untied(tiny().on(1, {3}));
  EXPECT_EQ(untied.model(0, 0).tie_role(), TieRole::none);
  EXPECT_FALSE(untied.model(0, 0).is_alias(untied.model(0, 0).arithmetic().head_group()));
}

TEST(StageModel, the_norm_counts_a_tied_table_once) {
  const JobSetup setup = tiny(true);
  const History run = run_by_hand(setup.on(2, {1, 2}, 2), 1);
  const Arithmetic& a = *setup.arithmetic;
  const std::uint32_t head = a.head_group().value;
  double expected = 0;
  for (std::uint32_t g = 0; g < head; ++g)
    for (std::size_t i = 0; i < run[0].gradients[g].size(); ++i) {
      const float x = run[0].gradients[g][i] + (g == 0 ? run[0].gradients[head][i] : 0.0F);
      expected += static_cast<double>(x) * static_cast<double>(x);
    }
  EXPECT_NEAR(run[0].square_sum.value() / expected, 1, 1e-9);
}

// -- negative controls: each breaks the bits, so the tests above would see it

TEST(StageModel, one_accumulator_for_both_tied_ends_is_noticed) {
  const JobSetup alone = tiny(true);
  const NegativeControls shared{.one_tied_accumulator = true};
  const History good = run_by_hand(alone);
  EXPECT_FALSE(same_run(run_by_hand(alone.with(shared), 1), run_by_hand(alone, 1)));
  EXPECT_FALSE(same_bits(run_by_hand(alone.with(shared)).back().parameters[0], good.back().parameters[0]));
  EXPECT_TRUE(same_run(run_by_hand(alone.with(shared).on(2, {1, 2})), good)) << "the ends share no stage";
}

TEST(StageModel, a_left_fold_over_replicas_is_noticed) {
  const JobSetup folds = tiny(false, 16, 8).with({.reduction = ReductionOrder::left_fold});
  const History alone = run_by_hand(folds);
  EXPECT_FALSE(same_run(run_by_hand(folds.on(1, {3}, 2)), alone));
  EXPECT_FALSE(same_run(run_by_hand(folds.on(1, {3}, 4)), alone));
  EXPECT_FALSE(same_run(alone, run_by_hand(tiny(false, 16, 8))));
  EXPECT_TRUE(same_run(run_by_hand(folds.on(3, {1, 1, 1})), alone)) << "stages do not matter to it";
}

TEST(StageModel, a_norm_rounded_per_stage_is_noticed) {
  const JobSetup rounds = tiny().with({.round_norm_per_stage = true});
  const History one = run_by_hand(rounds, 20), three = run_by_hand(rounds.on(3, {1, 1, 1}), 20);
  EXPECT_FALSE(one[0].square_sum == three[0].square_sum);
  EXPECT_FALSE(same_bits(one.back().parameters[1], three.back().parameters[1])) << "it reaches the weights";
}

TEST(StageModel, weight_gradients_out_of_order_are_noticed) {
  const JobSetup alone = tiny(false, 8, 2);
  EXPECT_FALSE(same_run(run_by_hand(alone.on(1, {3}, 1, Order::weights_reversed)), run_by_hand(alone)));
}

// -- memory

TEST(StageModel, an_iteration_leaves_parameters_and_moments_only) {
  HandDriven job(tiny(true).on(2, {2, 1}, 2));
  std::vector<Bytes> at_rest;
  for (std::uint32_t s = 0; s < 2; ++s)
    for (std::uint32_t r = 0; r < 2; ++r) {
      std::size_t elements = 0;
      for (const GroupId g : job.model(s, r).groups())
        elements += job.model(s, r).parameters(g).size() + job.model(s, r).first_moment(g).size() +
                    job.model(s, r).second_moment(g).size();
      at_rest.push_back(Bytes{elements * sizeof(float)});
      EXPECT_EQ(job.arena(s, r).used(), at_rest.back());
    }
  for (std::uint32_t k = 1; k <= 3; ++k) job.iterate({k});
  for (std::uint32_t s = 0; s < 2; ++s)
    for (std::uint32_t r = 0; r < 2; ++r) {
      job.model(s, r).begin({4});
      EXPECT_EQ(job.arena(s, r).used(), at_rest[s * 2 + r]) << "stage " << s << " of replica " << r;
    }
}

TEST(StageModel, finished_shards_merge_so_that_few_gradient_buffers_live) {
  const std::uint32_t shards = 8;
  for (const std::uint32_t replicas : {1U, 2U, 4U, 8U}) {
    JobSetup setup = tiny(false, 16, shards).on(1, {3}, replicas);
    setup.batches = [](Iteration k) {
      Batches batches;
      for (std::uint32_t m = 0; m < 16; ++m) batches.push_back(make_batch(k, m, {1}));
      return batches;
    };
    HandDriven job(setup);
    const std::uint64_t at_rest = job.arena(0, 0).used().value;
    std::uint64_t gradient = 0;
    for (const GroupId g : job.model(0, 0).groups()) gradient += job.model(0, 0).parameters(g).size() * sizeof(float);
    job.compute({1});
    const double buffers = static_cast<double>(job.arena(0, 0).peak().value - at_rest) / static_cast<double>(gradient);
    EXPECT_GE(buffers, std::log2(shards / replicas) + 1);
    EXPECT_LT(buffers, std::log2(shards / replicas) + 1.5) << "activations of one token are small";
  }
}

TEST(StageModel, parts_that_were_sent_are_not_written_to_afterwards) {
  HandDriven job(tiny(true).on(2, {1, 2}));
  job.compute({1});
  StageModel &first = job.model(0, 0), &last = job.model(1, 0);
  for (StageModel* m : {&first, &last})
    for (const GroupId g : m->groups()) m->reduce(g, m->take_segments(g));
  const Tensor up = first.prepared(first.tied_group()), down = last.prepared(last.tied_group());
  const test::Floats before = test::floats_of(up);
  first.tie(down);
  first.step({.gradient_scale = 1, .learning_rate = 1});
  EXPECT_TRUE(same_bits(before, up.span())) << "the other end may not have read it yet";
}

// -- misuse

TEST(StageModel, impossible_calls_are_bugs) {
  HandDriven job(tiny().on(2, {1, 2}));
  StageModel& first = job.model(0, 0);
  EXPECT_THROW(first.forward({1}, {}, make_batch({1}, 0, {3})), Bug) << "a chunk of the other stage";
  EXPECT_THROW(first.backward_weight({0}, {0}), Bug) << "W without F";
  EXPECT_THROW(first.step({}), Bug) << "no gradient";
}

}  // namespace
}  // namespace stagecraft
