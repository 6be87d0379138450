// Rotary positions (Su et al., 2021) in the rotate-half form: cosines and sines of all positions of a context.
// Thread promise: const after construction; any thread.
#pragma once

#include <cstddef>
#include <vector>

#include "model/kernels/kernels.hpp"

namespace stagecraft {

class RopeTable {
 public:
  /// Angle of pair i at position p: p theta^(-2 i / head_size). head_size is even.
  RopeTable(std::size_t context, std::size_t head_size, double theta);

  /// Turns `heads` neighbouring heads of `rows` tokens in place; row r stands at position r. rows <= context.
  void turn(const Kernels& kernels, float* x, std::size_t ld, std::size_t rows, std::size_t heads) const {
    kernels.rope(x, ld, rows, heads, head_size_, cosine_.data(), sine_.data(), false);
  }
  /// The transpose of `turn`: what gradients go through.
  void turn_back(const Kernels& kernels, float* x, std::size_t ld, std::size_t rows, std::size_t heads) const {
    kernels.rope(x, ld, rows, heads, head_size_, cosine_.data(), sine_.data(), true);
  }

 private:
  std::size_t head_size_;
  std::vector<float> cosine_, sine_;  // [context, head_size / 2]
};

}  // namespace stagecraft
