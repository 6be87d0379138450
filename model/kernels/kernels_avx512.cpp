// The kernels for CPUs with AVX-512 F; the only file compiled for them.
//
// As in kernels_avx2.cpp the vector lives in an anonymous namespace and nothing of the standard library is used: no
// function compiled here can stand in for another file's copy.
#include <immintrin.h>

#include "model/kernels/group_template.hpp"
#include "model/kernels/tables.hpp"

namespace stagecraft {

namespace {

__mmask16 below(std::size_t count) { return static_cast<__mmask16>((1U << count) - 1U); }

// Sixteen floats in one register; lane by lane what Lanes<16> is.
struct Avx512Lanes {
  static constexpr std::size_t lanes = 16;
  static constexpr std::size_t tile_rows = 14, tile_vectors = 2;  // 28 accumulators of the 32 registers

  __m512 all;

  static Avx512Lanes broadcast(float x) { return {_mm512_set1_ps(x)}; }
  static Avx512Lanes zero() { return {_mm512_setzero_ps()}; }
  static Avx512Lanes load(const float* p) { return {_mm512_loadu_ps(p)}; }
  void store(float* p) const { _mm512_storeu_ps(p, all); }
  // Lanes that are masked out are neither read nor written.
  static Avx512Lanes load_first(const float* p, std::size_t count) { return {_mm512_maskz_loadu_ps(below(count), p)}; }
  void store_first(float* p, std::size_t count) const { _mm512_mask_storeu_ps(p, below(count), all); }

  __m256 low() const { return _mm512_castps512_ps256(all); }
  __m256 high() const { return _mm256_castpd_ps(_mm512_extractf64x4_pd(_mm512_castps_pd(all), 1)); }
  float sum() const;
  float maximum() const;
  static void transpose(const float* source, std::size_t ld, float* destination, std::size_t out_ld);
  template <std::size_t R>
  static void pack_rows(const float* source, std::size_t ld, std::size_t depth, float* packed);
  template <std::size_t R>
  static void pack_columns(const float* source, std::size_t ld, std::size_t depth, float* packed);

  struct Squares {
    __m512d v[2] = {_mm512_setzero_pd(), _mm512_setzero_pd()};
    void add(Avx512Lanes x) {
      const __m512d low = _mm512_cvtps_pd(x.low()), high = _mm512_cvtps_pd(x.high());
      v[0] = _mm512_fmadd_pd(low, low, v[0]);
      v[1] = _mm512_fmadd_pd(high, high, v[1]);
    }
    double sum() const {
      const __m512d eight = _mm512_add_pd(v[0], v[1]);
      const __m256d four = _mm256_add_pd(_mm512_castpd512_pd256(eight), _mm512_extractf64x4_pd(eight, 1));
      const __m128d two = _mm_add_pd(_mm256_castpd256_pd128(four), _mm256_extractf128_pd(four, 1));
      return _mm_cvtsd_f64(_mm_add_sd(two, _mm_unpackhi_pd(two, two)));
    }
  };
};

Avx512Lanes operator+(Avx512Lanes a, Avx512Lanes b) { return {_mm512_add_ps(a.all, b.all)}; }
Avx512Lanes operator-(Avx512Lanes a, Avx512Lanes b) { return {_mm512_sub_ps(a.all, b.all)}; }
Avx512Lanes operator*(Avx512Lanes a, Avx512Lanes b) { return {_mm512_mul_ps(a.all, b.all)}; }
Avx512Lanes operator/(Avx512Lanes a, Avx512Lanes b) { return {_mm512_div_ps(a.all, b.all)}; }
Avx512Lanes fma(Avx512Lanes a, Avx512Lanes b, Avx512Lanes c) { return {_mm512_fmadd_ps(a.all, b.all, c.all)}; }
Avx512Lanes sqrt(Avx512Lanes a) { return {_mm512_sqrt_ps(a.all)}; }
Avx512Lanes max(Avx512Lanes a, Avx512Lanes b) { return {_mm512_max_ps(a.all, b.all)}; }
Avx512Lanes min(Avx512Lanes a, Avx512Lanes b) { return {_mm512_min_ps(a.all, b.all)}; }

Avx512Lanes first(Avx512Lanes a, std::size_t count, Avx512Lanes other) {
  return {_mm512_mask_blend_ps(below(count), other.all, a.all)};
}

Avx512Lanes scale_by_power(Avx512Lanes x, Avx512Lanes shifted) {
  const __m512i n = _mm512_sub_epi32(_mm512_castps_si512(shifted.all), _mm512_set1_epi32(0x4b400000));
  const __m512i half = _mm512_srai_epi32(n, 1);
  const __m512i bias = _mm512_set1_epi32(127);
  const __m512i one = _mm512_slli_epi32(_mm512_add_epi32(half, bias), 23);
  const __m512i other = _mm512_slli_epi32(_mm512_add_epi32(_mm512_sub_epi32(n, half), bias), 23);
  return {_mm512_mul_ps(_mm512_mul_ps(x.all, _mm512_castsi512_ps(one)), _mm512_castsi512_ps(other))};
}

float Avx512Lanes::sum() const {
  const __m256 eight = _mm256_add_ps(low(), high());
  const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_shuffle_ps(two, two, 1)));
}

float Avx512Lanes::maximum() const {
  const __m256 eight = _mm256_max_ps(low(), high());
  const __m128 four = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_max_ss(two, _mm_shuffle_ps(two, two, 1)));
}

// Sixteen columns of R rows: column k goes to destination + k * out_ld, with zeros for the rows that are not there.
// Pairs of rows, then fours change places inside each quarter; then the quarters do.
template <std::size_t R>
[[gnu::always_inline]] inline void transpose_sixteen(const float* source, std::size_t ld, float* destination,
                                                     std::size_t out_ld) {
  __m512 row[16], mixed[16];
  for (std::size_t i = 0; i < 16; ++i) row[i] = i < R ? _mm512_loadu_ps(source + i * ld) : _mm512_setzero_ps();
  for (std::size_t i = 0; i < 16; i += 2) {
    mixed[i] = _mm512_unpacklo_ps(row[i], row[i + 1]);
    mixed[i + 1] = _mm512_unpackhi_ps(row[i], row[i + 1]);
  }
  // Then row[4 q + c] holds columns c, c + 4, c + 8 and c + 12 of rows 4 q .. 4 q + 3, one in each quarter.
  for (std::size_t q = 0; q < 16; q += 4)
    for (std::size_t h = 0; h < 2; ++h) {
      row[q + 2 * h] = _mm512_shuffle_ps(mixed[q + h], mixed[q + h + 2], 0x44);
      row[q + 2 * h + 1] = _mm512_shuffle_ps(mixed[q + h], mixed[q + h + 2], 0xee);
    }
  for (std::size_t c = 0; c < 4; ++c) {
    const __m512 upper_even = _mm512_shuffle_f32x4(row[c], row[4 + c], 0x88);  // columns c and c + 8 of rows 0 .. 7
    const __m512 upper_odd = _mm512_shuffle_f32x4(row[c], row[4 + c], 0xdd);   // columns c + 4 and c + 12
    const __m512 lower_even = _mm512_shuffle_f32x4(row[8 + c], row[12 + c], 0x88);
    const __m512 lower_odd = _mm512_shuffle_f32x4(row[8 + c], row[12 + c], 0xdd);
    row[c] = _mm512_shuffle_f32x4(upper_even, lower_even, 0x88);
    row[4 + c] = _mm512_shuffle_f32x4(upper_odd, lower_odd, 0x88);
    row[8 + c] = _mm512_shuffle_f32x4(upper_even, lower_even, 0xdd);
    row[12 + c] = _mm512_shuffle_f32x4(upper_odd, lower_odd, 0xdd);
  }
  for (std::size_t k = 0; k < 16; ++k) _mm512_storeu_ps(destination + k * out_ld, row[k]);
}

void Avx512Lanes::transpose(const float* source, std::size_t ld, float* destination, std::size_t out_ld) {
  transpose_sixteen<16>(source, ld, destination, out_ld);
}

// Each column is stored as sixteen floats; those beyond R are overwritten by the next column (hence packing_slack).
template <std::size_t R>
void Avx512Lanes::pack_rows(const float* source, std::size_t ld, std::size_t depth, float* packed) {
  std::size_t k = 0;
  for (; k + 16 <= depth; k += 16) {
    for (std::size_t i = 0; i < R; ++i) __builtin_prefetch(source + (R + i) * ld + k);  // the tile below is next
    transpose_sixteen<R>(source + k, ld, packed + k * R, R);
  }
  for (; k < depth; ++k)
    for (std::size_t i = 0; i < R; ++i) packed[k * R + i] = source[i * ld + k];
}

template <std::size_t R>
void Avx512Lanes::pack_columns(const float* source, std::size_t ld, std::size_t depth, float* packed) {
  for (std::size_t k = 0; k < depth; ++k) {
    __builtin_prefetch(source + (pack_chunk + k) * ld);  // the next call's
    _mm512_mask_storeu_ps(packed + k * R, below(R), _mm512_maskz_loadu_ps(below(R), source + k * ld));
  }
}

}  // namespace

const Kernels& avx512_kernels() {
  static constexpr Kernels table = table_of<Avx512Lanes>(Isa::avx512);
  return table;
}

}  // namespace stagecraft
