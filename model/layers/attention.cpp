#include "model/layers/attention.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "model/layers/rope.hpp"

namespace stagecraft {

namespace {

constexpr std::size_t tile_rows = 64;
constexpr std::size_t lanes = 16;

std::size_t round_up(std::size_t n) { return (n + lanes - 1) / lanes * lanes; }

/// A document as its attention sees it: `first` is its first token, `length` its number of tokens.
struct Document {
  std::size_t first = 0, length = 0;
};

template <class Body>
void for_each_document(const Packing& packing, Body body) {
  for (std::size_t d = 0; d + 1 < packing.starts.size(); ++d)
    body(Document{packing.starts[d], packing.starts[d + 1] - packing.starts[d]});
}

/// Pointers to one query head of one document, and the leading dimensions they go with.
struct Head {
  const LayerContext& context;
  std::size_t length = 0;
  std::size_t ld = 0;      // of q, k, v and their gradients
  std::size_t out_ld = 0;  // of out and its gradient
  const float* q = nullptr;
  const float* k = nullptr;
  const float* v = nullptr;

  Head(const LayerContext& layer, const float* qkv, Document document, std::size_t head)
      : context(layer), length(document.length), ld(layer.shape.qkv_columns()), out_ld(layer.shape.width) {
    const LlamaShape& shape = layer.shape;
    const std::size_t kv_head = head / (shape.heads / shape.kv_heads);
    const float* row = qkv + document.first * ld;
    q = row + head * shape.head_size;
    k = row + shape.width + kv_head * shape.head_size;
    v = k + shape.kv_columns();
  }

  /// raw[i, j] = q[first + i] . k[j] for the keys that the tile can see.
  void raw_scores(const AttentionTile& tile) const {
    context.kernels.matmul({.m = tile.rows,
                            .n = tile.keys,
                            .k = context.shape.head_size,
                            .a = q + tile.first * ld,
                            .lda = ld,
                            .b = k,
                            .ldb = ld,
                            .transpose_b = true,
                            .c = tile.scores,
                            .ldc = tile.ld});
  }
};

/// The tile of `head`'s queries from `first` on; statistics of a token's heads are neighbours.
AttentionTile tile_at(const Head& head, std::size_t first, float* scores, float* stats_of_first) {
  const LlamaShape& shape = head.context.shape;
  AttentionTile tile;
  tile.rows = std::min(tile_rows, head.length - first);
  tile.first = first;
  tile.keys = first + tile.rows;
  tile.scale = 1.0F / std::sqrt(static_cast<float>(shape.head_size));
  tile.scores = scores;
  tile.ld = round_up(tile.keys);
  tile.maximum = stats_of_first;
  tile.inverse = stats_of_first + 1;
  tile.stride = 2 * shape.heads;
  return tile;
}

/// Gradients of one head: where they go, and where the gradient of its output is.
struct HeadGradient {
  float* dq;
  float* dk;
  float* dv;
  const float* out;
  const float* dout;
};

/// dk and dv continue their chains: tiles in order, and the query heads of one key head in order.
void tile_backward(const Head& head, const HeadGradient& grad, const AttentionTile& tile, float* dp) {
  const Kernels& kernels = head.context.kernels;
  const std::size_t size = head.context.shape.head_size;
  const float* dout = grad.dout + tile.first * head.out_ld;
  const float* q = head.q + tile.first * head.ld;
  std::array<float, tile_rows> dot{};
  kernels.row_dots(grad.out + tile.first * head.out_ld, head.out_ld, dout, head.out_ld, tile.rows, size, dot.data(), 1);
  head.raw_scores(tile);
  kernels.matmul({.m = tile.rows,
                  .n = tile.keys,
                  .k = size,
                  .a = dout,
                  .lda = head.out_ld,
                  .b = head.v,
                  .ldb = head.ld,
                  .transpose_b = true,
                  .c = dp,
                  .ldc = tile.ld});
  kernels.attention_grad(tile, dp, dot.data());
  kernels.matmul({.m = tile.keys,
                  .n = size,
                  .k = tile.rows,
                  .a = tile.scores,
                  .lda = tile.ld,
                  .transpose_a = true,
                  .b = dout,
                  .ldb = head.out_ld,
                  .c = grad.dv,
                  .ldc = head.ld,
                  .accumulate = true});
  kernels.matmul({.m = tile.keys,
                  .n = size,
                  .k = tile.rows,
                  .a = dp,
                  .lda = tile.ld,
                  .transpose_a = true,
                  .b = q,
                  .ldb = head.ld,
                  .c = grad.dk,
                  .ldc = head.ld,
                  .accumulate = true});
  kernels.matmul({.m = tile.rows,
                  .n = size,
                  .k = tile.keys,
                  .a = dp,
                  .lda = tile.ld,
                  .b = head.k,
                  .ldb = head.ld,
                  .c = grad.dq + tile.first * head.ld,
                  .ldc = head.ld});
}

}  // namespace

std::size_t attention_tile_elements(const LlamaShape& shape, std::size_t tokens) {
  const std::size_t longest = std::min(tokens, shape.context);
  return std::min(tile_rows, longest) * round_up(longest);
}

void attention_forward(const LayerContext& context, const Packing& packing, float* qkv, float* out, float* stats,
                       Arena& arena) {
  const LlamaShape& shape = context.shape;
  Tensor scores(arena, attention_tile_elements(shape, packing.tokens()));
  for_each_document(packing, [&](Document document) {
    // Query heads and key heads are neighbours in a row, so one call turns them all.
    context.rope.turn(context.kernels, qkv + document.first * shape.qkv_columns(), shape.qkv_columns(), document.length,
                      shape.heads + shape.kv_heads);
    for (std::size_t h = 0; h < shape.heads; ++h) {
      const Head head(context, qkv, document, h);
      for (std::size_t first = 0; first < document.length; first += tile_rows) {
        const std::size_t token = document.first + first;
        const AttentionTile tile = tile_at(head, first, scores.data(), stats + 2 * (token * shape.heads + h));
        head.raw_scores(tile);
        context.kernels.attention_softmax(tile);
        context.kernels.matmul({.m = tile.rows,
                                .n = shape.head_size,
                                .k = tile.keys,
                                .a = tile.scores,
                                .lda = tile.ld,
                                .b = head.v,
                                .ldb = head.ld,
                                .c = out + token * shape.width + h * shape.head_size,
                                .ldc = shape.width});
      }
    }
  });
}

void attention_backward(const LayerContext& context, const Packing& packing, const float* qkv, const float* out,
                        const float* stats, const float* dout, float* dqkv, Arena& arena) {
  const LlamaShape& shape = context.shape;
  const std::size_t columns = shape.qkv_columns();
  Tensor scores(arena, attention_tile_elements(shape, packing.tokens()));
  Tensor dp(arena, attention_tile_elements(shape, packing.tokens()));
  std::memset(dqkv, 0, packing.tokens() * columns * sizeof(float));
  // The kernels take one kind of tile for both passes; the backward pass only reads the statistics.
  float* statistics = const_cast<float*>(stats);
  for_each_document(packing, [&](Document document) {
    float* row = dqkv + document.first * columns;
    for (std::size_t h = 0; h < shape.heads; ++h) {
      const Head head(context, qkv, document, h);
      const std::size_t at = document.first * shape.width + h * shape.head_size;
      const HeadGradient grad{row + (head.q - (qkv + document.first * columns)),
                              row + (head.k - (qkv + document.first * columns)),
                              row + (head.v - (qkv + document.first * columns)), out + at, dout + at};
      for (std::size_t first = 0; first < document.length; first += tile_rows) {
        const std::size_t token = document.first + first;
        tile_backward(head, grad, tile_at(head, first, scores.data(), statistics + 2 * (token * shape.heads + h)),
                      dp.data());
      }
    }
    context.rope.turn_back(context.kernels, row, columns, document.length, shape.heads + shape.kv_heads);
  });
}

}  // namespace stagecraft
