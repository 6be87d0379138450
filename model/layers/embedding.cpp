#include <cstring>

#include "model/layers/units.hpp"

namespace stagecraft::embedding {

ActivationBytes activation_bytes(const LlamaShape& shape, std::size_t tokens) {
  ActivationBytes bytes{};
  bytes.output = {tokens * shape.width * sizeof(float)};
  bytes.after_backward_input = bytes.output;  // dy
  return bytes;
}

Tensor forward(const LayerContext& context, const Tensor& table, const BatchView& batch, Arena& arena) {
  const std::size_t width = context.shape.width;
  Tensor y(arena, batch.inputs.size() * width);
  for (std::size_t t = 0; t < batch.inputs.size(); ++t)
    std::memcpy(y.data() + t * width, table.data() + batch.inputs[t] * width, width * sizeof(float));
  return y;
}

void input_grad(Saved& saved, const Tensor& dy) { saved.tensors.assign(1, dy); }

void weight_grad(const LayerContext& context, Saved& saved, const BatchView& batch, Tensor& gradient) {
  const std::size_t width = context.shape.width;
  const Tensor& dy = saved.tensors.front();
  for (std::size_t t = 0; t < batch.inputs.size(); ++t) {
    float* row = gradient.data() + batch.inputs[t] * width;
    context.kernels.add(row, dy.data() + t * width, row, width);
  }
  saved.tensors.clear();
}

}  // namespace stagecraft::embedding
