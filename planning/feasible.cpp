#include "planning/feasible.hpp"

#include <fmt/format.h>

#include <string_view>

namespace stagecraft {

std::optional<ImpossibleCap> find_impossible_cap(const PipelineProblem& problem, BackwardForm backward) {
  using Count = ImpossibleCap::Count;
  const PipelineShape& shape = problem.shape;
  if (shape.micro_batches == 0) return std::nullopt;
  for (std::uint32_t s = 0; s < problem.caps.size(); ++s) {
    const StageCaps& caps = problem.caps[s];
    const auto below = [&](const std::optional<std::uint32_t>& cap, std::uint32_t least, Count count) {
      return cap && *cap < least ? std::optional(ImpossibleCap{count, StageId{s}, *cap, least}) : std::nullopt;
    };
    if (const auto found = below(caps.activations, shape.chunks, Count::activations)) return found;
    if (const auto found = below(caps.held, shape.chunks, Count::held)) return found;
    if (backward == BackwardForm::fused) continue;
    if (const auto found = below(caps.pending_weights, 1, Count::pending_weights)) return found;
  }
  return std::nullopt;
}

std::string to_text(const ImpossibleCap& cap) {
  const std::string_view what = cap.count == ImpossibleCap::Count::activations ? "activations (F - B)"
                                : cap.count == ImpossibleCap::Count::held
                                    ? "micro-batches until their weight gradient (F - W)"
                                    : "pending weight gradients (B - W)";
  return fmt::format("stage {} may hold {} {}, but no schedule runs with fewer than {}: raise this cap to {} or more",
                     cap.stage.value, cap.cap, what, cap.smallest, cap.smallest);
}

}  // namespace stagecraft
