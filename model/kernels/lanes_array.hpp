// N floats as one value: the portable vector that every kernel and our scalar exp can be instantiated with. Lanes<16>
// defines, lane by lane, what the vector of a faster instruction set must compute.
// Thread promise: values.
#pragma once

#include <cstddef>
#include <cstdint>

namespace stagecraft {

template <std::size_t N>
struct Lanes {
  static constexpr std::size_t lanes = N;
  static constexpr std::size_t tile_rows = 6, tile_vectors = 1;  // of the register tile (register_tile.hpp)

  float v[N];

  static Lanes broadcast(float x) {
    Lanes r;
    for (float& lane : r.v) lane = x;
    return r;
  }
  static Lanes zero() { return broadcast(0.0F); }
  static Lanes load(const float* p) {
    Lanes r;
    for (std::size_t i = 0; i < N; ++i) r.v[i] = p[i];
    return r;
  }
  void store(float* p) const {
    for (std::size_t i = 0; i < N; ++i) p[i] = v[i];
  }
  /// The first `count` < N floats, zeros in the other lanes.
  static Lanes load_first(const float* p, std::size_t count) {
    Lanes r = zero();
    for (std::size_t i = 0; i < count; ++i) r.v[i] = p[i];
    return r;
  }
  void store_first(float* p, std::size_t count) const {
    for (std::size_t i = 0; i < count; ++i) p[i] = v[i];
  }

  template <class Function>
  static Lanes each(Function f) {
    Lanes r;
    for (std::size_t i = 0; i < N; ++i) r.v[i] = f(i);
    return r;
  }
  friend Lanes operator+(Lanes a, Lanes b) {
    return each([&](std::size_t i) { return a.v[i] + b.v[i]; });
  }
  friend Lanes operator-(Lanes a, Lanes b) {
    return each([&](std::size_t i) { return a.v[i] - b.v[i]; });
  }
  friend Lanes operator*(Lanes a, Lanes b) {
    return each([&](std::size_t i) { return a.v[i] * b.v[i]; });
  }
  friend Lanes operator/(Lanes a, Lanes b) {
    return each([&](std::size_t i) { return a.v[i] / b.v[i]; });
  }
  /// a * b + c with one rounding.
  friend Lanes fma(Lanes a, Lanes b, Lanes c) {
    return each([&](std::size_t i) { return __builtin_fmaf(a.v[i], b.v[i], c.v[i]); });
  }
  friend Lanes sqrt(Lanes a) {
    return each([&](std::size_t i) { return __builtin_sqrtf(a.v[i]); });
  }
  /// b where the comparison fails, so also where one of them is NaN (as MAXPS and MINPS do).
  friend Lanes max(Lanes a, Lanes b) {
    return each([&](std::size_t i) { return a.v[i] > b.v[i] ? a.v[i] : b.v[i]; });
  }
  friend Lanes min(Lanes a, Lanes b) {
    return each([&](std::size_t i) { return a.v[i] < b.v[i] ? a.v[i] : b.v[i]; });
  }
  /// The first `count` lanes of a, `other` in the rest.
  friend Lanes first(Lanes a, std::size_t count, Lanes other) {
    return each([&](std::size_t i) { return i < count ? a.v[i] : other.v[i]; });
  }
  /// x * 2^n, where `shifted` is n + 1.5 * 2^23: in two factors, so that results below the normal numbers come out too.
  friend Lanes scale_by_power(Lanes x, Lanes shifted) {
    return each([&](std::size_t i) {
      const auto n = static_cast<std::int32_t>(__builtin_bit_cast(std::uint32_t, shifted.v[i]) - 0x4b400000U);
      const std::int32_t half = n >> 1;
      const auto factor = [](std::int32_t e) {
        return __builtin_bit_cast(float, static_cast<std::uint32_t>(e + 127) << 23);
      };
      return x.v[i] * factor(half) * factor(n - half);
    });
  }

  /// The tree ((0+8)+(4+12)) + ... over sixteen lanes.
  float sum() const {
    static_assert(N == 16);
    float t[8];
    for (std::size_t i = 0; i < 8; ++i) t[i] = v[i] + v[i + 8];
    for (std::size_t width = 4; width > 0; width /= 2)
      for (std::size_t i = 0; i < width; ++i) t[i] = t[i] + t[i + width];
    return t[0];
  }
  float maximum() const {
    static_assert(N == 16);
    float t[8];
    for (std::size_t i = 0; i < 8; ++i) t[i] = v[i] > v[i + 8] ? v[i] : v[i + 8];
    for (std::size_t width = 4; width > 0; width /= 2)
      for (std::size_t i = 0; i < width; ++i) t[i] = t[i] > t[i + width] ? t[i] : t[i + width];
    return t[0];
  }
  /// destination[i * out_ld + j] = source[j * ld + i]: sixteen rows become sixteen columns.
  static void transpose(const float* source, std::size_t ld, float* destination, std::size_t out_ld) {
    for (std::size_t i = 0; i < N; ++i)
      for (std::size_t j = 0; j < N; ++j) destination[out_ld * i + j] = source[j * ld + i];
  }
  /// packed[k * R + i] = source[i * ld + k]: R rows, `depth` long, side by side. R <= tile_rows; a faster vector may
  /// write `packing_slack` floats beyond the end.
  template <std::size_t R>
  static void pack_rows(const float* source, std::size_t ld, std::size_t depth, float* packed) {
    for (std::size_t k = 0; k < depth; ++k)
      for (std::size_t i = 0; i < R; ++i) packed[k * R + i] = source[i * ld + k];
  }
  /// packed[k * R + i] = source[k * ld + i]: R columns of `depth` rows.
  template <std::size_t R>
  static void pack_columns(const float* source, std::size_t ld, std::size_t depth, float* packed) {
    for (std::size_t k = 0; k < depth; ++k)
      for (std::size_t i = 0; i < R; ++i) packed[k * R + i] = source[k * ld + i];
  }

  /// Sixteen sums of squares in double. The product of two floats is exact there.
  struct Squares {
    double v[N] = {};
    void add(Lanes x) {
      for (std::size_t i = 0; i < N; ++i) v[i] += static_cast<double>(x.v[i]) * static_cast<double>(x.v[i]);
    }
    double sum() const {
      static_assert(N == 16);
      double t[8];
      for (std::size_t i = 0; i < 8; ++i) t[i] = v[i] + v[i + 8];
      for (std::size_t width = 4; width > 0; width /= 2)
        for (std::size_t i = 0; i < width; ++i) t[i] = t[i] + t[i + width];
      return t[0];
    }
  };
};

}  // namespace stagecraft
