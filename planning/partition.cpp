#include "planning/partition.hpp"

#include <numeric>

#include "planning/bug.hpp"

namespace stagecraft {

std::vector<std::uint32_t> even_layout(std::uint32_t layers, std::uint32_t chunks) {
  STAGECRAFT_ASSERT(chunks > 0, "a layout needs at least one chunk, got none for {} layers", layers);
  std::vector<std::uint32_t> layout(chunks, layers / chunks);
  for (std::uint32_t i = 0; i < layers % chunks; ++i) ++layout[i];
  return layout;
}

std::optional<LayoutProblem> check_layout(std::span<const std::uint32_t> layout, std::uint32_t layers,
                                          std::uint32_t chunks) {
  using Kind = LayoutProblem::Kind;
  if (layout.size() != chunks) return LayoutProblem{Kind::length, chunks, layout.size()};
  const auto sum = std::accumulate(layout.begin(), layout.end(), std::uint64_t{0});
  if (sum != layers) return LayoutProblem{Kind::sum, layers, sum};
  return std::nullopt;
}

}  // namespace stagecraft
