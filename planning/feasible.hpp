// Whether a pipeline can run at all within the caps of its stages. Pure functions on values; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "planning/problem.hpp"

namespace stagecraft {

/// How the backward pass runs: as two operators (B, W), or as one (X) whose gradient leaves when it ends.
enum class BackwardForm : std::uint8_t { split, fused };

/// A cap that no schedule can respect.
struct ImpossibleCap {
  enum class Count : std::uint8_t { activations, pending_weights, held } count{};
  StageId stage;
  std::uint32_t cap = 0;
  std::uint32_t smallest = 0;  ///< that would do, in micro-batches x chunks
  bool operator==(const ImpossibleCap&) const = default;
};

/// The first stage whose caps are too small for any schedule. A micro-batch has to have run forward on every chunk of a
/// stage before its first backward there, so F - B and F - W need one place per chunk; with them, and one place for
/// B - W, running the micro-batches one after the other always works. A fused backward leaves nothing pending.
std::optional<ImpossibleCap> find_impossible_cap(const PipelineProblem& problem,
                                                 BackwardForm backward = BackwardForm::split);

/// "stage 2 may hold 0 activations (F - B), but no schedule runs with fewer than 1: raise this cap to 1 or more".
std::string to_text(const ImpossibleCap& cap);

}  // namespace stagecraft
