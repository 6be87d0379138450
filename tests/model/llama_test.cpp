#include "model/llama.hpp"

#include <gtest/gtest.h>
#include <xmmintrin.h>

#include <algorithm>
#include <stdexcept>

#include "model/optimizer.hpp"
#include "tests/model/llama_fixture.hpp"

namespace stagecraft {
namespace {

using test::Batch;
using test::make_lively;
using test::Model;
using test::same_bits;
using test::small_spec;

/// The loss change along a random direction in one parameter, measured and predicted.
void expect_gradient(Model& model, const Batch& batch, const ParameterInfo& parameter, std::uint64_t seed) {
  Tensor& weights = model.weights[parameter.group.value];
  const std::vector<float> start(weights.data(), weights.data() + weights.size());
  double predicted = 0, size = 0;
  std::vector<double> direction(parameter.elements());
  for (std::size_t i = 0; i < direction.size(); ++i) {
    // Half along the gradient, so that the change is not lost in rounding, half at random.
    const double gradient = model.gradients[parameter.group.value].data()[parameter.offset + i];
    const double random = static_cast<double>(keyed(seed, i) >> 11) * 0x1p-52 - 1;
    direction[i] = random * (std::abs(gradient) + 1e-3) + gradient;
    size += direction[i] * direction[i];
  }
  const double step = 2e-3 / std::sqrt(size) * std::sqrt(std::sqrt(static_cast<double>(direction.size())));
  for (std::size_t i = 0; i < direction.size(); ++i)
    predicted += direction[i] * model.gradients[parameter.group.value].data()[parameter.offset + i];
  const auto loss_at = [&](double distance) {
    for (std::size_t i = 0; i < direction.size(); ++i)
      weights.data()[parameter.offset + i] = static_cast<float>(start[parameter.offset + i] + distance * direction[i]);
    return model.forward(batch).loss.value();
  };
  const auto slope = [&](double distance) { return (loss_at(distance) - loss_at(-distance)) / (2 * distance); };
  const double measured = (4 * slope(step / 2) - slope(step)) / 3;  // the cubic term cancels
  std::copy(start.begin(), start.end(), weights.data());
  EXPECT_NEAR(measured / predicted, 1, 2e-3)
      << parameter.name << ": measured " << measured << ", predicted " << predicted;
}

void expect_all_gradients(const ModelSpec& spec, const Batch& batch) {
  Model model(spec);
  make_lively(model);
  model.pass(batch);
  if (spec.tied_embeddings)  // one table, two accumulators: the gradient of the table is their sum
    model.arithmetic.add(model.gradients.front().span(), model.gradients.back().span(), model.gradients.front().span());
  for (const ParameterInfo& parameter : model.arithmetic.parameters())
    for (std::uint64_t seed : {1, 2}) expect_gradient(model, batch, parameter, seed);
}

TEST(Llama, gradients_agree_with_finite_differences) { expect_all_gradients(small_spec(), Batch({9, 1, 20, 3}, 37)); }

TEST(Llama, gradients_agree_with_finite_differences_when_tied) {
  ModelSpec spec = small_spec();
  spec.tied_embeddings = true;
  spec.kv_heads = spec.heads;
  expect_all_gradients(spec, Batch({5, 17}, 37));
}

TEST(Llama, gradients_agree_with_finite_differences_over_several_attention_tiles) {
  ModelSpec spec = small_spec();
  spec.layers = 1;
  spec.kv_heads = 1;
  expect_all_gradients(spec, Batch({150, 70}, 37));
}

class FasterLlama : public testing::TestWithParam<Isa> {};
INSTANTIATE_TEST_SUITE_P(Llama, FasterLlama, testing::Values(Isa::avx2, Isa::avx512),
                         [](const auto& value) { return std::string(name_of(value.param)); });

TEST_P(FasterLlama, has_the_bits_of_the_scalar_kernels) {
  if (!available(GetParam())) GTEST_SKIP() << "this CPU has no " << name_of(GetParam());
  const Batch batch({70, 1, 33, 64, 5}, 37);
  Model scalar(small_spec(), Isa::scalar), faster(small_spec(), GetParam());
  const LossSum a = scalar.pass(batch), b = faster.pass(batch);
  EXPECT_EQ(a.loss, b.loss);
  EXPECT_EQ(a.tokens, 173U);
  for (std::size_t g = 0; g < scalar.gradients.size(); ++g)
    EXPECT_TRUE(same_bits(scalar.gradients[g].span(), faster.gradients[g].span())) << "group " << g;
  for (std::size_t u = 0; u + 1 < scalar.outputs.size(); ++u)
    EXPECT_TRUE(same_bits(scalar.outputs[u].span(), faster.outputs[u].span())) << "unit " << u;
  for (std::size_t u = 1; u < scalar.input_gradients.size(); ++u)
    EXPECT_TRUE(same_bits(scalar.input_gradients[u].span(), faster.input_gradients[u].span())) << "unit " << u;
}

/// The rows of one document, out of a micro-batch.
Batch alone(const Batch& all, std::size_t document) {
  Batch one({all.packing.starts[document + 1] - all.packing.starts[document]}, 1);
  std::copy_n(all.inputs.begin() + all.packing.starts[document], one.inputs.size(), one.inputs.begin());
  std::copy_n(all.targets.begin() + all.packing.starts[document], one.targets.size(), one.targets.begin());
  return one;
}

TEST(Llama, the_bits_of_a_document_do_not_depend_on_its_neighbours_or_its_place) {
  const Batch all({3, 70, 1, 131, 18}, 37);
  Model packed(small_spec());
  make_lively(packed);
  const LossSum together = packed.forward(all);
  packed.input_grad(all);
  LossSum apart;
  for (std::size_t d = 0; d + 1 < all.packing.starts.size(); ++d) {
    const Batch one = alone(all, d);
    Model single(small_spec());
    make_lively(single);
    const LossSum loss = single.forward(one);
    single.input_grad(one);
    apart.loss.add(loss.loss);
    apart.tokens += loss.tokens;
    const std::size_t width = 24, at = all.packing.starts[d] * width;
    for (std::size_t u = 0; u + 1 < packed.outputs.size(); ++u) {
      const auto span = single.outputs[u].span();
      EXPECT_TRUE(same_bits(span, packed.outputs[u].span().subspan(at, span.size()))) << "F, unit " << u;
    }
    for (std::size_t u = 1; u < packed.input_gradients.size(); ++u) {
      const auto span = single.input_gradients[u].span();
      EXPECT_TRUE(same_bits(span, packed.input_gradients[u].span().subspan(at, span.size()))) << "B, unit " << u;
    }
  }
  EXPECT_EQ(together.loss, apart.loss);
  EXPECT_EQ(together.tokens, apart.tokens);
}

TEST(Llama, gradients_of_two_micro_batches_are_one_chain) {
  const Batch first({20, 9}, 37, 1), second({1, 40}, 37, 2);
  Batch both({20, 9, 1, 40}, 37);
  std::copy(first.inputs.begin(), first.inputs.end(), both.inputs.begin());
  std::copy(first.targets.begin(), first.targets.end(), both.targets.begin());
  std::copy(second.inputs.begin(), second.inputs.end(), both.inputs.begin() + 29);
  std::copy(second.targets.begin(), second.targets.end(), both.targets.begin() + 29);
  Model parts(small_spec()), whole(small_spec());
  make_lively(parts);
  make_lively(whole);
  parts.pass(first);
  parts.pass(second);
  whole.pass(both);
  for (std::size_t g = 0; g < parts.gradients.size(); ++g)
    EXPECT_TRUE(same_bits(parts.gradients[g].span(), whole.gradients[g].span())) << "group " << g;
}

TEST(Llama, tokens_see_neither_the_future_nor_other_documents) {
  Model model(small_spec());
  make_lively(model);
  Batch batch({30, 12}, 37);
  model.forward(batch);
  const auto before = model.outputs;
  batch.inputs[20] = static_cast<Token>((batch.inputs[20] + 1) % 37);
  model.forward(batch);
  const Tensor &a = before[2], &b = model.outputs[2];
  const auto row = [&](const Tensor& t, std::size_t r) { return t.span().subspan(r * 24, 24); };
  for (std::size_t r = 0; r < 20; ++r) EXPECT_TRUE(same_bits(row(a, r), row(b, r))) << r;
  for (std::size_t r = 20; r < 30; ++r) EXPECT_FALSE(same_bits(row(a, r), row(b, r))) << r;
  for (std::size_t r = 30; r < 42; ++r) EXPECT_TRUE(same_bits(row(a, r), row(b, r))) << r;
}

TEST(Llama, an_empty_micro_batch_and_documents_of_one_token_work) {
  Model model(small_spec());
  const LossSum nothing = model.pass(Batch({}, 37));
  EXPECT_EQ(nothing.tokens, 0U);
  EXPECT_EQ(nothing.loss.value(), 0.0);
  for (const Tensor& g : model.gradients)
    EXPECT_TRUE(std::all_of(g.span().begin(), g.span().end(), [](float x) { return x == 0; }));
  const LossSum ones = model.pass(Batch({1, 1, 1}, 37));
  EXPECT_EQ(ones.tokens, 3U);
  EXPECT_NEAR(ones.loss.value() / 3, std::log(37.0), 0.2);
}

TEST(Llama, the_first_loss_is_that_of_a_blind_guess) {
  Model model(small_spec());
  const LossSum loss = model.forward(Batch({100}, 37));
  EXPECT_NEAR(loss.loss.value() / 100, std::log(37.0), 0.05);
}

TEST(Llama, the_loss_falls_when_the_model_is_stepped) {
  ModelSpec spec = small_spec();
  OptimizerSpec optimizer;
  optimizer.learning_rate = 1e-2;
  Model model(spec);
  const Batch batch({30, 20}, 37);
  std::vector<Tensor> m, v;
  for (const Tensor& w : model.weights)
    for (auto* moments : {&m, &v}) {
      moments->emplace_back(*model.arena, w.size());
      std::fill_n(moments->back().data(), w.size(), 0.0F);
    }
  double first = 0, last = 0;
  for (std::uint64_t step = 1; step <= 30; ++step) {
    model.clear();
    const LossSum loss = model.pass(batch);
    (step == 1 ? first : last) = loss.loss.value() / static_cast<double>(loss.tokens);
    ExactSum squares;
    for (const Tensor& g : model.gradients) squares.add(model.arithmetic.square_sum(g.span()));
    const StepFactors factors =
        step_factors(optimizer, step, 30, clip_factor(optimizer, squares, loss.tokens), loss.tokens);
    for (std::uint32_t g = 0; g < model.weights.size(); ++g)
      model.arithmetic.step({g}, 0, model.weights[g].span(), m[g].span(), v[g].span(), model.gradients[g].span(),
                            factors);
  }
  EXPECT_GT(first, 3.4);
  EXPECT_LT(last, 1.0);
}

TEST(Llama, the_modes_of_the_floating_point_unit_are_left_alone) {
  Model model(small_spec());
  const unsigned before = _mm_getcsr() & ~0x3fU;
  model.pass(Batch({20, 3}, 37));
  EXPECT_EQ(_mm_getcsr() & ~0x3fU, before);
}

TEST(Llama, impossible_batches_are_refused_with_numbers) {
  Model model(small_spec());
  EXPECT_THROW(model.forward(Batch({161}, 37)), std::invalid_argument);
  Batch beyond({4}, 37);
  beyond.inputs[2] = 37;
  EXPECT_THROW(model.forward(beyond), std::invalid_argument);
  beyond.inputs[2] = 0;
  beyond.targets[3] = 40;
  EXPECT_THROW(model.forward(beyond), std::invalid_argument);
}

TEST(Llama, impossible_shapes_are_refused) {
  const auto refused = [](auto change) {
    ModelSpec spec = small_spec();
    change(spec);
    EXPECT_THROW(LlamaArithmetic(spec, 1), std::invalid_argument);
  };
  refused([](ModelSpec& s) { s.width = 25; });
  refused([](ModelSpec& s) { s.kv_heads = 3; });
  refused([](ModelSpec& s) { s.width = 12; });  // heads of 3
  refused([](ModelSpec& s) { s.vocabulary = 65537; });
  refused([](ModelSpec& s) { s.context = 0; });
}

}  // namespace
}  // namespace stagecraft
