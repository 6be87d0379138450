// The scalar readers of config/reader.hpp: text to numbers, words and units, with what was expected and got.
#include <fmt/format.h>

#include <charconv>
#include <cmath>

#include "config/reader.hpp"

namespace stagecraft {
namespace {

constexpr std::string_view digit_letters = "0123456789";

bool is_digit(char c) { return digit_letters.find(c) != std::string_view::npos; }
bool all_digits(std::string_view text) {
  return !text.empty() && text.find_first_not_of(digit_letters) == std::string_view::npos;
}

std::string describe_value(const Value& value) {
  switch (value.node->kind) {
    case YamlNode::Kind::null:
      return "nothing";
    case YamlNode::Kind::list:
      return "a list";
    case YamlNode::Kind::map:
      return "a map";
    case YamlNode::Kind::scalar:
      break;
  }
  return (value.node->plain ? "" : "the text ") + quoted(value.node->text);
}

// `hint` is what to try.
void report_wrong_type(const Value& value, std::string_view expected, std::string_view hint, Report& report) {
  report.add(ErrorCode::wrong_type, value.at, value.path,
             fmt::format("expected {}, got {}; {}", expected, describe_value(value), hint));
}

void report_out_of_range(const Value& value, std::string_view expected, Report& report) {
  report.add(ErrorCode::out_of_range, value.at, value.path,
             fmt::format("expected {}, got {}; choose a value in that range", expected, quoted(value.node->text)));
}

// The text of a scalar; empty (and reported) for lists, maps and nothing.
std::optional<std::string_view> scalar_text(const Value& value, std::string_view expected, std::string_view hint,
                                            Report& report) {
  if (value.node->kind == YamlNode::Kind::scalar) return value.node->text;
  report_wrong_type(value, expected, hint, report);
  return std::nullopt;
}

// The same for numbers and booleans, which stand without quotes.
std::optional<std::string_view> plain_text(const Value& value, std::string_view expected, std::string_view hint,
                                           Report& report) {
  const auto text = scalar_text(value, expected, hint, report);
  if (!text || value.node->plain) return text;
  report_wrong_type(value, expected, "remove the quotes", report);
  return std::nullopt;
}

// Numbers that YAML readers take for different things: 017, 0x1f, 0o17, 1_000. Reported; true then.
bool is_ambiguous(const Value& value, std::string_view text, std::string_view expected, Report& report) {
  std::string_view digits = text;
  if (digits.starts_with('-') || digits.starts_with('+')) digits.remove_prefix(1);
  if (digits.size() < 2 || !is_digit(digits[0])) return false;
  const bool octal = digits[0] == '0' && is_digit(digits[1]);
  const bool prefixed = digits[0] == '0' && std::string_view("xXoObB").find(digits[1]) != std::string_view::npos;
  const bool grouped =
      digits.find('_') != std::string_view::npos && digits.find_first_not_of("0123456789_") == std::string_view::npos;
  if (!octal && !prefixed && !grouped) return false;
  report.add(ErrorCode::ambiguous_number, value.at, value.path,
             fmt::format("expected {}, got {}, which YAML readers understand differently; write plain decimal digits "
                         "without leading zeros",
                         expected, quoted(text)));
  return true;
}

// [+-] digits [. digits] [e [+-] digits], with digits on at least one side of the point.
bool looks_like_number(std::string_view text) {
  std::size_t i = 0, mantissa_digits = 0;
  const auto skip_digits = [&] {
    const std::size_t begin = i;
    while (i < text.size() && is_digit(text[i])) ++i;
    return i - begin;
  };
  if (i < text.size() && (text[i] == '+' || text[i] == '-')) ++i;
  mantissa_digits += skip_digits();
  if (i < text.size() && text[i] == '.') ++i, mantissa_digits += skip_digits();
  if (mantissa_digits == 0) return false;
  if (i < text.size() && (text[i] == 'e' || text[i] == 'E')) {
    ++i;
    if (i < text.size() && (text[i] == '+' || text[i] == '-')) ++i;
    if (skip_digits() == 0) return false;
  }
  return i == text.size();
}

bool names_no_finite_number(std::string_view text) {
  if (text.starts_with('+') || text.starts_with('-')) text.remove_prefix(1);
  for (std::string_view word : {".inf", ".Inf", ".INF", ".nan", ".NaN", ".NAN", "inf", "nan", "infinity"}) {
    if (text == word) return true;
  }
  return false;
}

std::string describe_range(Bounds<double> range) {
  if (!range.open_low && !range.open_high) return fmt::format("a number from {} to {}", range.low, range.high);
  return fmt::format("a number {} {} and {} {}", range.open_low ? "above" : "from", range.low,
                     range.open_high ? "below" : "at most", range.high);
}

// Values with a unit: duration, size, bandwidth. `example` is what to try.
template <class T, class Parse>
std::optional<T> read_with_unit(const Value& value, Bounds<T> range, std::string_view expected,
                                std::string_view example, Report& report, Parse&& parse) {
  const auto text = scalar_text(value, expected, example, report);
  if (!text) return std::nullopt;
  const std::optional<T> result = parse(*text);
  if (!result) {
    report.add(ErrorCode::bad_unit, value.at, value.path,
               fmt::format("expected {}, got {}; {}", expected, quoted(*text), example));
    return std::nullopt;
  }
  if (*result < range.low || *result > range.high) {
    report_out_of_range(value, expected, report);
    return std::nullopt;
  }
  return result;
}

}  // namespace

std::string describe_range(Bounds<std::uint64_t> range) {
  return fmt::format("an integer from {} to {}", range.low, range.high);
}

std::optional<std::uint64_t> read_integer(const Value& value, Bounds<std::uint64_t> range, Report& report,
                                          std::string_view also) {
  const std::string expected = describe_range(range) + (also.empty() ? "" : fmt::format(", or {}", also));
  const auto text = plain_text(value, expected, "write decimal digits", report);
  if (!text || is_ambiguous(value, *text, expected, report)) return std::nullopt;
  const bool negative = text->starts_with('-');
  const std::string_view digits = text->substr(negative || text->starts_with('+') ? 1 : 0);
  if (!all_digits(digits)) {
    const bool has_blank = text->find(' ') != std::string_view::npos;
    report_wrong_type(value, expected, has_blank ? "is a comma missing?" : "write decimal digits only", report);
    return std::nullopt;
  }
  std::uint64_t number = 0;
  const auto parsed = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  const bool minus_something = negative && number != 0;
  if (parsed.ec != std::errc{} || minus_something || number < range.low || number > range.high) {
    report_out_of_range(value, expected, report);
    return std::nullopt;
  }
  return number;
}

std::optional<double> read_number(const Value& value, Bounds<double> range, Report& report) {
  const std::string expected = describe_range(range);
  const auto text = plain_text(value, expected, "write a decimal number such as 0.1 or 3e-4", report);
  if (!text || is_ambiguous(value, *text, expected, report)) return std::nullopt;
  if (names_no_finite_number(*text)) {
    report.add(ErrorCode::not_finite, value.at, value.path,
               fmt::format("expected {}, got {}; write a finite number", expected, quoted(*text)));
    return std::nullopt;
  }
  if (!looks_like_number(*text)) {
    report_wrong_type(value, expected, "write a decimal number such as 0.1 or 3e-4", report);
    return std::nullopt;
  }
  double number = 0;
  const std::string_view digits = text->substr(text->starts_with('+') ? 1 : 0);
  const auto parsed = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  const bool below = range.open_low ? number <= range.low : number < range.low;
  const bool above = range.open_high ? number >= range.high : number > range.high;
  if (parsed.ec != std::errc{} || !std::isfinite(number) || below || above) {
    report_out_of_range(value, expected, report);
    return std::nullopt;
  }
  return number;
}

std::optional<bool> read_boolean(const Value& value, Report& report) {
  const auto text = plain_text(value, "true or false", "write true or false", report);
  if (!text) return std::nullopt;
  if (*text == "true") return true;
  if (*text == "false") return false;
  report_wrong_type(value, "true or false", "write true or false", report);
  return std::nullopt;
}

std::optional<std::string> read_text(const Value& value, std::size_t longest, Report& report) {
  const std::string expected = fmt::format("text of 1 to {} bytes", longest);
  const auto text = scalar_text(value, expected, "write text, in quotes if it has special characters", report);
  if (!text) return std::nullopt;
  const bool has_zero = text->find('\0') != std::string_view::npos;
  if (text->empty() || text->size() > longest || has_zero) {
    report.add(ErrorCode::bad_text, value.at, value.path,
               fmt::format("expected {}, got {}; {}", expected,
                           has_zero ? quoted(*text) : fmt::format("{} bytes", text->size()),
                           has_zero ? "remove the zero character" : "choose a text of that length"));
    return std::nullopt;
  }
  return std::string(*text);
}

std::optional<Duration> read_duration(const Value& value, Bounds<Duration> range, Report& report) {
  const std::string expected =
      fmt::format("a duration with a unit, from {} to {}", format(range.low), format(range.high));
  return read_with_unit<Duration>(value, range, expected, "write for example 10ms or 1.5s (ns, us, ms, s, m, h)",
                                  report, parse_duration);
}

std::optional<Bytes> read_bytes(const Value& value, Bounds<Bytes> range, Report& report) {
  const std::string expected = fmt::format("a size with a unit, from {} to {}", format(range.low), format(range.high));
  return read_with_unit<Bytes>(value, range, expected, "write for example 64MiB or 2GiB (B, KiB, MiB, GiB, TiB)",
                               report, parse_bytes);
}

std::optional<Bandwidth> read_bandwidth(const Value& value, Bounds<Bandwidth> range, Report& report,
                                        std::string_view also) {
  const auto bytes_of = [](Bandwidth b) {
    return format(Bytes{static_cast<std::uint64_t>(b.bytes_per_second)}) + "/s";
  };
  const std::string expected = fmt::format("a bandwidth with a unit, from {} to {}{}", bytes_of(range.low),
                                           bytes_of(range.high), also.empty() ? "" : fmt::format(", or {}", also));
  return read_with_unit<Bandwidth>(value, range, expected, "write for example 50GB/s or 100MiB/s", report,
                                   parse_bandwidth);
}

bool is_word(const Value& value, std::string_view word) {
  return value.node->kind == YamlNode::Kind::scalar && value.node->text == word;
}

std::optional<std::size_t> read_choice(const Value& value, std::span<const std::string> words, Report& report,
                                       std::span<const std::string> later) {
  const std::string expected = (words.size() == 1 ? "" : "one of ") + joined(words);
  const auto text = scalar_text(value, expected, "choose one of them", report);
  if (!text) return std::nullopt;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (words[i] == *text) return i;
  }
  for (const std::string& word : later) {
    if (word != *text) continue;
    report.add(ErrorCode::not_available_yet, value.at, value.path,
               fmt::format("expected {}, got '{}', which this version does not have yet; choose one of those", expected,
                           word));
    return std::nullopt;
  }
  const std::string hint = closest(*text, words) ? did_you_mean(*text, words) : "; choose one of those";
  report.add(ErrorCode::unknown_choice, value.at, value.path,
             fmt::format("expected {}, got {}{}", expected, quoted(*text), hint));
  return std::nullopt;
}

std::optional<std::vector<Value>> read_list(const Value& value, Bounds<std::size_t> length, std::string_view what,
                                            Report& report) {
  if (value.node->kind != YamlNode::Kind::list) {
    report_wrong_type(value, fmt::format("a list of {}", what), "write [a, b] or one '- ' line per item", report);
    return std::nullopt;
  }
  const auto& items = value.node->items;
  if (items.size() < length.low || items.size() > length.high) {
    report.add(ErrorCode::list_length, value.at, value.path,
               fmt::format("expected a list of {} to {} {}, got {}; {}", length.low, length.high, what, items.size(),
                           items.size() < length.low ? "add some" : "remove some"));
    return std::nullopt;
  }
  std::vector<Value> values;
  for (std::size_t i = 0; i < items.size(); ++i) {
    values.push_back({&items[i], items[i].at, fmt::format("{}[{}]", value.path, i)});
  }
  return values;
}

}  // namespace stagecraft
