// The head: final norm, logits with the head table [vocabulary, width], cross-entropy summed over tokens.
#include <algorithm>

#include "model/layers/units.hpp"
#include "model/math.hpp"

namespace stagecraft::head {

namespace {

// Places in Saved.
enum Place : std::size_t {
  input,        // x [T, width], shared with the caller
  input_scale,  // inverse rms of x [T]
  logits_grad,  // softmax - onehot [T, vocabulary]
  after_forward,
  normed_grad = after_forward,  // gradient of the normed input [T, width]
  gain,                         // [width]: W is not given the weights
  after_backward,
};

/// Losses of all tokens; the logits become their gradients.
void lose(const LayerContext& c, float* logits, const BatchView& batch, LossSum& loss) {
  const std::size_t columns = c.shape.vocabulary;
  for (std::size_t t = 0; t < batch.targets.size(); ++t) {
    float* row = logits + t * columns;
    const double target = row[batch.targets[t]];
    float maximum = 0, sum = 0;
    c.kernels.cross_entropy(row, columns, batch.targets[t], &maximum, &sum);
    loss.loss.add(math::log(sum) + (maximum - target));
  }
  loss.tokens += batch.targets.size();
}

}  // namespace

ActivationBytes activation_bytes(const LlamaShape& s, std::size_t tokens) {
  const std::size_t row = tokens * s.width, logits = tokens * s.vocabulary;
  const auto bytes = [](std::size_t elements) { return Bytes{elements * sizeof(float)}; };
  return {.after_forward = bytes(tokens + logits),
          .after_backward_input = bytes(tokens + logits + 2 * row + s.width),
          .output = bytes(0),
          .input_gradient = bytes(row),
          .scratch = bytes(row)};
}

void forward(const LayerContext& c, std::span<const Tensor> weights, const Tensor& x, const BatchView& batch,
             Saved& saved, LossSum& loss, Arena& arena) {
  const LlamaShape& s = c.shape;
  const std::size_t tokens = batch.packing->tokens();
  saved.tensors.assign(after_forward, Tensor());
  auto& keep = saved.tensors;
  keep[input] = x;
  keep[input_scale] = Tensor(arena, tokens);
  keep[logits_grad] = Tensor(arena, tokens * s.vocabulary);
  Tensor normed(arena, tokens * s.width);
  c.kernels.rms_norm(x.data(), weights[0].data(), normed.data(), keep[input_scale].data(), tokens, s.width,
                     s.norm_epsilon);
  c.kernels.matmul({.m = tokens,
                    .n = s.vocabulary,
                    .k = s.width,
                    .a = normed.data(),
                    .lda = s.width,
                    .b = weights[1].data(),
                    .ldb = s.width,
                    .transpose_b = true,
                    .c = keep[logits_grad].data(),
                    .ldc = s.vocabulary});
  lose(c, keep[logits_grad].data(), batch, loss);
}

Tensor input_grad(const LayerContext& c, std::span<const Tensor> weights, Saved& saved, const Packing& packing,
                  Arena& arena) {
  const LlamaShape& s = c.shape;
  const std::size_t tokens = packing.tokens();
  saved.tensors.resize(after_backward);
  auto& keep = saved.tensors;
  keep[gain] = Tensor(arena, s.width);
  std::copy_n(weights[0].data(), s.width, keep[gain].data());
  keep[normed_grad] = Tensor(arena, tokens * s.width);
  c.kernels.matmul({.m = tokens,
                    .n = s.width,
                    .k = s.vocabulary,
                    .a = keep[logits_grad].data(),
                    .lda = s.vocabulary,
                    .b = weights[1].data(),
                    .ldb = s.width,
                    .c = keep[normed_grad].data(),
                    .ldc = s.width});
  Tensor dx(arena, tokens * s.width);
  c.kernels.rms_norm_grad(keep[normed_grad].data(), keep[input].data(), keep[gain].data(), keep[input_scale].data(),
                          nullptr, dx.data(), tokens, s.width);
  return dx;
}

void weight_grad(const LayerContext& c, Saved& saved, const Packing& packing, std::span<Tensor> gradients,
                 Arena& arena) {
  const LlamaShape& s = c.shape;
  const std::size_t tokens = packing.tokens();
  auto& keep = saved.tensors;
  Tensor normed(arena, tokens * s.width);
  c.kernels.rms_norm_again(keep[input].data(), keep[gain].data(), keep[input_scale].data(), normed.data(), tokens,
                           s.width);
  c.kernels.matmul({.m = s.vocabulary,
                    .n = s.width,
                    .k = tokens,
                    .a = keep[logits_grad].data(),
                    .lda = s.vocabulary,
                    .transpose_a = true,
                    .b = normed.data(),
                    .ldb = s.width,
                    .c = gradients[1].data(),
                    .ldc = s.width,
                    .accumulate = true});
  keep[logits_grad].reset();
  c.kernels.rms_norm_gain_grad(keep[normed_grad].data(), keep[input].data(), keep[input_scale].data(),
                               gradients[0].data(), tokens, s.width);
  saved.tensors.clear();
}

}  // namespace stagecraft::head
