#include "config/diagnostics.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

namespace stagecraft {
namespace {

// Restricted Damerau-Levenshtein distance (insert, delete, replace, swap neighbours), row by row.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before_last, last(b.size() + 1), row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) last[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replace = last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, replace});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) row[j] = std::min(row[j], before_last[j - 2] + 1);
    }
    before_last = last;
    last = row;
  }
  return last[b.size()];
}

}  // namespace

std::string describe_position(const Position& at) {
  return at.override_number ? "in an override" : fmt::format("on line {}, column {}", at.line, at.column);
}

std::string to_text(const Diagnostic& d) {
  const std::string position = d.at.override_number ? "" : fmt::format(":{}:{}", d.at.line, d.at.column);
  const std::string kind = d.severity == Severity::error ? "" : fmt::format("{}: ", to_text(d.severity));
  return fmt::format("{}{}: {}: {}{}", d.source, position, to_text(d.code), kind, d.message);
}

Report::Report(std::string file, std::vector<std::string> overrides)
    : file_(std::move(file)), overrides_(std::move(overrides)) {}

void Report::add(ErrorCode code, const Position& at, std::string_view path, std::string_view message) {
  Diagnostic d{.code = code, .severity = page_of(code).severity, .source = file_, .at = at, .message = ""};
  if (at.override_number) d.source = "--set " + overrides_.at(*at.override_number);
  d.message = path.empty() ? std::string(message) : fmt::format("{}: {}", path, message);
  diagnostics_.push_back(std::move(d));
}

std::size_t Report::error_count() const {
  const auto is_error = [](const Diagnostic& d) { return d.severity == Severity::error; };
  return static_cast<std::size_t>(std::count_if(diagnostics_.begin(), diagnostics_.end(), is_error));
}

std::vector<Diagnostic> Report::sorted() const {
  std::vector<Diagnostic> sorted = diagnostics_;
  std::stable_sort(sorted.begin(), sorted.end(), [](const Diagnostic& a, const Diagnostic& b) { return a.at < b.at; });
  return sorted;
}

std::optional<std::string> closest(std::string_view word, std::span<const std::string> candidates) {
  constexpr std::size_t longest = 64;  // no key or choice is longer; keeps the work bounded
  if (word.empty() || word.size() > longest) return std::nullopt;
  std::optional<std::string> best;
  std::size_t best_distance = 0;
  for (const std::string& candidate : candidates) {
    const std::size_t distance = edit_distance(word, candidate);
    const bool near = distance <= std::max<std::size_t>(1, std::max(word.size(), candidate.size()) / 3);
    if (!near || distance >= word.size() || (best && distance >= best_distance)) continue;
    best = candidate;
    best_distance = distance;
  }
  return best;
}

std::string did_you_mean(std::string_view word, std::span<const std::string> candidates) {
  const auto guess = closest(word, candidates);
  return guess ? fmt::format("; did you mean '{}'?", *guess) : "";
}

std::string printable(std::string_view text) {
  constexpr std::size_t longest = 60;
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    const bool begins_character = (byte & 0xc0) != 0x80;  // not a continuation byte of UTF-8
    if (i >= longest && begins_character) {
      out += "...";
      break;
    }
    if (byte < 0x20 || byte == 0x7f) {
      fmt::format_to(std::back_inserter(out), "\\x{:02x}", byte);
    } else {
      out += text[i];
    }
  }
  return out;
}

std::string quoted(std::string_view text) { return "'" + printable(text) + "'"; }

std::string joined(std::span<const std::string> words) { return fmt::format("{}", fmt::join(words, ", ")); }

}  // namespace stagecraft
