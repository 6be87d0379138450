// One transformer block: y = x1 + down(silu(gate(n2)) * up(n2)), x1 = x + o(attention(qkv(n1))), n1, n2 = norms.
#include <algorithm>
#include <cstring>

#include "model/layers/attention.hpp"
#include "model/layers/units.hpp"

namespace stagecraft::block {

namespace {

// Places in Saved after F. B empties those that W does not need, and fills the ones below.
enum AfterForward : std::size_t {
  input,          // x [T, width], shared with the caller
  input_scale,    // inverse rms of x [T]
  turned,         // q, k, v with q and k turned [T, qkv_columns]
  statistics,     // of attention [T, heads, 2]
  attended,       // [T, width]
  middle,         // x1 [T, width]
  middle_scale,   // inverse rms of x1 [T]
  gate_up,        // [T, 2 hidden]; after B its gradient
  after_forward,  // how many
};
enum AfterBackward : std::size_t {
  output_grad = after_forward,  // dy [T, width], shared with the caller
  gated,                        // silu(gate) * up [T, hidden]
  middle_normed_grad,           // gradient of n2 [T, width]
  middle_grad,                  // gradient of x1 [T, width]
  qkv_grad,                     // [T, qkv_columns]
  normed_grad,                  // gradient of n1 [T, width]
  gains,                        // both norms' gains [2, width]: W is not given the weights
  after_backward,               // how many
};

/// y[T, out] = x[T, in] W^T with W [out, in].
void linear(const LayerContext& c, const float* x, const float* w, float* y, std::size_t tokens, std::size_t in,
            std::size_t out) {
  c.kernels.matmul(
      {.m = tokens, .n = out, .k = in, .a = x, .lda = in, .b = w, .ldb = in, .transpose_b = true, .c = y, .ldc = out});
}

/// dx[T, in] = dy[T, out] W.
void linear_input_grad(const LayerContext& c, const float* dy, const float* w, float* dx, std::size_t tokens,
                       std::size_t in, std::size_t out) {
  c.kernels.matmul({.m = tokens, .n = in, .k = out, .a = dy, .lda = out, .b = w, .ldb = in, .c = dx, .ldc = in});
}

/// dW[out, in] continues with dy^T x.
void linear_weight_grad(const LayerContext& c, const float* dy, const float* x, float* dw, std::size_t tokens,
                        std::size_t in, std::size_t out) {
  c.kernels.matmul({.m = out,
                    .n = in,
                    .k = tokens,
                    .a = dy,
                    .lda = out,
                    .transpose_a = true,
                    .b = x,
                    .ldb = in,
                    .c = dw,
                    .ldc = in,
                    .accumulate = true});
}

}  // namespace

ActivationBytes activation_bytes(const LlamaShape& s, std::size_t tokens) {
  const std::size_t attention = attention_scratch_elements(s, tokens);
  const std::size_t row = tokens * s.width;
  const std::size_t kept_by_both = 2 * tokens + 2 * row + 2 * tokens * s.hidden;  // scales, attended, middle, gate_up
  const std::size_t qkv = tokens * s.qkv_columns();
  const auto bytes = [](std::size_t elements) { return Bytes{elements * sizeof(float)}; };
  return {.after_forward = bytes(kept_by_both + qkv + 2 * tokens * s.heads),
          .after_backward_input = bytes(kept_by_both + qkv + 5 * row + tokens * s.hidden + 2 * s.width),
          .output = bytes(row),
          .input_gradient = bytes(row),
          .scratch = bytes(std::max({row, tokens * s.hidden, row + attention}))};
}

Tensor forward(const LayerContext& c, const Tensor& weights, const Tensor& x, const Packing& packing, Saved& saved,
               Arena& arena) {
  const LlamaShape& s = c.shape;
  const std::size_t tokens = packing.tokens();
  const float* w = weights.data();
  saved.tensors.assign(after_forward, Tensor());
  auto& keep = saved.tensors;
  keep[input] = x;
  keep[input_scale] = Tensor(arena, tokens);
  keep[turned] = Tensor(arena, tokens * s.qkv_columns());
  {
    Tensor n1(arena, tokens * s.width);
    c.kernels.rms_norm(x.data(), w + s.attention_gain(), n1.data(), keep[input_scale].data(), tokens, s.width,
                       s.norm_epsilon);
    linear(c, n1.data(), w + s.qkv(), keep[turned].data(), tokens, s.width, s.qkv_columns());
  }
  keep[statistics] = Tensor(arena, 2 * tokens * s.heads);
  keep[attended] = Tensor(arena, tokens * s.width);
  attention_forward(c, packing, keep[turned].data(), keep[attended].data(), keep[statistics].data(), arena);

  keep[middle] = Tensor(arena, tokens * s.width);
  float* x1 = keep[middle].data();
  linear(c, keep[attended].data(), w + s.output(), x1, tokens, s.width, s.width);
  c.kernels.add(x1, x.data(), x1, tokens * s.width);

  keep[middle_scale] = Tensor(arena, tokens);
  keep[gate_up] = Tensor(arena, 2 * tokens * s.hidden);
  {
    Tensor n2(arena, tokens * s.width);
    c.kernels.rms_norm(x1, w + s.feed_forward_gain(), n2.data(), keep[middle_scale].data(), tokens, s.width,
                       s.norm_epsilon);
    linear(c, n2.data(), w + s.gate_up(), keep[gate_up].data(), tokens, s.width, 2 * s.hidden);
  }
  Tensor y(arena, tokens * s.width);
  Tensor h(arena, tokens * s.hidden);
  c.kernels.swiglu(keep[gate_up].data(), h.data(), tokens, s.hidden);
  linear(c, h.data(), w + s.down(), y.data(), tokens, s.hidden, s.width);
  c.kernels.add(y.data(), x1, y.data(), tokens * s.width);
  return y;
}

Tensor input_grad(const LayerContext& c, const Tensor& weights, Saved& saved, const Tensor& dy, const Packing& packing,
                  Arena& arena) {
  const LlamaShape& s = c.shape;
  const std::size_t tokens = packing.tokens();
  const float* w = weights.data();
  saved.tensors.resize(after_backward);
  auto& keep = saved.tensors;
  keep[output_grad] = dy;
  keep[gains] = Tensor(arena, 2 * s.width);
  std::memcpy(keep[gains].data(), w + s.attention_gain(), s.width * sizeof(float));
  std::memcpy(keep[gains].data() + s.width, w + s.feed_forward_gain(), s.width * sizeof(float));

  // Down: the gradient of h is replaced by h itself, gate and up by their gradients.
  keep[gated] = Tensor(arena, tokens * s.hidden);
  linear_input_grad(c, dy.data(), w + s.down(), keep[gated].data(), tokens, s.hidden, s.width);
  c.kernels.swiglu_grad(keep[gate_up].data(), keep[gated].data(), tokens, s.hidden);
  keep[middle_normed_grad] = Tensor(arena, tokens * s.width);
  linear_input_grad(c, keep[gate_up].data(), w + s.gate_up(), keep[middle_normed_grad].data(), tokens, s.width,
                    2 * s.hidden);
  keep[middle_grad] = Tensor(arena, tokens * s.width);
  c.kernels.rms_norm_grad(keep[middle_normed_grad].data(), keep[middle].data(), w + s.feed_forward_gain(),
                          keep[middle_scale].data(), dy.data(), keep[middle_grad].data(), tokens, s.width);

  keep[qkv_grad] = Tensor(arena, tokens * s.qkv_columns());
  {
    Tensor attended_grad(arena, tokens * s.width);
    linear_input_grad(c, keep[middle_grad].data(), w + s.output(), attended_grad.data(), tokens, s.width, s.width);
    attention_backward(c, packing, keep[turned].data(), keep[attended].data(), keep[statistics].data(),
                       attended_grad.data(), keep[qkv_grad].data(), arena);
  }
  keep[turned].reset();
  keep[statistics].reset();

  keep[normed_grad] = Tensor(arena, tokens * s.width);
  linear_input_grad(c, keep[qkv_grad].data(), w + s.qkv(), keep[normed_grad].data(), tokens, s.width, s.qkv_columns());
  Tensor dx(arena, tokens * s.width);
  c.kernels.rms_norm_grad(keep[normed_grad].data(), keep[input].data(), w + s.attention_gain(),
                          keep[input_scale].data(), keep[middle_grad].data(), dx.data(), tokens, s.width);
  return dx;
}

void weight_grad(const LayerContext& c, Saved& saved, const Packing& packing, Tensor& gradient, Arena& arena) {
  const LlamaShape& s = c.shape;
  const std::size_t tokens = packing.tokens();
  auto& keep = saved.tensors;
  float* g = gradient.data();
  linear_weight_grad(c, keep[output_grad].data(), keep[gated].data(), g + s.down(), tokens, s.hidden, s.width);
  keep[output_grad].reset();
  keep[gated].reset();
  linear_weight_grad(c, keep[middle_grad].data(), keep[attended].data(), g + s.output(), tokens, s.width, s.width);
  keep[middle_grad].reset();
  keep[attended].reset();

  Tensor normed(arena, tokens * s.width);
  c.kernels.rms_norm_again(keep[middle].data(), keep[gains].data() + s.width, keep[middle_scale].data(), normed.data(),
                           tokens, s.width);
  linear_weight_grad(c, keep[gate_up].data(), normed.data(), g + s.gate_up(), tokens, s.width, 2 * s.hidden);
  keep[gate_up].reset();
  c.kernels.rms_norm_gain_grad(keep[middle_normed_grad].data(), keep[middle].data(), keep[middle_scale].data(),
                               g + s.feed_forward_gain(), tokens, s.width);
  keep[middle_normed_grad].reset();
  keep[middle].reset();

  c.kernels.rms_norm_again(keep[input].data(), keep[gains].data(), keep[input_scale].data(), normed.data(), tokens,
                           s.width);
  linear_weight_grad(c, keep[qkv_grad].data(), normed.data(), g + s.qkv(), tokens, s.width, s.qkv_columns());
  c.kernels.rms_norm_gain_grad(keep[normed_grad].data(), keep[input].data(), keep[input_scale].data(),
                               g + s.attention_gain(), tokens, s.width);
  saved.tensors.clear();
}

}  // namespace stagecraft::block
