// The three kinds of unit of a Llama-style model as F, B and W: embedding, block, head.
//
// What each keeps in `Saved`, and how many bytes that is, is known here alone; shapes are in llama.hpp's terms
// (T tokens). F never changes its input; W continues the chains of the gradients it is given.
// Thread promise: pure functions of their arguments; any thread, each with its own tensors.
#pragma once

#include <span>

#include "gpu/arena.hpp"
#include "model/arithmetic.hpp"
#include "model/batch.hpp"
#include "model/layers/shape.hpp"

namespace stagecraft::embedding {

ActivationBytes activation_bytes(const LlamaShape& shape, std::size_t tokens);
/// Rows of the table [vocabulary, width].
Tensor forward(const LayerContext& context, const Tensor& table, const BatchView& batch, Arena& arena);
void input_grad(Saved& saved, const Tensor& dy);
/// Adds row after row of dy to the rows of the tokens, in token order.
void weight_grad(const LayerContext& context, Saved& saved, const BatchView& batch, Tensor& gradient);

}  // namespace stagecraft::embedding

namespace stagecraft::block {

ActivationBytes activation_bytes(const LlamaShape& shape, std::size_t tokens);
Tensor forward(const LayerContext& context, const Tensor& weights, const Tensor& x, const Packing& packing,
               Saved& saved, Arena& arena);
Tensor input_grad(const LayerContext& context, const Tensor& weights, Saved& saved, const Tensor& dy,
                  const Packing& packing, Arena& arena);
void weight_grad(const LayerContext& context, Saved& saved, const Packing& packing, Tensor& gradient, Arena& arena);

}  // namespace stagecraft::block

namespace stagecraft::head {

ActivationBytes activation_bytes(const LlamaShape& shape, std::size_t tokens);
/// Final norm, logits, and the cross-entropy of every token, which goes into `loss`.
void forward(const LayerContext& context, std::span<const Tensor> weights, const Tensor& x, const BatchView& batch,
             Saved& saved, LossSum& loss, Arena& arena);
Tensor input_grad(const LayerContext& context, std::span<const Tensor> weights, Saved& saved, const Packing& packing,
                  Arena& arena);
void weight_grad(const LayerContext& context, Saved& saved, const Packing& packing, std::span<Tensor> gradients,
                 Arena& arena);

}  // namespace stagecraft::head
