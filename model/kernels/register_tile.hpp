// The innermost product: a tile of C in registers against one packed panel of B, for any vector F of sixteen floats.
//
// F says how many rows (`tile_rows`) and vectors side by side (`tile_vectors`) its registers hold. Fewer rows are tiles
// of their own, so that every row count is cut into tiles of nearly equal height.
// Thread promise: pure.
#pragma once

#include <cstddef>

#include "model/kernels/some_lanes.hpp"

namespace stagecraft {

/// Columns of a panel of B: element (k, j) is at [k * panel_columns + j].
template <class F>
inline constexpr std::size_t panel_columns = F::lanes* F::tile_vectors;

/// F::pack_rows may write this many floats beyond its end.
inline constexpr std::size_t packing_slack = 16;
/// F::pack_columns is called for this many rows of its source at a time.
inline constexpr std::size_t pack_chunk = 16;

/// Element (i, k) of the rows is at data[k * R + i].
template <std::size_t R>
struct PackedRows {
  const float* data;
  float at(std::size_t i, std::size_t k) const { return data[k * R + i]; }
};

/// Element (i, k) of the rows is at data[k * ld + i]: columns of a row-major matrix.
struct ColumnsAsRows {
  const float* data;
  std::size_t ld;
  float at(std::size_t i, std::size_t k) const { return data[k * ld + i]; }
  ColumnsAsRows from(std::size_t i) const { return {data + i, ld}; }
};

/// Element (i, k) of the rows is at data[i * ld + k].
struct PlainRows {
  const float* data;
  std::size_t ld;
  float at(std::size_t i, std::size_t k) const { return data[i * ld + k]; }
  PlainRows from(std::size_t i) const { return {data + i * ld, ld}; }
};

/// What a tile of rows meets: a panel of B, and where it goes in C. `load` continues the chains of C.
struct PanelTile {
  const float* panel;
  std::size_t depth;
  float* c;
  std::size_t ldc;
  std::size_t columns;  ///< of C; more than a panel has means all of them
  bool load;
};

/// Unrolling multiplies what sanitizers check, and the time they take to compile it.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define STAGECRAFT_UNROLL_DEPTH
#else
#define STAGECRAFT_UNROLL_DEPTH _Pragma("GCC unroll 4")
#endif

/// The chains of one tile as wide as its panel.
template <class F, std::size_t R, class Rows>
void whole_tile(Rows rows, const float* panel, std::size_t depth, float* c, std::size_t ldc, bool load) {
  constexpr std::size_t V = F::tile_vectors;
  F sum[R][V];
#pragma GCC unroll 16
  for (std::size_t i = 0; i < R; ++i) {
#pragma GCC unroll 2
    for (std::size_t v = 0; v < V; ++v) {
      sum[i][v] = F::zero();
      __builtin_prefetch(c + (R + i) * ldc + v * F::lanes, 1);  // the tile below is next
    }
  }
  if (load) {
#pragma GCC unroll 16
    for (std::size_t i = 0; i < R; ++i) {
#pragma GCC unroll 2
      for (std::size_t v = 0; v < V; ++v) sum[i][v] = F::load(c + i * ldc + v * F::lanes);
    }
  }
  STAGECRAFT_UNROLL_DEPTH
  for (std::size_t k = 0; k < depth; ++k) {
    F b[V];
#pragma GCC unroll 2
    for (std::size_t v = 0; v < V; ++v) b[v] = F::load(panel + k * panel_columns<F> + v * F::lanes);
#pragma GCC unroll 16
    for (std::size_t i = 0; i < R; ++i) {
      const F a = F::broadcast(rows.at(i, k));
#pragma GCC unroll 2
      for (std::size_t v = 0; v < V; ++v) sum[i][v] = fma(a, b[v], sum[i][v]);
    }
  }
#pragma GCC unroll 16
  for (std::size_t i = 0; i < R; ++i) {
#pragma GCC unroll 2
    for (std::size_t v = 0; v < V; ++v) sum[i][v].store(c + i * ldc + v * F::lanes);
  }
}

#undef STAGECRAFT_UNROLL_DEPTH

/// Copies `rows` rows of fewer columns than a panel has.
template <class F>
void copy_columns(const float* from, std::size_t from_ld, float* to, std::size_t to_ld, std::size_t rows,
                  std::size_t columns) {
  for (std::size_t i = 0; i < rows; ++i)
    for (std::size_t j = 0; j < columns; j += F::lanes)
      store_some(load_some<F>(from + i * from_ld + j, columns - j), to + i * to_ld + j, columns - j);
}

/// C[R, columns] = rows x panel, or C += rows x panel. A narrow tile is computed beside C, as wide as the others.
template <class F, std::size_t R, class Rows>
void register_tile(Rows rows, const PanelTile& t) {
  constexpr std::size_t width = panel_columns<F>;
  if (t.columns >= width) return whole_tile<F, R>(rows, t.panel, t.depth, t.c, t.ldc, t.load);
  alignas(64) float beside[R * width] = {};
  if (t.load) copy_columns<F>(t.c, t.ldc, beside, width, R, t.columns);
  whole_tile<F, R>(rows, t.panel, t.depth, beside, width, t.load);
  copy_columns<F>(beside, width, t.c, t.ldc, R, t.columns);
}

/// A number known at compile time.
template <std::size_t N>
struct Constant {
  static constexpr std::size_t value = N;
};

/// Calls body(Constant<height>) for a height up to H.
template <std::size_t H, class Body>
[[gnu::always_inline]] inline void with_height(std::size_t height, Body& body) {
  if (height == H) return body(Constant<H>{});
  if constexpr (H > 1) with_height<H - 1>(height, body);
}

/// Cuts `rows` rows into tiles of nearly equal height: body(first row, Constant<height>), in order.
template <class F, class Body>
[[gnu::always_inline]] inline void for_each_tile(std::size_t rows, Body body) {
  const std::size_t tiles = (rows + F::tile_rows - 1) / F::tile_rows;
  if (tiles == 0) return;
  const std::size_t low = rows / tiles, taller = rows - low * tiles;
  std::size_t i = 0;
  const auto run = [&](std::size_t count, std::size_t height) {
    auto loop = [&](auto constant) {
      for (std::size_t t = 0; t < count; ++t, i += constant.value) body(i, constant);
    };
    with_height<F::tile_rows>(height, loop);
  };
  if (taller > 0) run(taller, low + 1);
  if (taller < tiles) run(tiles - taller, low);
}

/// Sixteen columns of a panel, `depth` deep: rows of `source`. Columns beyond `columns` become 0.
template <class F>
void pack_plain(const float* source, std::size_t ld, std::size_t depth, std::size_t columns, float* panel,
                std::size_t panel_width) {
  for (std::size_t k = 0; k < depth; ++k) load_some<F>(source + k * ld, columns).store(panel + k * panel_width);
}

/// Sixteen columns of a panel, `depth` deep: columns of `source`. Columns beyond `columns` become 0.
template <class F>
void pack_transposed(const float* source, std::size_t ld, std::size_t depth, std::size_t columns, float* panel,
                     std::size_t panel_width) {
  std::size_t k = 0;
  if (columns >= F::lanes)
    for (; k + F::lanes <= depth; k += F::lanes) F::transpose(source + k, ld, panel + k * panel_width, panel_width);
  for (; k < depth; ++k)
    for (std::size_t j = 0; j < F::lanes; ++j) panel[k * panel_width + j] = j < columns ? source[j * ld + k] : 0.0F;
}

}  // namespace stagecraft
