#include "model/llama.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "model/kernels/kernels_onednn.hpp"
#include "model/layers/units.hpp"
#include "planning/bug.hpp"
#include "planning/random.hpp"

namespace stagecraft {

namespace {

constexpr double initial_deviation = 0.02;

/// Adds parameters to a list, group by group, each after the one before.
class ParameterList {
 public:
  void begin(GroupId group) { group_ = group, offset_ = 0; }
  void put(std::string name, std::vector<std::size_t> shape) {
    list_.push_back({std::move(name), group_, offset_, std::move(shape)});
    offset_ += list_.back().elements();
  }
  std::vector<ParameterInfo> take() { return std::move(list_); }

 private:
  GroupId group_{};
  std::size_t offset_ = 0;
  std::vector<ParameterInfo> list_;
};

std::vector<ParameterInfo> list_parameters(const LlamaShape& s, bool tied) {
  ParameterList list;
  list.begin({0});
  list.put("model.embed_tokens.weight", {s.vocabulary, s.width});
  for (std::uint32_t layer = 0; layer < s.layers; ++layer) {
    const std::string prefix = fmt::format("model.layers.{}.", layer);
    list.begin({layer + 1});
    list.put(prefix + "input_layernorm.weight", {s.width});
    list.put(prefix + "self_attn.q_proj.weight", {s.width, s.width});
    list.put(prefix + "self_attn.k_proj.weight", {s.kv_columns(), s.width});
    list.put(prefix + "self_attn.v_proj.weight", {s.kv_columns(), s.width});
    list.put(prefix + "self_attn.o_proj.weight", {s.width, s.width});
    list.put(prefix + "post_attention_layernorm.weight", {s.width});
    list.put(prefix + "mlp.gate_proj.weight", {s.hidden, s.width});
    list.put(prefix + "mlp.up_proj.weight", {s.hidden, s.width});
    list.put(prefix + "mlp.down_proj.weight", {s.width, s.hidden});
  }
  list.begin({s.layers + 1});
  list.put("model.norm.weight", {s.width});
  list.begin({s.layers + 2});
  if (!tied) list.put("lm_head.weight", {s.vocabulary, s.width});
  return list.take();
}

/// The sum of eight uniform 16-bit numbers, centred and scaled to variance 1: close to normal, exact in integers but
/// for one rounding, and bounded by 4.9.
float nearly_normal(std::uint64_t seed, std::uint64_t group, std::uint64_t element, double deviation) {
  std::int64_t sum = 0;
  for (std::uint64_t draw = 0; draw < 2; ++draw)
    for (std::uint64_t bits = keyed(seed, group, element, draw); bits != 0; bits >>= 16)
      sum += static_cast<std::int64_t>(bits & 0xffff);
  const double variance = 8.0 * (65536.0 * 65536.0 - 1) / 12;
  const double centred = static_cast<double>(2 * sum - 8 * 65535) / 2;
  return static_cast<float>(centred * (deviation / std::sqrt(variance)));
}

void check_packing(const Packing& packing, std::size_t context) {
  for (std::size_t d = 0; d + 1 < packing.starts.size(); ++d)
    if (packing.starts[d + 1] - packing.starts[d] > context)
      throw std::invalid_argument(
          fmt::format("model: document {} of the micro-batch has {} tokens, more than the context of {}; cut documents "
                      "to the context, or raise model.context",
                      d, packing.starts[d + 1] - packing.starts[d], context));
}

void check_tokens(std::span<const Token> tokens, std::size_t expected, std::size_t vocabulary, const char* what) {
  if (tokens.size() != expected)
    throw std::invalid_argument(
        fmt::format("model: a micro-batch of {} tokens came with {} {}", expected, tokens.size(), what));
  for (std::size_t t = 0; t < tokens.size(); ++t)
    if (tokens[t] >= vocabulary)
      throw std::invalid_argument(
          fmt::format("model: {} {} is token {}, beyond the vocabulary of {}; use the tokenizer "
                      "that the model was made for",
                      what, t, tokens[t], vocabulary));
}

// A tensor of another micro-batch would be read beyond its end.
void check_rows(const char* what, UnitId unit, const Tensor& tensor, const BatchView& batch, std::size_t width) {
  const std::size_t rows = batch.packing->tokens();
  STAGECRAFT_ASSERT(tensor.size() == rows * width,
                    "the {} of unit {} has {} elements, micro-batch {} has {} tokens of {}", what, unit.value,
                    tensor.size(), batch.micro_batch.value, rows, width);
}

}  // namespace

const Kernels& kernels_of(KernelKind kind) {
  return kind == KernelKind::onednn ? onednn_kernels() : kernels(best_isa());
}

LlamaArithmetic::LlamaArithmetic(const ModelSpec& spec, std::uint64_t seed, Isa isa, std::size_t block_elements)
    : LlamaArithmetic(spec, seed, stagecraft::kernels(isa), block_elements) {}

LlamaArithmetic::LlamaArithmetic(const ModelSpec& spec, std::uint64_t seed, const Kernels& kernels,
                                 std::size_t block_elements)
    : shape_(LlamaShape::of(spec)),
      tied_(spec.tied_embeddings),
      seed_(keyed(seed, name_key("parameters"))),
      block_elements_(block_elements),
      kernels_(&kernels),
      rope_(shape_.context, shape_.head_size, spec.rope_theta),
      parameters_(list_parameters(shape_, tied_)) {
  if (block_elements == 0) throw std::invalid_argument("model: a block of 0 elements holds nothing; use 65536");
}

std::size_t LlamaArithmetic::elements(GroupId group) const {
  if (group == embedding_group() || group == head_group()) return shape_.vocabulary * shape_.width;
  return group.value <= layers() ? shape_.block_elements() : shape_.width;
}

Bytes LlamaArithmetic::charged(GroupId, std::size_t elements) const { return {elements * sizeof(float)}; }

ActivationBytes LlamaArithmetic::activation_bytes(UnitId unit, std::uint32_t tokens) const {
  if (unit.value == 0) return embedding::activation_bytes(shape_, tokens);
  if (unit == head_unit()) return head::activation_bytes(shape_, tokens);
  return block::activation_bytes(shape_, tokens);
}

double LlamaArithmetic::flops(UnitId unit, OperatorKind kind, std::uint32_t tokens, std::uint32_t document) const {
  if (unit.value == 0) return 0;
  const auto t = static_cast<double>(tokens), width = static_cast<double>(shape_.width);
  const bool block = unit != head_unit();
  const double matrices =
      2 * t *
      static_cast<double>(block ? shape_.block_elements() - 2 * shape_.width : shape_.vocabulary * shape_.width);
  // A query sees (document + 1) / 2 keys on average; scores and values are one product each.
  const double product = block ? 2 * t * width * (document + 1.0) / 2 : 0;
  switch (kind) {
    case OperatorKind::forward:
      return matrices + 2 * product;
    case OperatorKind::backward_input:
      return matrices + 5 * product;  // scores again, then four gradients
    case OperatorKind::backward_weight:
      return matrices;
    case OperatorKind::backward:
      return 2 * matrices + 5 * product;
  }
  return 0;
}

void LlamaArithmetic::initialise(GroupId group, std::span<float> values) const {
  if (values.size() != elements(group))
    throw std::invalid_argument(
        fmt::format("model: group {} has {} parameters, not {}", group.value, elements(group), values.size()));
  // A tied head is the embedding table: both ends start, and step, alike.
  const GroupId source = tied_ && group == head_group() ? embedding_group() : group;
  for (const ParameterInfo& parameter : parameters_) {
    if (parameter.group != source) continue;
    const bool to_residual = parameter.name.ends_with("o_proj.weight") || parameter.name.ends_with("down_proj.weight");
    const double deviation = to_residual ? initial_deviation / std::sqrt(2.0 * shape_.layers) : initial_deviation;
    for (std::size_t i = parameter.offset; i < parameter.offset + parameter.elements(); ++i)
      values[i] = parameter.decays() ? nearly_normal(seed_, source.value, i, deviation) : 1.0F;
  }
}

Tensor LlamaArithmetic::forward(UnitId unit, std::span<const Tensor> weights, const Tensor& x, const BatchView& batch,
                                Saved& saved, LossSum& loss, Arena& arena) const {
  check_packing(*batch.packing, shape_.context);
  if (unit.value == 0) {
    check_tokens(batch.inputs, batch.packing->tokens(), shape_.vocabulary, "inputs");
    return embedding::forward(context(), weights[0], batch, arena);
  }
  check_rows("input", unit, x, batch, shape_.width);
  if (unit != head_unit()) return block::forward(context(), weights[0], x, *batch.packing, saved, arena);
  check_tokens(batch.targets, batch.packing->tokens(), shape_.vocabulary, "targets");
  head::forward(context(), weights, x, batch, saved, loss, arena);
  return {};
}

Tensor LlamaArithmetic::input_grad(UnitId unit, std::span<const Tensor> weights, Saved& saved, const Tensor& dy,
                                   const BatchView& batch, Arena& arena) const {
  if (unit == head_unit()) return head::input_grad(context(), weights, saved, *batch.packing, arena);
  check_rows("output gradient", unit, dy, batch, shape_.width);
  if (unit.value != 0) return block::input_grad(context(), weights[0], saved, dy, *batch.packing, arena);
  embedding::input_grad(saved, dy);
  return {};
}

void LlamaArithmetic::weight_grad(UnitId unit, Saved& saved, const BatchView& batch, std::span<Tensor> gradients,
                                  Arena& arena) const {
  if (unit == head_unit()) return head::weight_grad(context(), saved, *batch.packing, gradients, arena);
  if (unit.value != 0) return block::weight_grad(context(), saved, *batch.packing, gradients[0], arena);
  check_tokens(batch.inputs, batch.packing->tokens(), shape_.vocabulary, "inputs");
  embedding::weight_grad(context(), saved, batch, gradients[0]);
}

void LlamaArithmetic::add(std::span<const float> a, std::span<const float> b, std::span<float> sum) const {
  kernels_->add(a.data(), b.data(), sum.data(), sum.size());
}

double LlamaArithmetic::square_sum(std::span<const float> block) const {
  return kernels_->square_sum(block.data(), block.size());
}

void LlamaArithmetic::step(GroupId group, std::size_t first_element, std::span<float> parameters,
                           std::span<float> moment1, std::span<float> moment2, std::span<const float> gradient,
                           const StepFactors& factors) const {
  const GroupId source = tied_ && group == head_group() ? embedding_group() : group;
  for (const ParameterInfo& parameter : parameters_) {
    if (parameter.group != source) continue;
    const std::size_t begin = std::max(parameter.offset, first_element);
    const std::size_t end = std::min(parameter.offset + parameter.elements(), first_element + parameters.size());
    if (begin >= end) continue;
    const std::size_t at = begin - first_element;
    kernels_->adamw({.parameter = parameters.data() + at,
                     .moment1 = moment1.data() + at,
                     .moment2 = moment2.data() + at,
                     .gradient = gradient.data() + at,
                     .elements = end - begin,
                     .gradient_scale = factors.gradient_scale,
                     .learning_rate = factors.learning_rate,
                     .weight_decay = parameter.decays() ? factors.weight_decay : 0,
                     .beta1 = factors.beta1,
                     .beta2 = factors.beta2,
                     .epsilon = factors.epsilon,
                     .bias1 = factors.bias1,
                     .bias2 = factors.bias2});
  }
}

}  // namespace stagecraft
