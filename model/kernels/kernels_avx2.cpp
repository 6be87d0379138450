// The kernels for CPUs with AVX2 and FMA; the only file compiled for them.
//
// The vector lives in an anonymous namespace, so every template instantiated with it is private to this file, and
// nothing of the standard library is used: no function compiled here can stand in for another file's copy.
#include <immintrin.h>

#include "model/kernels/group_template.hpp"
#include "model/kernels/tables.hpp"

namespace stagecraft {

namespace {

// Sixteen floats in two registers; lane by lane what Lanes<16> is.
struct Avx2Lanes {
  static constexpr std::size_t lanes = 16;
  static constexpr std::size_t tile_rows = 6, tile_vectors = 1;  // 12 accumulators of the 16 registers

  __m256 low, high;

  static Avx2Lanes broadcast(float x) { return {_mm256_set1_ps(x), _mm256_set1_ps(x)}; }
  static Avx2Lanes zero() { return {_mm256_setzero_ps(), _mm256_setzero_ps()}; }
  static Avx2Lanes load(const float* p) { return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)}; }
  void store(float* p) const {
    _mm256_storeu_ps(p, low);
    _mm256_storeu_ps(p + 8, high);
  }
  static Avx2Lanes load_first(const float* p, std::size_t count);
  void store_first(float* p, std::size_t count) const;

  float sum() const;
  float maximum() const;
  static void transpose(const float* source, std::size_t ld, float* destination, std::size_t out_ld);
  template <std::size_t R>
  static void pack_rows(const float* source, std::size_t ld, std::size_t depth, float* packed);
  template <std::size_t R>
  static void pack_columns(const float* source, std::size_t ld, std::size_t depth, float* packed);

  struct Squares {
    __m256d v[4] = {_mm256_setzero_pd(), _mm256_setzero_pd(), _mm256_setzero_pd(), _mm256_setzero_pd()};
    void add(Avx2Lanes x) {
      const __m128 quarter[4] = {_mm256_castps256_ps128(x.low), _mm256_extractf128_ps(x.low, 1),
                                 _mm256_castps256_ps128(x.high), _mm256_extractf128_ps(x.high, 1)};
      for (int i = 0; i < 4; ++i) {
        const __m256d wide = _mm256_cvtps_pd(quarter[i]);
        v[i] = _mm256_fmadd_pd(wide, wide, v[i]);
      }
    }
    double sum() const {
      const __m256d four = _mm256_add_pd(_mm256_add_pd(v[0], v[2]), _mm256_add_pd(v[1], v[3]));
      const __m128d two = _mm_add_pd(_mm256_castpd256_pd128(four), _mm256_extractf128_pd(four, 1));
      return _mm_cvtsd_f64(_mm_add_sd(two, _mm_unpackhi_pd(two, two)));
    }
  };
};

Avx2Lanes operator+(Avx2Lanes a, Avx2Lanes b) { return {_mm256_add_ps(a.low, b.low), _mm256_add_ps(a.high, b.high)}; }
Avx2Lanes operator-(Avx2Lanes a, Avx2Lanes b) { return {_mm256_sub_ps(a.low, b.low), _mm256_sub_ps(a.high, b.high)}; }
Avx2Lanes operator*(Avx2Lanes a, Avx2Lanes b) { return {_mm256_mul_ps(a.low, b.low), _mm256_mul_ps(a.high, b.high)}; }
Avx2Lanes operator/(Avx2Lanes a, Avx2Lanes b) { return {_mm256_div_ps(a.low, b.low), _mm256_div_ps(a.high, b.high)}; }
Avx2Lanes fma(Avx2Lanes a, Avx2Lanes b, Avx2Lanes c) {
  return {_mm256_fmadd_ps(a.low, b.low, c.low), _mm256_fmadd_ps(a.high, b.high, c.high)};
}
Avx2Lanes sqrt(Avx2Lanes a) { return {_mm256_sqrt_ps(a.low), _mm256_sqrt_ps(a.high)}; }
Avx2Lanes max(Avx2Lanes a, Avx2Lanes b) { return {_mm256_max_ps(a.low, b.low), _mm256_max_ps(a.high, b.high)}; }
Avx2Lanes min(Avx2Lanes a, Avx2Lanes b) { return {_mm256_min_ps(a.low, b.low), _mm256_min_ps(a.high, b.high)}; }

// All ones in the lanes below `count`.
struct Mask {
  __m256i low, high;
  explicit Mask(std::size_t count) {
    const __m256i n = _mm256_set1_epi32(static_cast<int>(count));
    low = _mm256_cmpgt_epi32(n, _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
    high = _mm256_cmpgt_epi32(n, _mm256_setr_epi32(8, 9, 10, 11, 12, 13, 14, 15));
  }
};

Avx2Lanes first(Avx2Lanes a, std::size_t count, Avx2Lanes other) {
  const Mask kept(count);
  return {_mm256_blendv_ps(other.low, a.low, _mm256_castsi256_ps(kept.low)),
          _mm256_blendv_ps(other.high, a.high, _mm256_castsi256_ps(kept.high))};
}

// Lanes that are masked out are neither read nor written.
Avx2Lanes Avx2Lanes::load_first(const float* p, std::size_t count) {
  const Mask kept(count);
  return {_mm256_maskload_ps(p, kept.low), _mm256_maskload_ps(p + 8, kept.high)};
}
void Avx2Lanes::store_first(float* p, std::size_t count) const {
  const Mask kept(count);
  _mm256_maskstore_ps(p, kept.low, low);
  _mm256_maskstore_ps(p + 8, kept.high, high);
}

__m256 scale_by_power(__m256 x, __m256 shifted) {
  const __m256i n = _mm256_sub_epi32(_mm256_castps_si256(shifted), _mm256_set1_epi32(0x4b400000));
  const __m256i half = _mm256_srai_epi32(n, 1);
  const __m256i bias = _mm256_set1_epi32(127);
  const __m256i one = _mm256_slli_epi32(_mm256_add_epi32(half, bias), 23);
  const __m256i other = _mm256_slli_epi32(_mm256_add_epi32(_mm256_sub_epi32(n, half), bias), 23);
  return _mm256_mul_ps(_mm256_mul_ps(x, _mm256_castsi256_ps(one)), _mm256_castsi256_ps(other));
}
Avx2Lanes scale_by_power(Avx2Lanes x, Avx2Lanes shifted) {
  return {scale_by_power(x.low, shifted.low), scale_by_power(x.high, shifted.high)};
}

float Avx2Lanes::sum() const {
  const __m256 eight = _mm256_add_ps(low, high);
  const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_shuffle_ps(two, two, 1)));
}

float Avx2Lanes::maximum() const {
  const __m256 eight = _mm256_max_ps(low, high);
  const __m128 four = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_max_ss(two, _mm_shuffle_ps(two, two, 1)));
}

// Eight columns of R rows: column k goes to destination + k * out_ld, with zeros for the rows that are not there.
template <std::size_t R>
[[gnu::always_inline]] inline void transpose_eight(const float* source, std::size_t ld, float* destination,
                                                   std::size_t out_ld) {
  __m256 row[8], pair[8];
  const auto four = [&](std::size_t i, std::size_t k) {
    return i < R ? _mm_loadu_ps(source + i * ld + k) : _mm_setzero_ps();
  };
  for (std::size_t i = 0; i < 4; ++i) {
    // Rows i and i + 4 share a register from the start, so that no later step crosses halves.
    row[i] = _mm256_insertf128_ps(_mm256_castps128_ps256(four(i, 0)), four(i + 4, 0), 1);
    row[i + 4] = _mm256_insertf128_ps(_mm256_castps128_ps256(four(i, 4)), four(i + 4, 4), 1);
  }
  for (std::size_t h = 0; h < 8; h += 4)
    for (std::size_t i = 0; i < 4; i += 2) {
      pair[h + i] = _mm256_unpacklo_ps(row[h + i], row[h + i + 1]);
      pair[h + i + 1] = _mm256_unpackhi_ps(row[h + i], row[h + i + 1]);
    }
  for (std::size_t h = 0; h < 8; h += 4)
    for (std::size_t i = 0; i < 2; ++i) {
      const __m256 a = pair[h + i], b = pair[h + i + 2];
      _mm256_storeu_ps(destination + (h + 2 * i) * out_ld, _mm256_shuffle_ps(a, b, 0x44));
      _mm256_storeu_ps(destination + (h + 2 * i + 1) * out_ld, _mm256_shuffle_ps(a, b, 0xee));
    }
}

void Avx2Lanes::transpose(const float* source, std::size_t ld, float* destination, std::size_t out_ld) {
  transpose_eight<8>(source, ld, destination, out_ld);
  transpose_eight<8>(source + 8 * ld, ld, destination + 8, out_ld);
  transpose_eight<8>(source + 8, ld, destination + 8 * out_ld, out_ld);
  transpose_eight<8>(source + 8 * ld + 8, ld, destination + 8 * out_ld + 8, out_ld);
}

// Each column is stored as eight floats; those beyond R are overwritten by the next column (hence packing_slack).
template <std::size_t R>
void Avx2Lanes::pack_rows(const float* source, std::size_t ld, std::size_t depth, float* packed) {
  std::size_t k = 0;
  for (; k + 8 <= depth; k += 8) {
    for (std::size_t i = 0; i < R; ++i) __builtin_prefetch(source + (R + i) * ld + k);  // the tile below is next
    transpose_eight<R>(source + k, ld, packed + k * R, R);
  }
  for (; k < depth; ++k)
    for (std::size_t i = 0; i < R; ++i) packed[k * R + i] = source[i * ld + k];
}

// As pack_rows, but the last column is stored alone: what comes behind it may be there already.
template <std::size_t R>
void Avx2Lanes::pack_columns(const float* source, std::size_t ld, std::size_t depth, float* packed) {
  const __m256i kept = _mm256_cmpgt_epi32(_mm256_set1_epi32(R), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
  for (std::size_t k = 0; k < depth; ++k) {
    __builtin_prefetch(source + (pack_chunk + k) * ld);  // the next call's
    const __m256 column = _mm256_maskload_ps(source + k * ld, kept);
    if (k + 1 < depth)
      _mm256_storeu_ps(packed + k * R, column);
    else
      _mm256_maskstore_ps(packed + k * R, kept, column);
  }
}

}  // namespace

const Kernels& avx2_kernels() {
  static constexpr Kernels table = table_of<Avx2Lanes>(Isa::avx2);
  return table;
}

}  // namespace stagecraft
