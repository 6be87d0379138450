// The matrix product over any vector F of sixteen floats: packed panels and a register tile of F's own shape.
//
// Blocking never changes bits: every element is one chain of fused multiply-adds over k, kept in a register inside a
// block of k and reloaded from C at the next (see MatrixProduct).
// Thread promise: as kernels.hpp.
#pragma once

#include "model/kernels/register_tile.hpp"
#include "model/kernels/tables.hpp"

namespace stagecraft {

namespace matmul_block {
constexpr std::size_t depth = 352;     // of k: a panel of B (22 KiB for 16 columns) stays in the first-level cache
constexpr std::size_t height = 192;    // rows of A packed at a time (264 KiB, of the second-level cache)
constexpr std::size_t breadth = 1536;  // columns of B packed at a time (2 MiB, of the last-level cache)
}  // namespace matmul_block

/// How many parts of at most `most` make `total`.
constexpr std::size_t parts_of(std::size_t total, std::size_t most) { return (total + most - 1) / most; }

/// `columns` columns of op(B) from (k0, j0) on, `depth` deep, as one panel; columns beyond `columns` become 0.
template <class F>
void pack_panel(const MatrixProduct& x, std::size_t k0, std::size_t j0, std::size_t depth, std::size_t columns,
                float* panel) {
  constexpr std::size_t width = panel_columns<F>;
  for (std::size_t v = 0; v < width; v += F::lanes) {
    const std::size_t here = columns > v ? columns - v : 0;
    if (x.transpose_b)
      pack_transposed<F>(x.b + (j0 + v) * x.ldb + k0, x.ldb, depth, here, panel + v, width);
    else
      pack_plain<F>(x.b + k0 * x.ldb + j0 + v, x.ldb, depth, here, panel + v, width);
  }
}

/// Rows i0 .. i0 + rows of op(A), tile by tile: element (i, k) of a tile of R rows is at [k * R + i].
template <class F>
void pack_rows(const MatrixProduct& x, std::size_t i0, std::size_t k0, std::size_t rows, std::size_t depth,
               float* packed) {
  if (!x.transpose_a)
    return for_each_tile<F>(rows, [&](std::size_t i, auto height) {
      F::template pack_rows<decltype(height)::value>(x.a + (i0 + i) * x.lda + k0, x.lda, depth, packed + i * depth);
    });
  // A few rows of A at a time through all tiles, so that what the cache fetches is used up at once.
  for (std::size_t k = 0; k < depth; k += pack_chunk) {
    const std::size_t chunk = depth - k < pack_chunk ? depth - k : pack_chunk;
    for_each_tile<F>(rows, [&](std::size_t i, auto height) {
      constexpr std::size_t R = decltype(height)::value;
      F::template pack_columns<R>(x.a + (k0 + k) * x.lda + i0 + i, x.lda, chunk, packed + i * depth + k * R);
    });
  }
}

/// Rows of the next block when `left` are left: blocks of nearly equal height, of whole tiles.
template <class F>
std::size_t block_height(std::size_t left) {
  const std::size_t tiles = parts_of(parts_of(left, parts_of(left, matmul_block::height)), F::tile_rows);
  return tiles * F::tile_rows < left ? tiles * F::tile_rows : left;
}

/// Packing A costs a pass over it: it pays when several panels of B read it.
template <class F>
bool packs_rows(const MatrixProduct& x) {
  return x.n > 2 * panel_columns<F>;
}

/// All rows of one block of columns (from n0) and of k (from k0). `packed_b` holds the panels.
template <class F>
void multiply_block(const MatrixProduct& x, std::size_t n0, std::size_t breadth, std::size_t k0, std::size_t depth,
                    const float* packed_b, float* packed_a) {
  const bool pack = packs_rows<F>(x);
  const bool load = x.accumulate || k0 > 0;
  for (std::size_t m0 = 0, height = 0; m0 < x.m; m0 += height) {
    height = block_height<F>(x.m - m0);
    if (pack) pack_rows<F>(x, m0, k0, height, depth, packed_a);
    for (std::size_t j = 0; j < breadth; j += panel_columns<F>) {
      const std::size_t columns = breadth - j < panel_columns<F> ? breadth - j : panel_columns<F>;
      for_each_tile<F>(height, [&](std::size_t i, auto tile_height) {
        constexpr std::size_t R = decltype(tile_height)::value;
        const PanelTile tile{.panel = packed_b + j * depth,
                             .depth = depth,
                             .c = x.c + (m0 + i) * x.ldc + n0 + j,
                             .ldc = x.ldc,
                             .columns = columns,
                             .load = load};
        if (pack)
          register_tile<F, R>(PackedRows<R>{packed_a + i * depth}, tile);
        else if (x.transpose_a)
          register_tile<F, R>(ColumnsAsRows{x.a + k0 * x.lda + m0 + i, x.lda}, tile);
        else
          register_tile<F, R>(PlainRows{x.a + (m0 + i) * x.lda + k0, x.lda}, tile);
      });
    }
  }
}

/// See MatrixProduct.
template <class F>
void matmul(const MatrixProduct& x) {
  if (x.k == 0 && !x.accumulate)
    for (std::size_t i = 0; i < x.m; ++i)
      for (std::size_t j = 0; j < x.n; ++j) x.c[i * x.ldc + j] = 0.0F;
  if (x.m == 0 || x.n == 0 || x.k == 0) return;
  constexpr std::size_t width = panel_columns<F>;
  constexpr std::size_t a_floats = (matmul_block::height + F::tile_rows) * matmul_block::depth + packing_slack;
  const std::size_t widest = x.n < matmul_block::breadth ? x.n : matmul_block::breadth;
  const std::size_t deepest = x.k < matmul_block::depth ? x.k : matmul_block::depth;
  float* packed_a = packing_scratch(a_floats + parts_of(widest, width) * width * deepest);
  float* packed_b = packed_a + a_floats;
  for (std::size_t n0 = 0; n0 < x.n; n0 += matmul_block::breadth) {
    const std::size_t breadth = x.n - n0 < matmul_block::breadth ? x.n - n0 : matmul_block::breadth;
    for (std::size_t k0 = 0, left = parts_of(x.k, matmul_block::depth); left > 0; --left) {
      const std::size_t depth = parts_of(x.k - k0, left);
      for (std::size_t j = 0; j < breadth; j += width)
        pack_panel<F>(x, k0, n0 + j, depth, breadth - j, packed_b + j * depth);
      multiply_block<F>(x, n0, breadth, k0, depth, packed_b, packed_a);
      k0 += depth;
    }
  }
}

}  // namespace stagecraft
