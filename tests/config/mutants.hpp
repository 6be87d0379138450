// Damaged files, by seed: bytes, lines and values of a good one changed, and texts of random pieces of YAML.
#pragma once

#include <numeric>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "planning/random.hpp"

namespace stagecraft {

inline std::vector<std::string> split_lines(const std::string& text) {
  std::vector<std::string> lines(1);
  for (char c : text) {
    lines.back() += c;
    if (c == '\n') lines.emplace_back();
  }
  return lines;
}

inline void mutate_bytes(std::string& text, Entropy& entropy) {
  if (text.empty()) return;
  static constexpr std::string_view favourites = "\"'[]{}:,-#&*!|>%@`\n\t 0179.e~\\?<";
  const std::size_t at = entropy.below(text.size());
  switch (entropy.below(4)) {
    case 0:
      text[at] = static_cast<char>(text[at] ^ (1 << entropy.below(8)));
      break;
    case 1:
      text.erase(at, entropy.between(1, 4));
      break;
    case 2:
      text.insert(at, text.substr(at, entropy.between(1, 8)));
      break;
    default:
      text[at] = favourites[entropy.below(favourites.size())];
      break;
  }
}

inline void mutate_lines(std::string& text, Entropy& entropy) {
  auto lines = split_lines(text);
  const std::size_t at = entropy.below(lines.size());
  switch (entropy.below(4)) {
    case 0:
      lines.erase(lines.begin() + static_cast<std::ptrdiff_t>(at));
      break;
    case 1:
      lines.insert(lines.begin() + static_cast<std::ptrdiff_t>(at), lines[entropy.below(lines.size())]);
      break;
    case 2:
      std::swap(lines[at], lines[entropy.below(lines.size())]);
      break;
    default:
      lines[at] = lines[at].substr(0, entropy.below(lines[at].size() + 1));
      break;
  }
  text = std::accumulate(lines.begin(), lines.end(), std::string{});
}

// A word or number of the file becomes another legal-looking one, so that mutants get past the parser.
inline void mutate_value(std::string& text, const std::vector<std::string>& values, Entropy& entropy) {
  const std::size_t colon = text.find(": ", entropy.below(text.size()));
  if (colon == std::string::npos) return;
  const std::size_t end = text.find_first_of(",}]\n", colon + 2);
  if (end == std::string::npos) return;
  text.replace(colon + 2, end - colon - 2, values[entropy.below(values.size())]);
}

/// The text with one or two changes. `values`: what a value may become.
inline std::string mutant_of(std::string text, const std::vector<std::string>& values, Entropy& entropy) {
  for (std::uint64_t changes = 1 + entropy.below(4) / 2; changes > 0; --changes) {
    const std::uint64_t kind = entropy.below(4);
    if (kind == 0)
      mutate_lines(text, entropy);
    else if (kind == 1 && !text.empty())
      mutate_value(text, values, entropy);
    else
      mutate_bytes(text, entropy);
  }
  return text;
}

inline std::string pieces_of_yaml(Entropy& entropy) {
  static const std::vector<std::string> pieces{
      "version: 1\n", "- ",       "? ",       ": ",    "[", "]",  "{",   "}",   ",",
      "\n",           "  ",       "\t",       "#",     "'", "\"", "|\n", ">\n", "&a ",
      "*a",           "!t ",      "---\n",    "...\n", "%", "a",  "1",   "\\",  "<<: ",
      "\xc3\xa9",     "nodes:\n", "model:\n", "~",     "@", "`"};
  std::string text;
  for (std::uint64_t n = entropy.between(1, 40); n > 0; --n) text += pieces[entropy.below(pieces.size())];
  return text;
}

}  // namespace stagecraft
