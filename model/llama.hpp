// A Llama-style decoder in fp32: RMSNorm, rotary grouped-query attention within each document, SwiGLU, no biases.
//
// Every element of every matrix product is one chain of fused multiply-adds in index order, every other reduction has
// sixteen fixed lanes and a fixed tree: the bits depend on the numbers alone, not on the instruction set, on blocking,
// or on where a document lies in its micro-batch.
//
// Memory: `saved` holds a handle to x from F to W and to dy from B to W. `ActivationBytes::after_forward` leaves x out,
// `after_backward_input` counts both.
//
// Thread promise: as Arithmetic; const and stateless, scratch for packing is thread-local.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "config/topology.hpp"
#include "model/arithmetic.hpp"
#include "model/kernels/kernels.hpp"
#include "model/layers/rope.hpp"
#include "model/layers/shape.hpp"

namespace stagecraft {

/// The fastest kernels of a kind on this CPU. Throws std::runtime_error, with what to do, when this build has no onednn
/// (ask onednn_missing() first).
const Kernels& kernels_of(KernelKind kind);

class LlamaArithmetic final : public Arithmetic {
 public:
  /// Throws std::invalid_argument when the shape is impossible (see ModelSpec) or `isa` is not there on this CPU.
  LlamaArithmetic(const ModelSpec& spec, std::uint64_t seed, Isa isa = best_isa(), std::size_t block_elements = 65536);
  /// With any table of kernels, which outlives this.
  LlamaArithmetic(const ModelSpec& spec, std::uint64_t seed, const Kernels& kernels,
                  std::size_t block_elements = 65536);

  /// Names and row-major shapes are those of Hugging Face's Llama; a linear layer stores [out, in].
  const std::vector<ParameterInfo>& parameters() const override { return parameters_; }
  Isa isa() const { return kernels_->isa; }

  std::uint32_t layers() const override { return shape_.layers; }
  bool tied() const override { return tied_; }
  std::size_t elements(GroupId group) const override;
  std::size_t block_elements() const override { return block_elements_; }
  Bytes charged(GroupId group, std::size_t elements) const override;
  ActivationBytes activation_bytes(UnitId unit, std::uint32_t tokens) const override;
  double flops(UnitId unit, OperatorKind kind, std::uint32_t tokens, std::uint32_t document) const override;

  /// Matrices: normal(0, 0.02) to within the tails of a sum of eight uniform numbers; o_proj and down_proj are divided
  /// by sqrt(2 layers); gains are 1. A tied head starts as the embedding does.
  void initialise(GroupId group, std::span<float> parameters) const override;

  /// Throws std::invalid_argument for a document longer than the context and for a token outside the vocabulary.
  Tensor forward(UnitId unit, std::span<const Tensor> weights, const Tensor& x, const BatchView& batch, Saved& saved,
                 LossSum& loss, Arena& arena) const override;
  Tensor input_grad(UnitId unit, std::span<const Tensor> weights, Saved& saved, const Tensor& dy,
                    const BatchView& batch, Arena& arena) const override;
  void weight_grad(UnitId unit, Saved& saved, const BatchView& batch, std::span<Tensor> gradients,
                   Arena& arena) const override;

  void add(std::span<const float> a, std::span<const float> b, std::span<float> sum) const override;
  double square_sum(std::span<const float> block) const override;
  void step(GroupId group, std::size_t first_element, std::span<float> parameters, std::span<float> moment1,
            std::span<float> moment2, std::span<const float> gradient, const StepFactors& factors) const override;

 private:
  LayerContext context() const { return {shape_, *kernels_, rope_}; }

  LlamaShape shape_;
  bool tied_;
  std::uint64_t seed_;
  std::size_t block_elements_;
  const Kernels* kernels_;
  RopeTable rope_;
  std::vector<ParameterInfo> parameters_;
};

}  // namespace stagecraft
