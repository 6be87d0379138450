// Causal attention of one head over any vector F of sixteen floats, forward and backward (see AttentionHead).
//
// Queries go in strips of sixteen, keys in groups of sixteen, both anchored at the document's start: what lies beyond
// the diagonal group is neither computed nor read. The strips are part of the definition (they say which zeros of the
// diagonal group join a chain), so they are the same for every F, whatever its register tile.
// Thread promise: as kernels.hpp.
#pragma once

#include "model/kernels/exp_template.hpp"
#include "model/kernels/kernels.hpp"
#include "model/kernels/layer_template.hpp"
#include "model/kernels/register_tile.hpp"

namespace stagecraft {

/// All columns of `panels` (panel j starts at j * panel_depth) for `rows` rows: c = rows x panels, or +=.
template <class F, class Rows>
void multiply_panels(Rows a, std::size_t rows, const float* panels, std::size_t panel_depth, std::size_t depth,
                     float* c, std::size_t ldc, std::size_t columns, bool load) {
  for (std::size_t j = 0; j < columns; j += panel_columns<F>)
    for_each_tile<F>(rows, [&](std::size_t i, auto height) {
      register_tile<F, decltype(height)::value>(a.from(i), {.panel = panels + j * panel_depth,
                                                            .depth = depth,
                                                            .c = c + i * ldc + j,
                                                            .ldc = ldc,
                                                            .columns = columns - j,
                                                            .load = load});
    });
}

/// Panels of a matrix [depth, columns]; returns the place behind them.
template <class F>
float* pack_matrix(const float* source, std::size_t ld, std::size_t depth, std::size_t columns, float* panels) {
  for (std::size_t j = 0; j < columns; j += panel_columns<F>, panels += depth * panel_columns<F>)
    for (std::size_t v = 0; v < panel_columns<F>; v += F::lanes)
      pack_plain<F>(source + j + v, ld, depth, columns > j + v ? columns - j - v : 0, panels + v, panel_columns<F>);
  return panels;
}

/// Panels of the transpose of a matrix [columns, depth]; returns the place behind them.
template <class F>
float* pack_transpose(const float* source, std::size_t ld, std::size_t depth, std::size_t columns, float* panels) {
  for (std::size_t j = 0; j < columns; j += panel_columns<F>, panels += depth * panel_columns<F>)
    for (std::size_t v = 0; v < panel_columns<F>; v += F::lanes)
      pack_transposed<F>(source + (j + v) * ld, ld, depth, columns > j + v ? columns - j - v : 0, panels + v,
                         panel_columns<F>);
  return panels;
}

/// One row of raw scores becomes probabilities: the first `seen`, then zeros up to the end of their group.
template <class F>
void softmax_row(float* row, std::size_t seen, float factor, float* maximum, float* inverse) {
  const F scale = F::broadcast(factor), lowest = F::broadcast(-__builtin_inff());
  const std::size_t whole = seen / lanes_of_row * lanes_of_row, rest = seen - whole;
  F largest = lowest;
  for (std::size_t j = 0; j < whole; j += lanes_of_row) largest = max(largest, F::load(row + j) * scale);
  if (rest > 0) largest = max(largest, first(F::load(row + whole) * scale, rest, lowest));
  *maximum = largest.maximum();
  const F shift = F::broadcast(*maximum);
  F sum = F::zero();
  for (std::size_t j = 0; j < whole; j += lanes_of_row) {
    const F e = exp_of(F::load(row + j) * scale - shift);
    sum = sum + e;
    e.store(row + j);
  }
  if (rest > 0) {
    const F e = first(exp_of(F::load(row + whole) * scale - shift), rest, F::zero());
    sum = sum + e;
    e.store(row + whole);
  }
  *inverse = 1.0F / sum.sum();
  const F factor_of_all = F::broadcast(*inverse);
  for (std::size_t j = 0; j < seen; j += lanes_of_row) (F::load(row + j) * factor_of_all).store(row + j);
}

/// One row of raw scores becomes the same probabilities again, and dp (their gradient) the gradient of the raw scores:
/// p (dp - dot) scale, where dot is the sum of p dp.
template <class F>
void softmax_grad_row(float* row, float* dp, std::size_t seen, float factor, float maximum, float inverse, float dot) {
  const F scale = F::broadcast(factor), shift = F::broadcast(maximum);
  const F part = F::broadcast(inverse), offset = F::broadcast(dot);
  const std::size_t whole = seen / lanes_of_row * lanes_of_row, rest = seen - whole;
  for (std::size_t j = 0; j < whole; j += lanes_of_row) {
    const F p = exp_of(F::load(row + j) * scale - shift) * part;
    p.store(row + j);
    (p * (F::load(dp + j) - offset) * scale).store(dp + j);
  }
  if (rest == 0) return;
  const F p = first(exp_of(F::load(row + whole) * scale - shift) * part, rest, F::zero());
  p.store(row + whole);
  first(p * (F::load(dp + whole) - offset) * scale, rest, F::zero()).store(dp + whole);
}

/// The strips of queries of rows first .. first + rows: body(first row, rows, keys that the strip's last row sees).
template <class Body>
void for_each_strip(std::size_t first, std::size_t rows, Body body) {
  for (std::size_t r = first; r < first + rows; r += attention_strip) {
    const std::size_t height = first + rows - r < attention_strip ? first + rows - r : attention_strip;
    body(r, height, r + height);
  }
}

template <class F>
void attention_forward(const AttentionHead& head, float* out) {
  const std::size_t size = head.head_size, ld = attention_score_ld(head.length);
  float* scores = head.scratch;
  float* keys = scores + (head.length < attention_strip ? head.length : attention_strip) * ld;
  float* values = pack_transpose<F>(head.k, head.ld, size, head.length, keys);
  pack_matrix<F>(head.v, head.ld, head.length, size, values);
  for_each_strip(0, head.length, [&](std::size_t r, std::size_t rows, std::size_t seen) {
    multiply_panels<F>(PlainRows{head.q + r * head.ld, head.ld}, rows, keys, size, size, scores, ld, seen, false);
    for (std::size_t i = 0; i < rows; ++i)
      softmax_row<F>(scores + i * ld, r + i + 1, head.scale, head.maximum + (r + i) * head.stride,
                     head.inverse + (r + i) * head.stride);
    multiply_panels<F>(PlainRows{scores, ld}, rows, values, head.length, seen, out + r * head.out_ld, head.out_ld, size,
                       false);
  });
}

/// Continues the chains of `gradient` (dk or dv) with weights^T x vectors for one tile of `rows` rows from `first` on:
/// weights [rows, first + rows], `panels` [rows, head_size].
template <class F>
void attention_key_gradient(const AttentionHead& head, const float* weights, const float* panels, std::size_t first,
                            std::size_t rows, float* gradient) {
  const std::size_t ld = attention_score_ld(head.length);
  multiply_panels<F>(ColumnsAsRows{weights, ld}, first, panels, rows, rows, gradient, head.ld, head.head_size, true);
  for_each_strip(first, rows, [&](std::size_t key, std::size_t keys, std::size_t) {
    const std::size_t skipped = key - first;  // rows that come before these keys
    multiply_panels<F>(ColumnsAsRows{weights + skipped * ld + key, ld}, keys, panels + skipped * panel_columns<F>, rows,
                       rows - skipped, gradient + key * head.ld, head.ld, head.head_size, true);
  });
}

template <class F>
void attention_backward(const AttentionHead& head, const AttentionGradient& g) {
  const std::size_t size = head.head_size, ld = attention_score_ld(head.length);
  const std::size_t tile_rows = head.length < attention_rows ? head.length : attention_rows;
  float* scores = head.scratch;
  float* dp = scores + tile_rows * ld;
  float* transposed_keys = dp + tile_rows * ld;
  float* transposed_values = pack_transpose<F>(head.k, head.ld, size, head.length, transposed_keys);
  float* keys = pack_transpose<F>(head.v, head.ld, size, head.length, transposed_values);
  float* queries = pack_matrix<F>(head.k, head.ld, head.length, size, keys);
  for (std::size_t first = 0; first < head.length; first += attention_rows) {
    const std::size_t tile = head.length - first < attention_rows ? head.length - first : attention_rows;
    for_each_strip(first, tile, [&](std::size_t r, std::size_t rows, std::size_t seen) {
      float* s = scores + (r - first) * ld;
      float* ds = dp + (r - first) * ld;
      const float* dout = g.dout + r * head.out_ld;
      multiply_panels<F>(PlainRows{head.q + r * head.ld, head.ld}, rows, transposed_keys, size, size, s, ld, seen,
                         false);
      multiply_panels<F>(PlainRows{dout, head.out_ld}, rows, transposed_values, size, size, ds, ld, seen, false);
      for (std::size_t i = 0; i < rows; ++i)
        softmax_grad_row<F>(s + i * ld, ds + i * ld, r + i + 1, head.scale, head.maximum[(r + i) * head.stride],
                            head.inverse[(r + i) * head.stride],
                            dot<F>(g.out + (r + i) * head.out_ld, dout + i * head.out_ld, size));
      multiply_panels<F>(PlainRows{ds, ld}, rows, keys, head.length, seen, g.dq + r * head.ld, head.ld, size, false);
    });
    float* out_gradients = pack_matrix<F>(head.q + first * head.ld, head.ld, tile, size, queries);
    pack_matrix<F>(g.dout + first * head.out_ld, head.out_ld, tile, size, out_gradients);
    attention_key_gradient<F>(head, scores, out_gradients, first, tile, g.dv);
    attention_key_gradient<F>(head, dp, queries, first, tile, g.dk);
  }
}

}  // namespace stagecraft
