#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <stdexcept>

#include "tests/model/llama_fixture.hpp"

namespace stagecraft {
namespace {

using test::Batch;
using test::Model;
using test::same_bits;
using test::small_spec;

TEST(LlamaParameters, fill_every_group_without_gap_or_overlap) {
  const LlamaArithmetic arithmetic(small_spec(), 1);
  std::map<std::uint32_t, std::size_t> filled;
  for (const ParameterInfo& p : arithmetic.parameters()) {
    EXPECT_EQ(p.offset, filled[p.group.value]) << p.name;
    filled[p.group.value] += p.elements();
  }
  ASSERT_EQ(filled.size(), arithmetic.groups());
  for (auto [group, elements] : filled) EXPECT_EQ(elements, arithmetic.elements({group}));
}

TEST(LlamaParameters, have_the_names_and_shapes_of_hugging_face) {
  const LlamaArithmetic arithmetic(small_spec(), 1);
  std::map<std::string, std::vector<std::size_t>> shapes;
  for (const ParameterInfo& p : arithmetic.parameters()) shapes[p.name] = p.shape;
  EXPECT_EQ(shapes.size(), 3U + 2 * 9);
  EXPECT_EQ(shapes.at("model.embed_tokens.weight"), (std::vector<std::size_t>{37, 24}));
  EXPECT_EQ(shapes.at("model.layers.1.self_attn.q_proj.weight"), (std::vector<std::size_t>{24, 24}));
  EXPECT_EQ(shapes.at("model.layers.0.self_attn.k_proj.weight"), (std::vector<std::size_t>{12, 24}));
  EXPECT_EQ(shapes.at("model.layers.0.mlp.gate_proj.weight"), (std::vector<std::size_t>{40, 24}));
  EXPECT_EQ(shapes.at("model.layers.1.mlp.down_proj.weight"), (std::vector<std::size_t>{24, 40}));
  EXPECT_EQ(shapes.at("model.layers.1.post_attention_layernorm.weight"), (std::vector<std::size_t>{24}));
  EXPECT_EQ(shapes.at("model.norm.weight"), (std::vector<std::size_t>{24}));
  EXPECT_EQ(shapes.at("lm_head.weight"), (std::vector<std::size_t>{37, 24}));
}

TEST(LlamaParameters, a_tied_model_lists_one_table_and_starts_both_ends_alike) {
  ModelSpec spec = small_spec();
  spec.tied_embeddings = true;
  Model model(spec);
  EXPECT_EQ(model.arithmetic.parameters().back().name, "model.norm.weight");
  EXPECT_TRUE(same_bits(model.weights.front().span(), model.weights.back().span()));
}

TEST(LlamaParameters, start_as_nearly_normal_numbers_that_depend_on_seed_and_group) {
  Model model(small_spec(), Isa::scalar, 7), again(small_spec(), best_isa(), 7), other(small_spec(), best_isa(), 8);
  for (std::size_t g = 0; g < model.weights.size(); ++g)
    EXPECT_TRUE(same_bits(model.weights[g].span(), again.weights[g].span()));
  EXPECT_FALSE(same_bits(model.weights[1].span(), other.weights[1].span()));
  EXPECT_FALSE(same_bits(model.weights[1].span(), model.weights[2].span()));
  for (const ParameterInfo& p : model.arithmetic.parameters()) {
    double sum = 0, squares = 0;
    for (float x : model.weights[p.group.value].span().subspan(p.offset, p.elements())) sum += x, squares += x * x;
    const auto n = static_cast<double>(p.elements());
    if (!p.decays()) {
      EXPECT_EQ(sum, n) << p.name;
      continue;
    }
    const bool residual = p.name.find("o_proj") != p.name.npos || p.name.find("down_proj") != p.name.npos;
    EXPECT_NEAR(sum / n, 0, 0.004) << p.name;
    EXPECT_NEAR(std::sqrt(squares / n), residual ? 0.01 : 0.02, 0.002) << p.name;
  }
}

TEST(LlamaParameters, a_step_in_pieces_is_the_step_of_the_whole_group) {
  Model whole(small_spec()), pieces(small_spec());
  StepFactors factors;
  factors.learning_rate = 0.1F, factors.weight_decay = 0.5F, factors.beta1 = 0.9F, factors.beta2 = 0.95F;
  factors.epsilon = 1e-8F;
  const GroupId group{1};
  const std::size_t n = whole.arithmetic.elements(group);
  std::vector<float> m(n), v(n), m2(n), v2(n), g(n);
  for (std::size_t i = 0; i < n; ++i) g[i] = static_cast<float>(i % 13) - 6.0F;
  whole.arithmetic.step(group, 0, whole.weights[1].span(), m, v, g, factors);
  for (std::size_t first = 0; first < n; first += 1001) {
    const std::size_t size = std::min<std::size_t>(1001, n - first);
    const auto part = [&](std::vector<float>& x) { return std::span<float>(x).subspan(first, size); };
    pieces.arithmetic.step(group, first, pieces.weights[1].span().subspan(first, size), part(m2), part(v2), part(g),
                           factors);
  }
  EXPECT_TRUE(same_bits(whole.weights[1].span(), pieces.weights[1].span()));
  EXPECT_TRUE(same_bits(m, m2));
  EXPECT_TRUE(same_bits(v, v2));
}

TEST(LlamaParameters, weight_decay_spares_the_gains) {
  for (bool tied : {false, true}) {
    ModelSpec spec = small_spec();
    spec.tied_embeddings = tied;
    Model model(spec), start(spec);
    StepFactors factors;
    factors.learning_rate = 0.1F, factors.weight_decay = 0.5F, factors.epsilon = 1e-8F;
    for (std::uint32_t g = 0; g < model.weights.size(); ++g) {
      std::vector<float> m(model.weights[g].size()), v(m), zero(m);
      model.arithmetic.step({g}, 0, model.weights[g].span(), m, v, zero, factors);
    }
    for (const ParameterInfo& p : model.arithmetic.parameters())
      for (std::size_t i = p.offset; i < p.offset + p.elements(); ++i) {
        const float before = start.weights[p.group.value].data()[i], after = model.weights[p.group.value].data()[i];
        ASSERT_NEAR(after, p.decays() ? before * 0.95F : before, 1e-7F) << p.name;
      }
    EXPECT_EQ(same_bits(model.weights.front().span(), model.weights.back().span()), tied);
  }
}

TEST(LlamaParameters, activation_bytes_are_what_the_arena_is_charged) {
  const ModelSpec spec = small_spec();
  const Model model(spec);
  const LlamaArithmetic& a = model.arithmetic;
  for (const std::vector<std::uint32_t>& lengths : {std::vector<std::uint32_t>{20, 3}, {100, 50, 1}, {1}, {}}) {
    const Batch batch(lengths, 37);
    const std::uint32_t tokens = batch.packing.tokens();
    const std::uint64_t row = tokens * spec.width * sizeof(float);
    Tensor x, dy;
    auto outside = Arena::make("outside", Bytes{});
    Tensor given(*outside, tokens * spec.width);
    std::fill_n(given.data(), given.size(), 0.5F);
    for (std::uint32_t u = 0; u < a.units(); ++u) {
      const ActivationBytes bytes = a.activation_bytes({u}, tokens);
      auto arena = Arena::make("unit", Bytes{});
      Saved saved;
      LossSum loss;
      auto weights = model.of(model.weights, {u}, true);
      auto gradients = model.of(model.gradients, {u}, false);
      Tensor y = a.forward({u}, weights, given, batch.view(), saved, loss, *arena);
      EXPECT_EQ(arena->used().value, bytes.after_forward.value + bytes.output.value) << "unit " << u;
      const std::uint64_t held = arena->used().value;
      EXPECT_LE(arena->peak().value, held + bytes.scratch.value) << "unit " << u;
      y.reset();
      EXPECT_EQ(arena->used(), bytes.after_forward) << "unit " << u;

      Tensor dx = a.input_grad({u}, weights, saved, u + 1 == a.units() ? Tensor() : given, batch.view(), *arena);
      // x and dy were made elsewhere: both of a block, dy of the embedding, x of the head.
      const std::uint64_t shared = u == 0 || u + 1 == a.units() ? row : 2 * row;
      EXPECT_EQ(arena->used().value + shared, bytes.after_backward_input.value + bytes.input_gradient.value) << u;
      EXPECT_EQ(dx.size() * sizeof(float), bytes.input_gradient.value);
      dx.reset();
      EXPECT_EQ(arena->used().value + shared, bytes.after_backward_input.value) << "unit " << u;

      const std::uint64_t kept = arena->used().value;
      auto scratch = Arena::make("scratch", Bytes{});
      a.weight_grad({u}, saved, batch.view(), gradients, *scratch);
      EXPECT_LE(scratch->peak().value, bytes.scratch.value) << "unit " << u;
      EXPECT_EQ(arena->used().value, 0U) << "unit " << u << " kept " << kept;
      EXPECT_EQ(given.buffer().use_count(), 1) << "no handle is left behind";
    }
  }
}

TEST(LlamaParameters, a_backward_pass_peaks_within_what_is_stated) {
  const ModelSpec spec = small_spec();
  const Model model(spec);
  const LlamaArithmetic& a = model.arithmetic;
  const Batch batch({120, 30}, 37);
  auto arena = Arena::make("unit", Bytes{});
  Tensor x(*arena, 150 * spec.width), dy(*arena, 150 * spec.width);
  std::fill_n(x.data(), x.size(), 0.5F);
  std::fill_n(dy.data(), dy.size(), 0.5F);
  const ActivationBytes bytes = a.activation_bytes({1}, 150);
  Saved saved;
  LossSum loss;
  auto weights = model.of(model.weights, {1}, true);
  a.forward({1}, weights, x, batch.view(), saved, loss, *arena);
  a.input_grad({1}, weights, saved, dy, batch.view(), *arena);
  EXPECT_LE(arena->peak().value, bytes.after_forward.value + bytes.after_backward_input.value +
                                     bytes.input_gradient.value + bytes.scratch.value);
}

TEST(LlamaParameters, work_is_counted_as_products) {
  const LlamaArithmetic a(small_spec(), 1);
  const double forward = a.flops({1}, OperatorKind::forward, 100, 25);
  const double matrices = 2.0 * 100 * (24 * 24 * 2 + 2 * 12 * 24 + 3 * 40 * 24);
  EXPECT_DOUBLE_EQ(forward, matrices + 2 * (2.0 * 100 * 24 * 13));
  EXPECT_DOUBLE_EQ(a.flops({1}, OperatorKind::backward_weight, 100, 25), matrices);
  EXPECT_DOUBLE_EQ(a.flops({1}, OperatorKind::backward, 100, 25),
                   a.flops({1}, OperatorKind::backward_input, 100, 25) + matrices);
  EXPECT_DOUBLE_EQ(a.flops(a.head_unit(), OperatorKind::forward, 10, 5), 2.0 * 10 * 37 * 24);
}

}  // namespace
}  // namespace stagecraft
