#include "model/layers/attention.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "model/layers/rope.hpp"

namespace stagecraft {

namespace {

/// A document as its attention sees it: `first` is its first token, `length` its number of tokens.
struct Document {
  std::size_t first = 0, length = 0;
};

template <class Body>
void for_each_document(const Packing& packing, Body body) {
  for (std::size_t d = 0; d + 1 < packing.starts.size(); ++d)
    body(Document{packing.starts[d], packing.starts[d + 1] - packing.starts[d]});
}

/// Where q, k and v of one query head begin in a row of qkv.
struct Columns {
  std::size_t q, k, v;
  Columns(const LlamaShape& shape, std::size_t head) {
    const std::size_t kv_head = head / (shape.heads / shape.kv_heads);
    q = head * shape.head_size;
    k = shape.width + kv_head * shape.head_size;
    v = k + shape.kv_columns();
  }
};

/// Head `h` of `document`; statistics of a token's heads are neighbours.
AttentionHead head_of(const LlamaShape& shape, Document document, std::size_t h, const float* qkv, float* stats,
                      Tensor& scratch) {
  const Columns columns(shape, h);
  const float* row = qkv + document.first * shape.qkv_columns();
  float* stats_of_first = stats + 2 * (document.first * shape.heads + h);
  return {.length = document.length,
          .head_size = shape.head_size,
          .ld = shape.qkv_columns(),
          .out_ld = shape.width,
          .q = row + columns.q,
          .k = row + columns.k,
          .v = row + columns.v,
          .scale = 1.0F / std::sqrt(static_cast<float>(shape.head_size)),
          .maximum = stats_of_first,
          .inverse = stats_of_first + 1,
          .stride = 2 * shape.heads,
          .scratch = scratch.data()};
}

}  // namespace

std::size_t attention_scratch_elements(const LlamaShape& shape, std::size_t tokens) {
  return attention_scratch(std::min(tokens, shape.context), shape.head_size);
}

void attention_forward(const LayerContext& context, const Packing& packing, float* qkv, float* out, float* stats,
                       Arena& arena) {
  const LlamaShape& shape = context.shape;
  const std::size_t columns = shape.qkv_columns();
  Tensor scratch(arena, attention_scratch_elements(shape, packing.tokens()));
  for_each_document(packing, [&](Document document) {
    // Query heads and key heads are neighbours in a row, so one call turns them all.
    context.rope.turn(context.kernels, qkv + document.first * columns, columns, document.length,
                      shape.heads + shape.kv_heads);
    for (std::size_t h = 0; h < shape.heads; ++h)
      context.kernels.attention_forward(head_of(shape, document, h, qkv, stats, scratch),
                                        out + document.first * shape.width + h * shape.head_size);
  });
}

void attention_backward(const LayerContext& context, const Packing& packing, const float* qkv, const float* out,
                        const float* stats, const float* dout, float* dqkv, Arena& arena) {
  const LlamaShape& shape = context.shape;
  const std::size_t columns = shape.qkv_columns();
  Tensor scratch(arena, attention_scratch_elements(shape, packing.tokens()));
  std::memset(dqkv, 0, packing.tokens() * columns * sizeof(float));
  // The kernels take one kind of head for both passes; the backward pass only reads the statistics.
  float* statistics = const_cast<float*>(stats);
  for_each_document(packing, [&](Document document) {
    float* row = dqkv + document.first * columns;
    for (std::size_t h = 0; h < shape.heads; ++h) {
      const Columns at(shape, h);
      const std::size_t attended = document.first * shape.width + h * shape.head_size;
      context.kernels.attention_backward(
          head_of(shape, document, h, qkv, statistics, scratch),
          {.out = out + attended, .dout = dout + attended, .dq = row + at.q, .dk = row + at.k, .dv = row + at.v});
    }
    context.rope.turn_back(context.kernels, row, columns, document.length, shape.heads + shape.kv_heads);
  });
}

}  // namespace stagecraft
