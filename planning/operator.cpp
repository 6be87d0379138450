#include "planning/operator.hpp"

#include <charconv>

namespace stagecraft {
namespace {

std::optional<OperatorKind> kind_of(char c) {
  switch (c) {
    case 'F':
      return OperatorKind::forward;
    case 'B':
      return OperatorKind::backward_input;
    case 'W':
      return OperatorKind::backward_weight;
    case 'X':
      return OperatorKind::backward;
    default:
      return std::nullopt;
  }
}

// Cuts a number without sign or leading zeros off `text`, so that an operator has one spelling only.
std::optional<std::uint32_t> take_number(std::string_view& text) {
  std::uint32_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{}) return std::nullopt;
  const auto length = static_cast<std::size_t>(end - text.data());
  if (length > 1 && text.front() == '0') return std::nullopt;
  text.remove_prefix(length);
  return value;
}

}  // namespace

char letter(OperatorKind kind) {
  switch (kind) {
    case OperatorKind::forward:
      return 'F';
    case OperatorKind::backward_input:
      return 'B';
    case OperatorKind::backward_weight:
      return 'W';
    case OperatorKind::backward:
      return 'X';
  }
  __builtin_unreachable();
}

std::string to_text(const Operator& op) {
  return std::to_string(op.chunk.value) + letter(op.kind) + std::to_string(op.micro_batch.value);
}

std::optional<Operator> parse_operator(std::string_view text) {
  const auto chunk = take_number(text);
  if (!chunk || text.empty()) return std::nullopt;
  const auto kind = kind_of(text.front());
  text.remove_prefix(1);
  const auto micro_batch = take_number(text);
  if (!kind || !micro_batch || !text.empty()) return std::nullopt;
  return Operator{*kind, {*chunk}, {*micro_batch}};
}

}  // namespace stagecraft
