// What is checked on the bytes of a YAML text, before and beside the parser: encoding, control characters, tabs,
// directives, quotes without an end. Pure; any thread.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

#include "config/error_codes.hpp"

namespace stagecraft {

struct TextProblem {
  ErrorCode code{};
  std::size_t offset = 0;  ///< of the byte it is about
};

/// The first thing that makes the text unfit for the parser: bytes that are not UTF-8, control characters, a tab in
/// indentation, a directive (a line that begins with %).
std::optional<TextProblem> scan_text(std::string_view text);

/// The offset just behind the quote that closes the one at `open`; empty when there is none.
std::optional<std::size_t> end_of_quoted(std::string_view text, std::size_t open);

/// The first quote from `from` on that opens a scalar and is never closed. `from` is outside quotes.
std::optional<std::size_t> find_unterminated_quote(std::string_view text, std::size_t from);

}  // namespace stagecraft
