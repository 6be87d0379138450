// A packed micro-batch: documents side by side, true lengths, no padding. Values only; any thread.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "planning/ids.hpp"

namespace stagecraft {

using Token = std::uint16_t;

/// Where documents begin in a micro-batch. Attention stays within [starts[d], starts[d+1]), positions restart there.
struct Packing {
  std::vector<std::uint32_t> starts{0};  ///< one per document, then the number of tokens; {0} is an empty micro-batch
  std::uint32_t tokens() const { return starts.back(); }
};

/// inputs[i] predicts targets[i]; both have packing->tokens() entries.
struct TokenBatch {
  Iteration iteration;
  MicroBatch micro_batch;
  std::shared_ptr<const Packing> packing;
  std::vector<Token> inputs, targets;
};

/// What an operator may see of its micro-batch. Inputs are there for the embedding only, targets for the head only.
struct BatchView {
  Iteration iteration;
  MicroBatch micro_batch;
  const Packing* packing = nullptr;
  std::span<const Token> inputs, targets;
};

}  // namespace stagecraft
