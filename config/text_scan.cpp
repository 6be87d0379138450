#include "config/text_scan.hpp"

namespace stagecraft {
namespace {

// The length of the UTF-8 character at the front of the text; empty when it is not one (RFC 3629: no overlong forms, no
// surrogates, at most U+10FFFF).
std::optional<std::size_t> character_length(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(i < text.size() ? text[i] : 0); };
  const auto continues = [&](std::size_t i) { return (byte(i) & 0xc0) == 0x80; };
  const unsigned char lead = byte(0);
  if (lead < 0x80) return 1;
  if (lead >= 0xc2 && lead <= 0xdf) return continues(1) ? std::optional<std::size_t>(2) : std::nullopt;
  if (lead >= 0xe0 && lead <= 0xef) {
    const bool overlong = lead == 0xe0 && byte(1) < 0xa0, surrogate = lead == 0xed && byte(1) > 0x9f;
    return continues(1) && continues(2) && !overlong && !surrogate ? std::optional<std::size_t>(3) : std::nullopt;
  }
  if (lead >= 0xf0 && lead <= 0xf4) {
    const bool overlong = lead == 0xf0 && byte(1) < 0x90, beyond = lead == 0xf4 && byte(1) > 0x8f;
    const bool whole = continues(1) && continues(2) && continues(3);
    return whole && !overlong && !beyond ? std::optional<std::size_t>(4) : std::nullopt;
  }
  return std::nullopt;
}

bool is_blank(char c) { return c == ' ' || c == '\t'; }
bool is_break(char c) { return c == '\n' || c == '\r'; }

// True when the blanks that begin the line at `start` hold a tab and something follows them.
bool indented_with_tab(std::string_view line) {
  const std::size_t content = line.find_first_not_of(" \t");
  if (content == std::string_view::npos || is_break(line[content]) || line[content] == '#') return false;
  return line.substr(0, content).find('\t') != std::string_view::npos;
}

}  // namespace

std::optional<TextProblem> scan_text(std::string_view text) {
  bool line_begins = true;
  for (std::size_t i = 0; i < text.size();) {
    if (line_begins) {
      const std::string_view line = text.substr(i, text.find('\n', i) - i);
      if (line.starts_with('%')) return TextProblem{ErrorCode::tag_or_directive, i};
      if (indented_with_tab(line)) return TextProblem{ErrorCode::tab_in_indentation, i + line.find('\t')};
    }
    const auto length = character_length(text.substr(i));
    const char c = text[i];
    const bool carriage = c == '\r' && i + 1 < text.size() && text[i + 1] == '\n';
    const bool control = (static_cast<unsigned char>(c) < 0x20 && c != '\n' && c != '\t' && !carriage) || c == 0x7f;
    if (!length || control) return TextProblem{ErrorCode::not_text, i};
    line_begins = c == '\n';
    i += *length;
  }
  return std::nullopt;
}

std::optional<std::size_t> end_of_quoted(std::string_view text, std::size_t open) {
  const char quote = text[open];
  for (std::size_t i = open + 1; i < text.size(); ++i) {
    if (quote == '"' && text[i] == '\\') {
      ++i;
    } else if (text[i] == quote) {
      const bool doubled = quote == '\'' && i + 1 < text.size() && text[i + 1] == quote;
      if (!doubled) return i + 1;
      ++i;
    }
  }
  return std::nullopt;
}

std::optional<std::size_t> find_unterminated_quote(std::string_view text, std::size_t from) {
  bool token_begins = true;
  for (std::size_t i = from; i < text.size();) {
    const char c = text[i];
    if (token_begins && (c == '"' || c == '\'')) {
      const auto end = end_of_quoted(text, i);
      if (!end) return i;
      i = *end;
      token_begins = false;
      continue;
    }
    if (token_begins && c == '#') {
      i = text.find('\n', i);
      if (i == std::string_view::npos) return std::nullopt;
      continue;
    }
    const bool separates = is_blank(c) || is_break(c) || c == '[' || c == '{' || c == ',';
    token_begins = separates;
    ++i;
  }
  return std::nullopt;
}

}  // namespace stagecraft
