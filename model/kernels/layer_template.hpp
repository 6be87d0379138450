// Norm, rotation, gate and loss over any vector F of sixteen floats (see Kernels for what each does).
// Thread promise: as kernels.hpp.
#pragma once

#include "model/kernels/exp_template.hpp"
#include "model/kernels/kernels.hpp"
#include "model/kernels/some_lanes.hpp"

namespace stagecraft {

inline constexpr std::size_t lanes_of_row = 16;

template <class F>
float dot(const float* a, const float* b, std::size_t n) {
  F sum = F::zero();
  for (std::size_t j = 0; j < n; j += lanes_of_row)
    sum = fma(load_some<F>(a + j, n - j), load_some<F>(b + j, n - j), sum);
  return sum.sum();
}

template <class F>
void rms_norm_row(const float* x, const float* gain, float inverse, float* y, std::size_t width) {
  const F scale = F::broadcast(inverse);
  for (std::size_t j = 0; j < width; j += lanes_of_row)
    store_some(load_some<F>(x + j, width - j) * scale * load_some<F>(gain + j, width - j), y + j, width - j);
}

template <class F>
void rms_norm(const float* x, const float* gain, float* y, float* inverse_rms, std::size_t rows, std::size_t width,
              float epsilon) {
  for (std::size_t r = 0; r < rows; ++r) {
    const float* row = x + r * width;
    const float mean = dot<F>(row, row, width) / static_cast<float>(width);
    inverse_rms[r] = 1.0F / __builtin_sqrtf(mean + epsilon);
    rms_norm_row<F>(row, gain, inverse_rms[r], y + r * width, width);
  }
}

template <class F>
void rms_norm_again(const float* x, const float* gain, const float* inverse_rms, float* y, std::size_t rows,
                    std::size_t width) {
  for (std::size_t r = 0; r < rows; ++r) rms_norm_row<F>(x + r * width, gain, inverse_rms[r], y + r * width, width);
}

/// With s = inverse_rms: dx = s (gain dy - x s^2 mean(gain dy x)) + residual.
template <class F>
void rms_norm_grad(const float* dy, const float* x, const float* gain, const float* inverse_rms, const float* residual,
                   float* dx, std::size_t rows, std::size_t width) {
  for (std::size_t r = 0; r < rows; ++r) {
    const std::size_t at = r * width;
    F sum = F::zero();
    for (std::size_t j = 0; j < width; j += lanes_of_row) {
      const F weighted = load_some<F>(dy + at + j, width - j) * load_some<F>(gain + j, width - j);
      sum = fma(weighted, load_some<F>(x + at + j, width - j), sum);
    }
    const float s = inverse_rms[r];
    const F minus = F::broadcast(-(s * s * (sum.sum() / static_cast<float>(width))));
    const F scale = F::broadcast(s);
    for (std::size_t j = 0; j < width; j += lanes_of_row) {
      const F weighted = load_some<F>(dy + at + j, width - j) * load_some<F>(gain + j, width - j);
      const F rest = residual == nullptr ? F::zero() : load_some<F>(residual + at + j, width - j);
      const F inner = fma(load_some<F>(x + at + j, width - j), minus, weighted);
      store_some(fma(scale, inner, rest), dx + at + j, width - j);
    }
  }
}

template <class F>
void rms_norm_gain_grad(const float* dy, const float* x, const float* inverse_rms, float* dgain, std::size_t rows,
                        std::size_t width) {
  for (std::size_t j = 0; j < width; j += lanes_of_row) {
    F sum = load_some<F>(dgain + j, width - j);
    for (std::size_t r = 0; r < rows; ++r) {
      const F unit = load_some<F>(x + r * width + j, width - j) * F::broadcast(inverse_rms[r]);
      sum = fma(load_some<F>(dy + r * width + j, width - j), unit, sum);
    }
    store_some(sum, dgain + j, width - j);
  }
}

template <class F>
void rope(float* x, std::size_t ld, std::size_t rows, std::size_t heads, std::size_t head_size, const float* cosine,
          const float* sine, bool inverse) {
  const std::size_t half = head_size / 2;
  for (std::size_t r = 0; r < rows; ++r)
    for (std::size_t h = 0; h < heads; ++h) {
      float* low = x + r * ld + h * head_size;
      float* high = low + half;
      for (std::size_t j = 0; j < half; j += lanes_of_row) {
        const F c = load_some<F>(cosine + r * half + j, half - j);
        F s = load_some<F>(sine + r * half + j, half - j);
        if (inverse) s = F::zero() - s;
        const F a = load_some<F>(low + j, half - j), b = load_some<F>(high + j, half - j);
        store_some(fma(F::zero() - b, s, a * c), low + j, half - j);
        store_some(fma(a, s, b * c), high + j, half - j);
      }
    }
}

/// 1 / (1 + e^-x).
template <class F>
F sigmoid(F x) {
  const F one = F::broadcast(1.0F);
  return one / (one + exp_of(F::zero() - x));
}

template <class F>
void swiglu(const float* gate_up, float* h, std::size_t rows, std::size_t hidden) {
  for (std::size_t r = 0; r < rows; ++r) {
    const float* gate = gate_up + r * 2 * hidden;
    const float* up = gate + hidden;
    for (std::size_t j = 0; j < hidden; j += lanes_of_row) {
      const F g = load_some<F>(gate + j, hidden - j);
      store_some(g * sigmoid(g) * load_some<F>(up + j, hidden - j), h + r * hidden + j, hidden - j);
    }
  }
}

/// silu'(g) = s (1 + g (1 - s)) with s = sigmoid(g).
template <class F>
void swiglu_grad(float* gate_up, float* dh, std::size_t rows, std::size_t hidden) {
  const F one = F::broadcast(1.0F);
  for (std::size_t r = 0; r < rows; ++r) {
    float* gate = gate_up + r * 2 * hidden;
    float* up = gate + hidden;
    float* d = dh + r * hidden;
    for (std::size_t j = 0; j < hidden; j += lanes_of_row) {
      const F g = load_some<F>(gate + j, hidden - j), u = load_some<F>(up + j, hidden - j);
      const F dy = load_some<F>(d + j, hidden - j);
      const F s = sigmoid(g);
      const F silu = g * s;
      store_some(silu * u, d + j, hidden - j);
      store_some(dy * u * (s * fma(g, one - s, one)), gate + j, hidden - j);
      store_some(dy * silu, up + j, hidden - j);
    }
  }
}

/// How many lanes of the block at j belong to the first `count` columns.
template <class F>
std::size_t lanes_left(std::size_t count, std::size_t j) {
  return count <= j ? 0 : (count - j < lanes_of_row ? count - j : lanes_of_row);
}

template <class F>
void cross_entropy(float* logits, std::size_t columns, std::size_t target, float* maximum, float* sum) {
  const F lowest = F::broadcast(-__builtin_inff());
  F largest = lowest;
  for (std::size_t j = 0; j < columns; j += lanes_of_row)
    largest = max(largest, first(load_some<F>(logits + j, columns - j), lanes_left<F>(columns, j), lowest));
  *maximum = largest.maximum();
  F total = F::zero();
  for (std::size_t j = 0; j < columns; j += lanes_of_row) {
    const F e = exp_of(load_some<F>(logits + j, columns - j) - F::broadcast(*maximum));
    const F kept = first(e, lanes_left<F>(columns, j), F::zero());
    total = total + kept;
    store_some(kept, logits + j, columns - j);
  }
  *sum = total.sum();
  const F inverse = F::broadcast(1.0F / *sum);
  for (std::size_t j = 0; j < columns; j += lanes_of_row)
    store_some(load_some<F>(logits + j, columns - j) * inverse, logits + j, columns - j);
  logits[target] = logits[target] - 1.0F;
}

template <class F>
void exp_all(const float* x, float* y, std::size_t elements) {
  for (std::size_t j = 0; j < elements; j += lanes_of_row)
    store_some(exp_of(load_some<F>(x + j, elements - j)), y + j, elements - j);
}

}  // namespace stagecraft
