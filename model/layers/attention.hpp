// Causal grouped-query attention within each document of a micro-batch, in strips anchored at the document's start.
//
// Probabilities are never kept: the forward pass leaves each row's maximum and 1 / sum, and the backward pass computes
// them again with the same bits. Nothing depends on where a document lies or on its neighbours.
// Thread promise: pure functions of their arguments; any thread, each with its own tensors.
#pragma once

#include <cstddef>

#include "gpu/arena.hpp"
#include "model/batch.hpp"
#include "model/layers/shape.hpp"

namespace stagecraft {

/// Floats of scratch that either pass allocates for a micro-batch of `tokens` tokens.
std::size_t attention_scratch_elements(const LlamaShape& shape, std::size_t tokens);

/// Turns q and k of `qkv` ([tokens, qkv_columns]: q, k, v) by their positions, in place, then writes the attended
/// values to `out` [tokens, width] and the statistics to `stats` [tokens, heads, 2] (largest scaled score, 1 / sum of
/// exponentials). Allocates its scratch.
void attention_forward(const LayerContext& context, const Packing& packing, float* qkv, float* out, float* stats,
                       Arena& arena);

/// The gradient of `qkv` as it was before it was turned, from what attention_forward left: `dqkv` [tokens,
/// qkv_columns] is written. `dout` is the gradient of `out`. Allocates its scratch.
void attention_backward(const LayerContext& context, const Packing& packing, const float* qkv, const float* out,
                        const float* stats, const float* dout, float* dqkv, Arena& arena);

}  // namespace stagecraft
