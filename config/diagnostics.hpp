// Problems of a file as values: where, which code, what was expected, what was got and what to try. `Report` collects
// all of them, so that one run of `check` shows everything. A Report has one owner and one thread.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "config/error_codes.hpp"

namespace stagecraft {

/// Where a value comes from: a line and column of the file (both from 1; columns count bytes), or an override, by its
/// number. Positions in the file come first.
struct Position {
  std::optional<std::uint32_t> override_number;  ///< from 0; then line and column are those within its value
  std::uint32_t line = 1;
  std::uint32_t column = 1;
  auto operator<=>(const Position&) const = default;
};

/// "on line 3, column 7", or "in an override".
std::string describe_position(const Position& at);

struct Diagnostic {
  ErrorCode code{};
  Severity severity = Severity::error;
  std::string source;  ///< the file's name, or `--set key=value`
  Position at;
  std::string message;  ///< key path, what was expected, what was got, what to try
};

/// `file:line:column: SC0123: message`, or `--set key=value: SC0123: message`. Warnings and notes say so after the
/// code.
std::string to_text(const Diagnostic& diagnostic);

class Report {
 public:
  Report(std::string file, std::vector<std::string> overrides);
  /// The severity is that of the code's page. `path` is the key path, empty for the file as a whole.
  void add(ErrorCode code, const Position& at, std::string_view path, std::string_view message);
  std::size_t error_count() const;
  bool has_errors() const { return error_count() > 0; }
  /// All so far, sorted by position (file first, then overrides in their order).
  std::vector<Diagnostic> sorted() const;
  const std::vector<std::string>& overrides() const { return overrides_; }

 private:
  std::string file_;
  std::vector<std::string> overrides_;
  std::vector<Diagnostic> diagnostics_;
};

/// The candidate that was probably meant: at most a third of the letters differ (insert, delete, replace or swap two).
std::optional<std::string> closest(std::string_view word, std::span<const std::string> candidates);
/// "; did you mean 'x'?" or nothing.
std::string did_you_mean(std::string_view word, std::span<const std::string> candidates);
/// Text of a file, fit to be printed in a message: control characters escaped, cut after 60 bytes.
std::string printable(std::string_view text);
/// The same in single quotes.
std::string quoted(std::string_view text);
/// "a, b, c".
std::string joined(std::span<const std::string> words);

}  // namespace stagecraft
