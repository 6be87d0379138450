#include "model/digest.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

#include "planning/random.hpp"

namespace stagecraft {

namespace {

std::uint64_t word(const float* at) {
  std::uint64_t w = 0;
  std::memcpy(&w, at, sizeof w);
  return w;
}
void set_word(float* at, std::uint64_t w) { std::memcpy(at, &w, sizeof w); }

std::uint64_t digest(std::span<const float> floats) {
  std::uint64_t h = 0;
  for (std::size_t i = 0; i + 1 < floats.size(); i += 2) h = keyed(h, word(&floats[i]));
  return h;
}
std::uint64_t digest(const Tensor& tensor) { return tensor.empty() ? 0 : digest(tensor.span()); }
std::uint64_t digest(std::span<const Tensor> tensors) {
  std::uint64_t h = 0;
  for (const Tensor& t : tensors) h = keyed(h, digest(t));
  return h;
}

Tensor make(Arena& arena, std::uint64_t value, Bytes charged) {
  Tensor t(arena.allocate(2 * sizeof(float), charged), 2);
  set_word(t.data(), value);
  return t;
}

}  // namespace

DigestArithmetic::DigestArithmetic(std::uint32_t layers, bool tied, std::uint64_t seed, const CostTable& costs,
                                   std::uint32_t stage_layers)
    : layers_(layers), tied_(tied), seed_(seed), costs_(costs), stage_layers_(std::max(stage_layers, 1U)) {
  std::vector<ParameterInfo> parameters;
  for (std::uint32_t g = 0; g < groups(); ++g)
    if (!tied_ || GroupId{g} != head_group())
      parameters.push_back({"digest." + std::to_string(g), {g}, 0, {2 * blocks_per_group}});
  parameters_ = std::make_shared<const std::vector<ParameterInfo>>(std::move(parameters));
}

DigestArithmetic::DigestArithmetic(const DigestArithmetic& model, const CostTable& costs, std::uint32_t stage_layers)
    : DigestArithmetic(model) {
  costs_ = costs;
  stage_layers_ = std::max(stage_layers, 1U);
}

Bytes DigestArithmetic::charged(GroupId group, std::size_t count) const {
  if (!is_block(group.value)) return {};
  return {per_layer(costs_.parameters).value * count / elements(group)};
}

ActivationBytes DigestArithmetic::activation_bytes(UnitId unit, std::uint32_t) const {
  ActivationBytes bytes;
  if (is_block(unit.value)) {
    bytes.after_forward = per_layer(costs_.activation);
    bytes.after_backward_input = per_layer(costs_.weight_activation);
  }
  if (unit != head_unit()) bytes.output = costs_.boundary;
  if (unit.value != 0) bytes.input_gradient = costs_.boundary;
  return bytes;
}

void DigestArithmetic::initialise(GroupId group, std::span<float> parameters) const {
  for (std::size_t i = 0; i < parameters.size(); i += 2) set_word(&parameters[i], keyed(seed_, 1, group.value, i));
}

Tensor DigestArithmetic::forward(UnitId unit, std::span<const Tensor> weights, const Tensor& x, const BatchView& batch,
                                 Saved& saved, LossSum& loss, Arena& arena) const {
  const ActivationBytes bytes = activation_bytes(unit, 0);
  const std::uint64_t y =
      keyed(seed_, 'F', unit.value, digest(weights), digest(x), batch.iteration.value, batch.micro_batch.value);
  saved.tensors = {x, make(arena, y, bytes.after_forward)};
  if (unit != head_unit()) return make(arena, y, bytes.output);
  loss.loss.add(static_cast<double>(y >> 40) * 0x1p-24);
  loss.tokens += 1;
  return {};
}

Tensor DigestArithmetic::input_grad(UnitId unit, std::span<const Tensor> weights, Saved& saved, const Tensor& dy,
                                    const BatchView&, Arena& arena) const {
  const ActivationBytes bytes = activation_bytes(unit, 0);
  const std::uint64_t x = digest(saved.tensors[0]), kept = digest(saved.tensors[1]);
  const std::uint64_t dx = keyed(seed_, 'B', unit.value, digest(weights), x, kept, digest(dy));
  saved.tensors.clear();  // a real operator trades what F kept for what W needs bit by bit
  saved.tensors = {make(arena, keyed(x, kept, digest(dy)), bytes.after_backward_input)};
  if (unit.value == 0) return {};
  return make(arena, dx, bytes.input_gradient);
}

void DigestArithmetic::weight_grad(UnitId unit, Saved& saved, const BatchView& batch, std::span<Tensor> gradients,
                                   Arena&) const {
  const std::uint64_t kept = digest(saved.tensors[0]);
  saved.tensors.clear();
  for (std::size_t g = 0; g < gradients.size(); ++g)
    for (std::size_t i = 0; i < gradients[g].size(); i += 2) {
      float* at = gradients[g].data() + i;
      set_word(at, keyed(seed_, 'W', unit.value, g, i, kept, batch.iteration.value, batch.micro_batch.value, word(at)));
    }
}

void DigestArithmetic::add(std::span<const float> a, std::span<const float> b, std::span<float> sum) const {
  for (std::size_t i = 0; i + 1 < sum.size(); i += 2) set_word(&sum[i], keyed(seed_, '+', word(&a[i]), word(&b[i])));
}

double DigestArithmetic::square_sum(std::span<const float> block) const {
  return static_cast<double>(digest(block) >> 40) * 0x1p-24;
}

void DigestArithmetic::step(GroupId, std::size_t, std::span<float> parameters, std::span<float> moment1,
                            std::span<float> moment2, std::span<const float> gradient,
                            const StepFactors& factors) const {
  for (std::size_t i = 0; i + 1 < parameters.size(); i += 2) {
    const std::uint64_t k =
        keyed(seed_, 'S', word(&parameters[i]), word(&moment1[i]), word(&moment2[i]), word(&gradient[i]),
              std::bit_cast<std::uint32_t>(factors.gradient_scale), std::bit_cast<std::uint32_t>(factors.learning_rate),
              std::bit_cast<std::uint32_t>(factors.bias1));
    set_word(&moment1[i], mix_bits(k ^ 1));
    set_word(&moment2[i], mix_bits(k ^ 2));
    set_word(&parameters[i], k);
  }
}

}  // namespace stagecraft
