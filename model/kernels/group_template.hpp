// What is done to whole parameter groups (sum, square sum, AdamW) over any vector F of sixteen floats, and the table.
// Thread promise: as kernels.hpp.
#pragma once

#include "model/kernels/attention_template.hpp"
#include "model/kernels/kernels.hpp"
#include "model/kernels/layer_template.hpp"
#include "model/kernels/matmul_template.hpp"
#include "model/kernels/some_lanes.hpp"

namespace stagecraft {

template <class F>
void add_all(const float* a, const float* b, float* sum, std::size_t elements) {
  for (std::size_t j = 0; j < elements; j += lanes_of_row)
    store_some(load_some<F>(a + j, elements - j) + load_some<F>(b + j, elements - j), sum + j, elements - j);
}

template <class F>
double square_sum(const float* x, std::size_t elements) {
  typename F::Squares squares;
  for (std::size_t j = 0; j < elements; j += lanes_of_row) squares.add(load_some<F>(x + j, elements - j));
  return squares.sum();
}

/// m = b1 m + (1 - b1) g; v = b2 v + (1 - b2) g^2; p -= rate (m bias1 / (sqrt(v bias2) + epsilon) + decay p).
template <class F>
void adamw(const AdamwRun& run) {
  const F scale = F::broadcast(run.gradient_scale), minus_rate = F::broadcast(-run.learning_rate);
  const F decay = F::broadcast(run.weight_decay), epsilon = F::broadcast(run.epsilon);
  const F beta1 = F::broadcast(run.beta1), rest1 = F::broadcast(1.0F - run.beta1), bias1 = F::broadcast(run.bias1);
  const F beta2 = F::broadcast(run.beta2), rest2 = F::broadcast(1.0F - run.beta2), bias2 = F::broadcast(run.bias2);
  for (std::size_t j = 0; j < run.elements; j += lanes_of_row) {
    const std::size_t n = run.elements - j;
    const F g = load_some<F>(run.gradient + j, n) * scale;
    const F m = fma(beta1, load_some<F>(run.moment1 + j, n), rest1 * g);
    const F v = fma(beta2, load_some<F>(run.moment2 + j, n), rest2 * (g * g));
    const F p = load_some<F>(run.parameter + j, n);
    const F direction = fma(decay, p, (m * bias1) / (sqrt(v * bias2) + epsilon));
    store_some(m, run.moment1 + j, n);
    store_some(v, run.moment2 + j, n);
    store_some(fma(minus_rate, direction, p), run.parameter + j, n);
  }
}

template <class F>
constexpr Kernels table_of(Isa isa) {
  return {.isa = isa,
          .matmul = matmul<F>,
          .rms_norm = rms_norm<F>,
          .rms_norm_again = rms_norm_again<F>,
          .rms_norm_grad = rms_norm_grad<F>,
          .rms_norm_gain_grad = rms_norm_gain_grad<F>,
          .rope = rope<F>,
          .swiglu = swiglu<F>,
          .swiglu_grad = swiglu_grad<F>,
          .attention_forward = attention_forward<F>,
          .attention_backward = attention_backward<F>,
          .cross_entropy = cross_entropy<F>,
          .add = add_all<F>,
          .square_sum = square_sum<F>,
          .adamw = adamw<F>,
          .exp = exp_all<F>};
}

}  // namespace stagecraft
