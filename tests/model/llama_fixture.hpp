// A whole small model for tests: weights, a batch, and one pass of F, B and W over all units.
// Thread promise: one thread.
#pragma once

#include <cmath>
#include <cstring>
#include <memory>
#include <vector>

#include "model/llama.hpp"
#include "planning/random.hpp"

namespace stagecraft::test {

using Floats = std::vector<float>;

inline bool same_bits(std::span<const float> a, std::span<const float> b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0);
}

inline ModelSpec small_spec() {
  ModelSpec spec;
  spec.layers = 2;
  spec.width = 24;
  spec.heads = 4;
  spec.kv_heads = 2;
  spec.hidden = 40;
  spec.context = 160;
  spec.vocabulary = 37;
  return spec;
}

/// Documents of the given lengths with tokens drawn from `seed`; the targets are drawn too.
struct Batch {
  Packing packing;
  std::vector<Token> inputs, targets;

  Batch(const std::vector<std::uint32_t>& lengths, std::uint32_t vocabulary, std::uint64_t seed = 1) {
    for (std::uint32_t length : lengths) packing.starts.push_back(packing.starts.back() + length);
    for (std::uint64_t t = 0; t < packing.tokens(); ++t) {
      inputs.push_back(static_cast<Token>(bounded(keyed(seed, 1, t), vocabulary)));
      targets.push_back(static_cast<Token>(bounded(keyed(seed, 2, t), vocabulary)));
    }
  }
  BatchView view() const { return {Iteration{1}, MicroBatch{0}, &packing, inputs, targets}; }
};

/// Parameters, gradients and the results of the last pass.
class Model {
 public:
  explicit Model(const ModelSpec& spec, Isa isa = best_isa(), std::uint64_t seed = 7)
      : Model(spec, kernels(isa), seed) {}
  Model(const ModelSpec& spec, const Kernels& kernels, std::uint64_t seed = 7) : arithmetic(spec, seed, kernels) {
    for (std::uint32_t g = 0; g < arithmetic.groups(); ++g) {
      weights.emplace_back(*arena, arithmetic.elements({g}));
      arithmetic.initialise({g}, weights.back().span());
      gradients.emplace_back(*arena, arithmetic.elements({g}));
    }
    clear();
  }

  void clear() {
    for (Tensor& g : gradients) std::memset(g.data(), 0, g.size() * sizeof(float));
  }

  /// Handles to the tensors of a unit's groups; a tied head reads the embedding table.
  std::vector<Tensor> of(const std::vector<Tensor>& all, UnitId unit, bool read) const {
    std::vector<Tensor> picked;
    for (GroupId g : arithmetic.groups_of(unit))
      picked.push_back(all[read && arithmetic.tied() && g == arithmetic.head_group() ? 0 : g.value]);
    return picked;
  }

  /// F of all units: outputs[u] is what unit u returned; the loss of this pass.
  LossSum forward(const Batch& batch) {
    LossSum loss;
    saved.assign(arithmetic.units(), {});
    outputs.clear();
    Tensor x;
    for (std::uint32_t u = 0; u < arithmetic.units(); ++u) {
      x = arithmetic.forward({u}, of(weights, {u}, true), x, batch.view(), saved[u], loss, *arena);
      outputs.push_back(x);
    }
    return loss;
  }
  /// B of all units: input_gradients[u] is what unit u returned.
  void input_grad(const Batch& batch) {
    input_gradients.assign(arithmetic.units(), {});
    Tensor dy;
    for (std::uint32_t u = arithmetic.units(); u-- > 0;) {
      dy = arithmetic.input_grad({u}, of(weights, {u}, true), saved[u], dy, batch.view(), *arena);
      input_gradients[u] = dy;
    }
  }
  void weight_grad(const Batch& batch) {
    for (std::uint32_t u = 0; u < arithmetic.units(); ++u) {
      auto picked = of(gradients, {u}, false);
      arithmetic.weight_grad({u}, saved[u], batch.view(), picked, *arena);
    }
  }
  LossSum pass(const Batch& batch) {
    const LossSum loss = forward(batch);
    input_grad(batch);
    weight_grad(batch);
    return loss;
  }

  std::shared_ptr<Arena> arena = Arena::make("test", Bytes{});
  LlamaArithmetic arithmetic;
  std::vector<Tensor> weights, gradients, outputs, input_gradients;
  std::vector<Saved> saved;
};

/// Larger weights than at the start, and gains that differ, so that every path carries a visible gradient.
inline void make_lively(Model& model) {
  for (std::uint32_t g = 0; g < model.weights.size(); ++g)
    for (std::size_t i = 0; i < model.weights[g].size(); ++i) {
      const double u = static_cast<double>(keyed(99, g, i) >> 11) * 0x1p-53 - 0.5;
      model.weights[g].data()[i] = static_cast<float>(0.8 * u);
    }
  for (const ParameterInfo& p : model.arithmetic.parameters())
    if (!p.decays())
      for (std::size_t i = 0; i < p.elements(); ++i) model.weights[p.group.value].data()[p.offset + i] += 1.0F;
}

}  // namespace stagecraft::test
