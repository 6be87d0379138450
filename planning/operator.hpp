// An operator: what one stage runs on its device for one chunk and one micro-batch. Values only; any thread.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "planning/ids.hpp"

namespace stagecraft {

enum class OperatorKind : std::uint8_t {
  forward,          ///< F
  backward_input,   ///< B: gradient of the input
  backward_weight,  ///< W: gradient of the weights
  backward,         ///< X: B and W as one operator; its gradient leaves when W ends
};

/// Text form: chunk, kind, micro-batch, for example `2F0`.
struct Operator {
  OperatorKind kind = OperatorKind::forward;
  ChunkId chunk;
  MicroBatch micro_batch;
  constexpr auto operator<=>(const Operator&) const = default;
};

char letter(OperatorKind kind);
std::string to_text(const Operator& op);
/// Empty when the text is not exactly one operator.
std::optional<Operator> parse_operator(std::string_view text);

}  // namespace stagecraft
