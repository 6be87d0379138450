#include "model/layers/rope.hpp"

#include "model/math.hpp"

namespace stagecraft {

RopeTable::RopeTable(std::size_t context, std::size_t head_size, double theta)
    : head_size_(head_size), cosine_(context * (head_size / 2)), sine_(cosine_.size()) {
  const std::size_t half = head_size / 2;
  for (std::size_t i = 0; i < half; ++i) {
    const double frequency = math::pow(theta, -static_cast<double>(2 * i) / static_cast<double>(head_size));
    for (std::size_t p = 0; p < context; ++p) {
      const double angle = static_cast<double>(p) * frequency;
      cosine_[p * half + i] = static_cast<float>(math::cos(angle));
      sine_[p * half + i] = static_cast<float>(math::sin(angle));
    }
  }
}

}  // namespace stagecraft
