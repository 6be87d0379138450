#include "tools/expectation.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "config/diagnostics.hpp"

namespace stagecraft::tools {

namespace {

constexpr std::array<std::string_view, 6> comparisons{"<", "<=", "=", "!=", ">=", ">"};
constexpr std::string_view key_letters = "abcdefghijklmnopqrstuvwxyz_";
constexpr std::string_view comparison_letters = "<>=!";

std::string_view trimmed(std::string_view text) {
  const std::size_t first = text.find_first_not_of(' ');
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(' ') - first + 1);
}

Senseless no_expectation(const std::string& got) {
  return {
      fmt::format("expected a key of the status, one of {} and a value, such as 'loss < 3.1', got {}; on a command "
                  "line in quotes, because a shell takes < and > for files",
                  fmt::join(comparisons, " "), got.empty() ? "nothing" : stagecraft::quoted(got))};
}

// A number, true, false or a list as JSON has them; anything else is a text.
Json parse_value(std::string_view text) {
  Json value = Json::parse(text, nullptr, false);
  const bool known = value.is_number() || value.is_boolean() || value.is_array() || value.is_string();
  return known ? value : Json(std::string(text));
}

// What can be compared: single values, and the layout.
bool is_comparable(const std::string& key, const Json& value) { return !value.is_structured() || key == "layout"; }

std::string_view name_of_kind(const Json& value) {
  if (value.is_number()) return "a number";
  if (value.is_boolean()) return "true or false";
  return value.is_array() ? "a list of layers per chunk, such as [2, 2, 4]" : "a text";
}

template <class T>
bool holds(const T& got, std::string_view comparison, const T& value) {
  if (comparison == "<") return got < value;
  if (comparison == "<=") return got <= value;
  if (comparison == "=") return got == value;
  if (comparison == "!=") return got != value;
  if (comparison == ">=") return got >= value;
  return got > value;
}

bool has_order(std::string_view comparison) { return comparison != "=" && comparison != "!="; }

// As people write it: texts without quotes, lists with blanks.
std::string text_of_value(const Json& value) {
  if (value.is_null()) return "none";
  if (value.is_string()) return value.get<std::string>();
  if (!value.is_array()) return value.dump();
  std::vector<std::string> items;
  for (const Json& item : value) items.push_back(item.dump());
  return fmt::format("[{}]", fmt::join(items, ", "));
}

Answer no_such_key(const std::string& key, const Json& status) {
  std::vector<std::string> keys;
  for (const auto& [name, value] : status.items())
    if (is_comparable(name, value)) keys.push_back(name);
  return {Outcome::refused,
          fmt::format("expected one of {}, got {}{}", joined(keys), stagecraft::quoted(key), did_you_mean(key, keys))};
}

}  // namespace

std::variant<Json, Senseless> read_expectation(const Words& words) {
  const std::string all = fmt::format("{}", fmt::join(words, " "));
  const std::string_view text = trimmed(all);
  const std::string_view key = text.substr(0, text.find_first_not_of(key_letters));
  const std::string_view behind = trimmed(text.substr(key.size()));
  const std::string_view comparison = behind.substr(0, behind.find_first_not_of(comparison_letters));
  const std::string_view value = trimmed(behind.substr(comparison.size()));
  const bool known = std::find(comparisons.begin(), comparisons.end(), comparison) != comparisons.end();
  if (key.empty() || !known || value.empty()) return no_expectation(all);
  return Json{{"key", key}, {"comparison", comparison}, {"value", parse_value(value)}};
}

Answer compare(const Json& expectation, const Json& status) {
  const auto key = expectation["key"].get<std::string>(), comparison = expectation["comparison"].get<std::string>();
  const Json& value = expectation["value"];
  const auto found = status.find(key);
  if (found == status.end() || !is_comparable(key, *found)) return no_such_key(key, status);
  const Json& got = *found;
  const bool numbers = value.is_number() && (got.is_number() || got.is_null());
  const bool equals = !got.is_null() && name_of_kind(value) == name_of_kind(got);
  if (!got.is_null() && !numbers && !equals)
    return {Outcome::refused,
            fmt::format("{} is {}, {}; got {}", key, name_of_kind(got), text_of_value(got), text_of_value(value))};
  if (!numbers && has_order(comparison))
    return {Outcome::refused, fmt::format("expected a number behind {}, got {}; anything else takes = and != alone",
                                          comparison, stagecraft::quoted(text_of_value(value)))};
  const bool met = !got.is_null() && (numbers ? holds(got.get<double>(), comparison, value.get<double>())
                                              : holds(got == value, comparison, true));
  Json data{{"key", key}, {"comparison", comparison}, {"expected", value}, {"got", got}};
  data["iteration"] = status.value("iteration", Json());
  return {met ? Outcome::done : Outcome::unmet,
          fmt::format("{}expected {} {} {}, got {}, after iteration {}", met ? "as " : "", key, comparison,
                      text_of_value(value), text_of_value(got), data["iteration"].dump()),
          std::move(data)};
}

}  // namespace stagecraft::tools
