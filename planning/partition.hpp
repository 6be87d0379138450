// How the layers of a model are shared out over the chunks of a pipeline. Pure functions; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace stagecraft {

/// Layers per chunk in model order, as even as possible; the remainder goes to the first chunks: 30 layers over 4
/// chunks give [8, 8, 7, 7]. With more chunks than layers the last ones get none. The sum is always `layers`. chunks >
/// 0.
std::vector<std::uint32_t> even_layout(std::uint32_t layers, std::uint32_t chunks);

struct LayoutProblem {
  enum class Kind : std::uint8_t {
    length,  ///< not one entry per chunk
    sum,     ///< the entries do not add up to the layers of the model
  } kind{};
  std::uint64_t expected = 0, got = 0;  ///< entries, or layers
};

/// What is wrong with a given layout; empty when it has one entry per chunk and adds up.
std::optional<LayoutProblem> check_layout(std::span<const std::uint32_t> layout, std::uint32_t layers,
                                          std::uint32_t chunks);

}  // namespace stagecraft
