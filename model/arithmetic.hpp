// What a model is to the rest of the house: units with F, B and W, parameter groups with add, norm and step.
//
// Two kinds stand behind it: `LlamaArithmetic` (fp32, every output element one chain of fused multiply-adds) and
// `DigestArithmetic` (no arithmetic: eight bytes of provenance stand for the bits).
//
// Units, in model order: embedding (0), blocks (1 .. L), head (L+1). Groups: embedding table (0), one per block
// (1 .. L), final norm (L+1), head table (L+2). The head unit uses the last two.
//
// Thread promise: const and stateless; any number of threads, each with its own tensors.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "gpu/arena.hpp"
#include "model/batch.hpp"
#include "model/exact_sum.hpp"
#include "planning/ids.hpp"
#include "planning/operator.hpp"

namespace stagecraft {

/// What F leaves behind for B, and B for W, of one unit and one micro-batch. Only the arithmetic knows the order.
struct Saved {
  std::vector<Tensor> tensors;
};

/// Sum of the losses of all tokens seen, and their number. Order of addition does not matter.
struct LossSum {
  ExactSum loss;
  std::uint64_t tokens = 0;
};

/// Charged bytes of one unit and one micro-batch.
struct ActivationBytes {
  Bytes after_forward;         ///< kept from F to B, without the input tensor, which the caller's handle may share
  Bytes after_backward_input;  ///< kept from B to W
  Bytes output;                ///< the tensor that F returns
  Bytes input_gradient;        ///< the tensor that B returns
  Bytes scratch;               ///< the most that an operator allocates and frees again inside itself
};

/// The numbers of one optimizer step, computed once from the step number. Every owner uses the same.
struct StepFactors {
  float gradient_scale = 1;  ///< clip factor / global token count
  float learning_rate = 0;
  float weight_decay = 0;
  float beta1 = 0, beta2 = 0, epsilon = 0;
  float bias1 = 1, bias2 = 1;  ///< 1 / (1 - beta^step)
};

/// One named parameter: where it lies in its group.
struct ParameterInfo {
  std::string name;
  GroupId group;
  std::size_t offset = 0;  ///< elements from the start of the group
  std::vector<std::size_t> shape;

  std::size_t elements() const {
    std::size_t product = 1;
    for (std::size_t extent : shape) product *= extent;
    return product;
  }
  /// Gains of norms are vectors; weight decay leaves them alone.
  bool decays() const { return shape.size() > 1; }
};

class Arithmetic {
 public:
  virtual ~Arithmetic() = default;

  virtual std::uint32_t layers() const = 0;
  virtual bool tied() const = 0;
  /// All parameters in model order, by global names. A tied model lists its table once, as the embedding.
  virtual const std::vector<ParameterInfo>& parameters() const = 0;
  virtual std::size_t elements(GroupId group) const = 0;
  /// The grid on which replicas own a group's elements, anchored at the group's start.
  virtual std::size_t block_elements() const = 0;
  /// Charged bytes of `elements` parameters (or moments, or gradients) of a group.
  virtual Bytes charged(GroupId group, std::size_t elements) const = 0;
  virtual ActivationBytes activation_bytes(UnitId unit, std::uint32_t tokens) const = 0;
  /// Multiply-adds x 2 of one operator of one unit on `tokens` tokens in documents of about `document` tokens.
  virtual double flops(UnitId unit, OperatorKind kind, std::uint32_t tokens, std::uint32_t document) const = 0;

  /// The first parameters: a function of the seed, the group and the element alone.
  virtual void initialise(GroupId group, std::span<float> parameters) const = 0;

  /// x is empty for the embedding; the result is empty for the head, which adds its tokens to `loss` instead.
  virtual Tensor forward(UnitId unit, std::span<const Tensor> weights, const Tensor& x, const BatchView& batch,
                         Saved& saved, LossSum& loss, Arena& arena) const = 0;
  /// dy is empty for the head; the result is empty for the embedding. Keeps in `saved` just what W needs.
  virtual Tensor input_grad(UnitId unit, std::span<const Tensor> weights, Saved& saved, const Tensor& dy,
                            const BatchView& batch, Arena& arena) const = 0;
  /// Adds to `gradients` (one tensor per group of the unit), each element one chain continued from its present value:
  /// calling it for micro-batches 0, 1, 2 in order is one long chain. The gradient is of the *sum* over tokens.
  virtual void weight_grad(UnitId unit, Saved& saved, const BatchView& batch, std::span<Tensor> gradients,
                           Arena& arena) const = 0;

  /// sum = a + b, element by element; `sum` may be `a` or `b`.
  virtual void add(std::span<const float> a, std::span<const float> b, std::span<float> sum) const = 0;
  /// Sum of squares of one block (at most block_elements), in a fixed order in double.
  virtual double square_sum(std::span<const float> block) const = 0;
  /// AdamW in place on a run of elements of one group.
  virtual void step(GroupId group, std::size_t first_element, std::span<float> parameters, std::span<float> moment1,
                    std::span<float> moment2, std::span<const float> gradient, const StepFactors& factors) const = 0;

  std::uint32_t units() const { return layers() + 2; }
  std::uint32_t groups() const { return layers() + 3; }
  UnitId head_unit() const { return {layers() + 1}; }
  GroupId embedding_group() const { return {0}; }
  GroupId head_group() const { return {layers() + 2}; }
  /// The groups of a unit, in the order in which weights and gradients are passed.
  std::vector<GroupId> groups_of(UnitId unit) const {
    if (unit == head_unit()) return {{layers() + 1}, {layers() + 2}};
    return {{unit.value}};
  }
};

}  // namespace stagecraft
