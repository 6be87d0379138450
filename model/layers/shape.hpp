// The sizes of a Llama-style model and where its matrices lie in their groups.
// Thread promise: values.
#pragma once

#include <cstddef>

#include "config/topology.hpp"
#include "model/kernels/kernels.hpp"

namespace stagecraft {

class RopeTable;

/// Sizes in elements. A block's group holds, in this order: attention gain [width], q, k, v ([q_columns + 2
/// kv_columns, width] together), o [width, q_columns], feed-forward gain [width], gate and up ([2 hidden, width]
/// together), down [width, hidden].
struct LlamaShape {
  std::uint32_t layers = 0;
  std::size_t width = 0, heads = 0, kv_heads = 0, head_size = 0, hidden = 0, context = 0, vocabulary = 0;
  float norm_epsilon = 0;

  std::size_t kv_columns() const { return kv_heads * head_size; }
  /// Of q, k and v side by side.
  std::size_t qkv_columns() const { return width + 2 * kv_columns(); }

  std::size_t attention_gain() const { return 0; }
  std::size_t qkv() const { return width; }
  std::size_t output() const { return qkv() + qkv_columns() * width; }
  std::size_t feed_forward_gain() const { return output() + width * width; }
  std::size_t gate_up() const { return feed_forward_gain() + width; }
  std::size_t down() const { return gate_up() + 2 * hidden * width; }
  std::size_t block_elements() const { return down() + width * hidden; }

  /// Throws std::invalid_argument, with the numbers, when no model has this shape. A hidden width of 0 means 8/3 of the
  /// width, rounded up to a multiple of 8.
  static LlamaShape of(const ModelSpec& spec);
};

/// What every layer function needs to know; all of it outlives the call.
struct LayerContext {
  const LlamaShape& shape;
  const Kernels& kernels;
  const RopeTable& rope;
};

}  // namespace stagecraft
