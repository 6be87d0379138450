// The arithmetic of emulated devices: none. Every tensor is eight bytes of provenance, a digest of the operator, its
// inputs and the order of accumulation, so that "same bits" means something where nothing is computed.
//
// Charged bytes come from the cost table, so that arenas and estimates show what the real tensors would take.
// Thread promise: const and stateless; any thread.
#pragma once

#include <memory>

#include "model/arithmetic.hpp"
#include "planning/cost.hpp"

namespace stagecraft {

class DigestArithmetic final : public Arithmetic {
 public:
  /// `costs` of the stage that will run it, which hosts `stage_layers` layers: tables per stage are divided by it.
  DigestArithmetic(std::uint32_t layers, bool tied, std::uint64_t seed, const CostTable& costs,
                   std::uint32_t stage_layers);
  /// Of another stage of the same model.
  DigestArithmetic(const DigestArithmetic& model, const CostTable& costs, std::uint32_t stage_layers);

  std::uint32_t layers() const override { return layers_; }
  bool tied() const override { return tied_; }
  /// One per group, `digest.<group>`.
  const std::vector<ParameterInfo>& parameters() const override { return *parameters_; }
  std::size_t elements(GroupId) const override { return 2 * blocks_per_group; }
  std::size_t block_elements() const override { return 2; }
  Bytes charged(GroupId group, std::size_t elements) const override;
  ActivationBytes activation_bytes(UnitId unit, std::uint32_t tokens) const override;
  double flops(UnitId, OperatorKind, std::uint32_t, std::uint32_t) const override { return 0; }
  void initialise(GroupId group, std::span<float> parameters) const override;
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
  static constexpr std::size_t blocks_per_group = 2;  // digests per group, so that replicas share every group
  bool is_block(std::uint32_t index) const { return index > 0 && index <= layers_; }
  Bytes per_layer(Bytes total) const { return costs_.per_layer ? total : Bytes{total.value / stage_layers_}; }

  std::uint32_t layers_;
  bool tied_;
  std::uint64_t seed_;
  CostTable costs_;
  std::uint32_t stage_layers_;
  std::shared_ptr<const std::vector<ParameterInfo>> parameters_;  // the whole model's, so one list for all stages
};

}  // namespace stagecraft
