// The inner loops of the model as a table of functions, one table per instruction set, all with the same bits.
//
// Each algorithm is written once, over a vector of sixteen floats (`*_template.hpp`); `kernels_scalar.cpp`,
// `kernels_avx2.cpp` and `kernels_avx512.cpp` instantiate it. Matrices are row-major with a leading dimension in
// elements. Reductions keep sixteen lanes (lane i sums elements i, i + 16, ...) and add them as the tree ((0+8)+(4+12))
// + ...
//
// Only plain types here: code compiled for a newer CPU must not emit functions that other files share.
// Thread promise: pure functions of their arguments; packing scratch is thread-local.
#pragma once

#include <cstddef>
#include <cstdint>

namespace stagecraft {

/// Instruction sets that the kernels are written for, slowest first.
enum class Isa : std::uint8_t { scalar, avx2, avx512 };
inline constexpr Isa every_isa[] = {Isa::scalar, Isa::avx2, Isa::avx512};

/// C[m, n] = op(A) op(B), or C += op(A) op(B): each element one chain of fused multiply-adds over k in increasing
/// order that starts from 0, or from the present C. op(A) is [m, k], op(B) is [k, n]; a transposed operand is stored
/// the other way round. C must not overlap A or B.
struct MatrixProduct {
  std::size_t m = 0, n = 0, k = 0;
  const float* a = nullptr;
  std::size_t lda = 0;
  bool transpose_a = false;
  const float* b = nullptr;
  std::size_t ldb = 0;
  bool transpose_b = false;
  float* c = nullptr;
  std::size_t ldc = 0;
  bool accumulate = false;
};

inline constexpr std::size_t attention_strip = 16;  ///< queries whose keys end at the same place
inline constexpr std::size_t attention_rows = 64;   ///< queries whose scores the backward pass holds at a time

/// One head of one document: query i sees the keys 0 .. i. q, k and v are [length, head_size], rows `ld` apart;
/// outputs and their gradients are rows `out_ld` apart. Probabilities are softmax(scale q k^T), rows of q before k.
struct AttentionHead {
  std::size_t length = 0, head_size = 0, ld = 0, out_ld = 0;
  const float* q = nullptr;
  const float* k = nullptr;
  const float* v = nullptr;
  float scale = 1;
  float* maximum = nullptr;  ///< per query, `stride` apart: largest scaled score
  float* inverse = nullptr;  ///< per query, `stride` apart: 1 / sum of exponentials
  std::size_t stride = 1;
  float* scratch = nullptr;  ///< attention_scratch(length, head_size) floats
};

/// Gradients of one head, rows as far apart as what they belong to. dk and dv continue their chains over the queries in
/// order; dq is written.
struct AttentionGradient {
  const float* out = nullptr;
  const float* dout = nullptr;
  float* dq = nullptr;
  float* dk = nullptr;
  float* dv = nullptr;
};

/// AdamW on one run of elements.
struct AdamwRun {
  float* parameter = nullptr;
  float* moment1 = nullptr;
  float* moment2 = nullptr;
  const float* gradient = nullptr;
  std::size_t elements = 0;
  float gradient_scale = 1, learning_rate = 0, weight_decay = 0;
  float beta1 = 0, beta2 = 0, epsilon = 0, bias1 = 1, bias2 = 1;
};

struct Kernels {
  Isa isa;

  void (*matmul)(const MatrixProduct& product);

  /// y = x * inverse_rms * gain, inverse_rms = 1 / sqrt(mean(x^2) + epsilon) per row. x, y: [rows, width].
  void (*rms_norm)(const float* x, const float* gain, float* y, float* inverse_rms, std::size_t rows, std::size_t width,
                   float epsilon);
  /// y = x * inverse_rms * gain once more, with the same bits.
  void (*rms_norm_again)(const float* x, const float* gain, const float* inverse_rms, float* y, std::size_t rows,
                         std::size_t width);
  /// dx = residual + gradient of rms_norm for dy. `residual` may be null, and may be dx.
  void (*rms_norm_grad)(const float* dy, const float* x, const float* gain, const float* inverse_rms,
                        const float* residual, float* dx, std::size_t rows, std::size_t width);
  /// dgain[j] continues its chain with dy[r, j] * (x[r, j] * inverse_rms[r]) over the rows in order.
  void (*rms_norm_gain_grad)(const float* dy, const float* x, const float* inverse_rms, float* dgain, std::size_t rows,
                             std::size_t width);

  /// Turns the pairs (i, i + head_size / 2) of `heads` neighbouring heads in place, row r by the angles of row r of
  /// `cosine` and `sine` ([rows, head_size / 2]); backwards when `inverse`.
  void (*rope)(float* x, std::size_t ld, std::size_t rows, std::size_t heads, std::size_t head_size,
               const float* cosine, const float* sine, bool inverse);

  /// h = silu(gate) * up; gate_up: [rows, 2 hidden], gate first.
  void (*swiglu)(const float* gate_up, float* h, std::size_t rows, std::size_t hidden);
  /// In place: dh becomes h, gate_up becomes its gradient.
  void (*swiglu_grad)(float* gate_up, float* dh, std::size_t rows, std::size_t hidden);

  /// out = probabilities v, [length, head_size]. Writes maximum and inverse.
  void (*attention_forward)(const AttentionHead& head, float* out);
  /// From what attention_forward left; the probabilities come out with the same bits again.
  void (*attention_backward)(const AttentionHead& head, const AttentionGradient& gradient);

  /// Logits become softmax(logits) - onehot(target); returns the maximum and the sum of exp(logit - maximum).
  void (*cross_entropy)(float* logits, std::size_t columns, std::size_t target, float* maximum, float* sum);

  /// sum = a + b; `sum` may be `a` or `b`.
  void (*add)(const float* a, const float* b, float* sum, std::size_t elements);
  /// Sum of squares in double: sixteen lanes, then the tree.
  double (*square_sum)(const float* x, std::size_t elements);
  void (*adamw)(const AdamwRun& run);
  /// y = e^x.
  void (*exp)(const float* x, float* y, std::size_t elements);
};

/// Floats between two rows of scores of a document of `length` tokens: an odd number of cache lines, so that columns
/// do not fall on the same cache sets.
std::size_t attention_score_ld(std::size_t length);
/// Floats of scratch that either pass over one head needs. Grows with `length`.
std::size_t attention_scratch(std::size_t length, std::size_t head_size);

/// True when this CPU can run the kernels of `isa`.
bool available(Isa isa);
/// The fastest instruction set of this CPU.
Isa best_isa();
/// "scalar", "avx2", "avx512".
const char* name_of(Isa isa);
/// The table of `isa`. Throws std::invalid_argument when this CPU cannot run it.
const Kernels& kernels(Isa isa);

}  // namespace stagecraft
