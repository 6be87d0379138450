#include "model/layers/shape.hpp"

#include <fmt/format.h>

#include <limits>
#include <stdexcept>

#include "model/batch.hpp"

namespace stagecraft {

namespace {

void require(bool holds, const std::string& complaint) {
  if (!holds) throw std::invalid_argument("model: " + complaint);
}

}  // namespace

LlamaShape LlamaShape::of(const ModelSpec& spec) {
  require(spec.width > 0 && spec.heads > 0 && spec.kv_heads > 0 && spec.context > 0 && spec.vocabulary > 0,
          fmt::format("width {}, heads {}, kv_heads {}, context {} and vocabulary {} must all be at least 1",
                      spec.width, spec.heads, spec.kv_heads, spec.context, spec.vocabulary));
  require(spec.width % spec.heads == 0,
          fmt::format("width {} is no multiple of heads {}; choose a width that is", spec.width, spec.heads));
  require(spec.heads % spec.kv_heads == 0,
          fmt::format("kv_heads {} does not divide heads {}; choose one that does", spec.kv_heads, spec.heads));
  require(spec.width / spec.heads % 2 == 0,
          fmt::format("head size {} (width {} / heads {}) is odd, but rotary positions turn pairs; choose an even one",
                      spec.width / spec.heads, spec.width, spec.heads));
  const std::size_t most = std::size_t{std::numeric_limits<Token>::max()} + 1;
  require(
      spec.vocabulary <= most,
      fmt::format("vocabulary {} is above {}, the number of tokens that 16 bits tell apart", spec.vocabulary, most));
  LlamaShape shape;
  shape.layers = spec.layers;
  shape.width = spec.width;
  shape.heads = spec.heads;
  shape.kv_heads = spec.kv_heads;
  shape.head_size = spec.width / spec.heads;
  shape.hidden = spec.hidden != 0 ? spec.hidden : (std::size_t{spec.width} * 8 + 23) / 24 * 8;
  shape.context = spec.context;
  shape.vocabulary = spec.vocabulary;
  shape.norm_epsilon = static_cast<float>(spec.norm_epsilon);
  return shape;
}

}  // namespace stagecraft
