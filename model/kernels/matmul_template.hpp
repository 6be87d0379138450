// The matrix product over any vector F of sixteen floats: packed panels and a 6 x 16 register tile.
//
// Blocking never changes bits: every element is one chain of fused multiply-adds over k, kept in a register inside a
// block of k and reloaded from C at the next (see MatrixProduct).
// Thread promise: as kernels.hpp.
#pragma once

#include "model/kernels/tables.hpp"

namespace stagecraft {

namespace matmul_block {
constexpr std::size_t rows = 6;            // of the register tile: 12 accumulators of the 16 AVX2 registers
constexpr std::size_t lanes = 16;          // columns of the register tile
constexpr std::size_t depth = 384;         // of k: a panel of B (24 KiB) stays in the first-level cache
constexpr std::size_t height = 16 * rows;  // rows of A packed at a time (144 KiB)
constexpr std::size_t breadth = 512;       // columns of B packed at a time (768 KiB)
}  // namespace matmul_block

/// An operand as the register tile reads it: element (i, k) is at data[i * row + k * column].
struct Strided {
  const float* data;
  std::size_t row, column;
};

/// C[R, columns] for one panel of B ([depth][16], packed). `load` continues the chains of C.
template <class F, std::size_t R>
void register_tile(Strided a, const float* panel, std::size_t depth, float* c, std::size_t ldc, std::size_t columns,
                   bool load) {
  F sum[R];
  if (!load) {
    for (std::size_t i = 0; i < R; ++i) sum[i] = F::zero();
  } else {
    for (std::size_t i = 0; i < R; ++i) sum[i] = load_some<F>(c + i * ldc, columns);
  }
  const float* p = a.data;
  for (std::size_t k = 0; k < depth; ++k, p += a.column, panel += matmul_block::lanes) {
    const F b = F::load(panel);
#pragma GCC unroll 6
    for (std::size_t i = 0; i < R; ++i) sum[i] = fma(F::broadcast(p[i * a.row]), b, sum[i]);
  }
#pragma GCC unroll 6
  for (std::size_t i = 0; i < R; ++i) store_some(sum[i], c + i * ldc, columns);
}

template <class F>
void register_tile(std::size_t rows, Strided a, const float* panel, std::size_t depth, float* c, std::size_t ldc,
                   std::size_t columns, bool load) {
  switch (rows) {
    case 1:
      return register_tile<F, 1>(a, panel, depth, c, ldc, columns, load);
    case 2:
      return register_tile<F, 2>(a, panel, depth, c, ldc, columns, load);
    case 3:
      return register_tile<F, 3>(a, panel, depth, c, ldc, columns, load);
    case 4:
      return register_tile<F, 4>(a, panel, depth, c, ldc, columns, load);
    case 5:
      return register_tile<F, 5>(a, panel, depth, c, ldc, columns, load);
    default:
      return register_tile<F, 6>(a, panel, depth, c, ldc, columns, load);
  }
}

/// Sixteen columns of op(B) from (k0, j0) on, `depth` deep, side by side; columns beyond `columns` become 0.
template <class F>
void pack_columns(const MatrixProduct& x, std::size_t k0, std::size_t j0, std::size_t depth, std::size_t columns,
                  float* panel) {
  constexpr std::size_t lanes = matmul_block::lanes;
  if (!x.transpose_b) {
    const float* source = x.b + k0 * x.ldb + j0;
    for (std::size_t k = 0; k < depth; ++k) load_some<F>(source + k * x.ldb, columns).store(panel + k * lanes);
    return;
  }
  const float* source = x.b + j0 * x.ldb + k0;
  std::size_t k = 0;
  if (columns == lanes)
    for (; k + lanes <= depth; k += lanes) F::transpose(source + k, x.ldb, panel + k * lanes);
  for (; k < depth; ++k)
    for (std::size_t j = 0; j < lanes; ++j) panel[k * lanes + j] = j < columns ? source[j * x.ldb + k] : 0.0F;
}

/// Rows i0 .. i0 + rows of op(A), six by six: within a panel, element (i, k) is at [k * 6 + i].
template <class F>
void pack_rows(const MatrixProduct& x, std::size_t i0, std::size_t k0, std::size_t rows, std::size_t depth,
               float* packed) {
  constexpr std::size_t R = matmul_block::rows;
  for (std::size_t i = 0; i < rows; i += R, packed += R * depth) {
    const std::size_t height = rows - i < R ? rows - i : R;
    if (!x.transpose_a) {
      const float* source = x.a + (i0 + i) * x.lda + k0;
      for (std::size_t k = 0; k < depth; ++k)
        for (std::size_t r = 0; r < height; ++r) packed[k * R + r] = source[r * x.lda + k];
    } else if (height == R) {
      const float* source = x.a + k0 * x.lda + i0 + i;
      for (std::size_t k = 0; k < depth; ++k) __builtin_memcpy(packed + k * R, source + k * x.lda, R * sizeof(float));
    } else {
      const float* source = x.a + k0 * x.lda + i0 + i;
      for (std::size_t k = 0; k < depth; ++k)
        for (std::size_t r = 0; r < height; ++r) packed[k * R + r] = source[k * x.lda + r];
    }
  }
}

/// Packing A costs a pass over it: it pays when many panels of B read it and its rows would fall on the same cache sets
/// (leading dimensions of whole pages) or its k direction is not contiguous.
inline constexpr std::size_t narrow_product = 64;
template <class F>
bool packs_rows(const MatrixProduct& x) {
  return x.n > narrow_product && (x.transpose_a || x.lda % 512 == 0);
}

/// All rows of one block of columns (from n0) and of k (from k0). `packed_b` holds the panels.
template <class F>
void multiply_block(const MatrixProduct& x, std::size_t n0, std::size_t breadth, std::size_t k0, std::size_t depth,
                    const float* packed_b, float* packed_a) {
  const bool pack = packs_rows<F>(x);
  const bool load = x.accumulate || k0 > 0;
  for (std::size_t m0 = 0; m0 < x.m; m0 += matmul_block::height) {
    const std::size_t height = x.m - m0 < matmul_block::height ? x.m - m0 : matmul_block::height;
    if (pack) pack_rows<F>(x, m0, k0, height, depth, packed_a);
    for (std::size_t j = 0; j < breadth; j += matmul_block::lanes) {
      const std::size_t columns = breadth - j < matmul_block::lanes ? breadth - j : matmul_block::lanes;
      for (std::size_t i = 0; i < height; i += matmul_block::rows) {
        const std::size_t rows = height - i < matmul_block::rows ? height - i : matmul_block::rows;
        const Strided a = pack            ? Strided{packed_a + i * depth, 1, matmul_block::rows}
                          : x.transpose_a ? Strided{x.a + k0 * x.lda + m0 + i, 1, x.lda}
                                          : Strided{x.a + (m0 + i) * x.lda + k0, x.lda, 1};
        register_tile<F>(rows, a, packed_b + j * depth, depth, x.c + (m0 + i) * x.ldc + n0 + j, x.ldc, columns, load);
      }
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
  constexpr std::size_t a_floats = matmul_block::height * matmul_block::depth;
  const std::size_t widest = x.n < matmul_block::breadth ? x.n : matmul_block::breadth;
  const std::size_t deepest = x.k < matmul_block::depth ? x.k : matmul_block::depth;
  const std::size_t b_floats = (widest + matmul_block::lanes - 1) / matmul_block::lanes * matmul_block::lanes * deepest;
  float* packed_a = packing_scratch(a_floats + b_floats);
  float* packed_b = packed_a + a_floats;
  for (std::size_t n0 = 0; n0 < x.n; n0 += matmul_block::breadth) {
    const std::size_t breadth = x.n - n0 < matmul_block::breadth ? x.n - n0 : matmul_block::breadth;
    for (std::size_t k0 = 0; k0 < x.k; k0 += matmul_block::depth) {
      const std::size_t depth = x.k - k0 < matmul_block::depth ? x.k - k0 : matmul_block::depth;
      for (std::size_t j = 0; j < breadth; j += matmul_block::lanes) {
        const std::size_t columns = breadth - j < matmul_block::lanes ? breadth - j : matmul_block::lanes;
        pack_columns<F>(x, k0, n0 + j, depth, columns, packed_b + j * depth);
      }
      multiply_block<F>(x, n0, breadth, k0, depth, packed_b, packed_a);
    }
  }
}

}  // namespace stagecraft
