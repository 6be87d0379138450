// YAML text as a tree of values with positions. Stricter than YAML: one document, no anchors, aliases, tags, directives
// or merge keys, bounded size and depth; duplicate keys are kept for the reader to report. Pure; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/diagnostics.hpp"

namespace stagecraft {

struct YamlNode {
  enum class Kind : std::uint8_t { null, scalar, list, map };
  struct Entry;

  Kind kind = Kind::null;
  bool plain = true;  ///< a scalar without quotes: only these can be numbers and booleans
  Position at;
  std::string text;             ///< of a scalar, quotes and escapes resolved
  std::vector<YamlNode> items;  ///< of a list
  std::vector<Entry> entries;   ///< of a map, in file order

  const Entry* find(std::string_view key) const;  ///< the first of that key, or null
  Entry* find(std::string_view key);
};

struct YamlNode::Entry {
  std::string key;
  Position at;  ///< of the key
  YamlNode value;
};

/// Limits on what is read: a topology of a thousand stages takes a tenth of each.
inline constexpr std::size_t largest_text = 1 << 20;  // bytes
inline constexpr int deepest_nesting = 32;
inline constexpr int most_values = 100'000;

/// Empty when the text can't be read at all; the report then says why. Some problems (a bad key, a tag) are reported
/// and reading goes on. Never throws. `override_number`: the text is the value of that override, and positions say so.
std::optional<YamlNode> parse_yaml(std::string_view text, Report& report,
                                   std::optional<std::uint32_t> override_number = std::nullopt);

}  // namespace stagecraft
