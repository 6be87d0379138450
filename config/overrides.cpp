#include "config/overrides.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <utility>

namespace stagecraft {
namespace {

std::vector<std::string> split_path(std::string_view path) {
  std::vector<std::string> words;
  while (true) {
    const std::size_t point = path.find('.');
    words.emplace_back(path.substr(0, point));
    if (point == std::string_view::npos) return words;
    path.remove_prefix(point + 1);
  }
}

std::optional<std::size_t> parse_index(std::string_view word) {
  std::size_t index = 0;
  const auto parsed = std::from_chars(word.data(), word.data() + word.size(), index);
  if (parsed.ec != std::errc{} || parsed.ptr != word.data() + word.size()) return std::nullopt;
  return index;
}

// The node that one word of a path leads to, created if it is a new key of a map; null (and reported) when there is no
// such place. `path` is what has been walked so far.
YamlNode* descend(YamlNode& node, const std::string& word, const std::string& path, const Position& at,
                  Report& report) {
  if (node.kind == YamlNode::Kind::list) {
    const auto index = parse_index(word);
    if (index && *index < node.items.size()) return &node.items[*index];
    report.add(ErrorCode::override_without_place, at, path,
               fmt::format("expected a list index from 0 to {}, got {}; choose one of the {} items",
                           node.items.empty() ? 0 : node.items.size() - 1, quoted(word), node.items.size()));
    return nullptr;
  }
  if (node.kind == YamlNode::Kind::null) node.kind = YamlNode::Kind::map;
  if (node.kind != YamlNode::Kind::map) {
    report.add(
        ErrorCode::override_without_place, at, path,
        fmt::format("expected a map or a list to look for {} in, got a single value; shorten the key", quoted(word)));
    return nullptr;
  }
  if (YamlNode::Entry* entry = node.find(word)) return &entry->value;
  YamlNode::Entry fresh;
  fresh.key = word;
  fresh.at = at;
  fresh.value.at = at;
  node.entries.push_back(std::move(fresh));
  return &node.entries.back().value;
}

// Positions within the value count for nothing: messages cite the override as a whole.
void apply(YamlNode& root, const std::string& text, std::uint32_t number, Report& report) {
  const Position at{number, 1, 1};
  const std::size_t equals = text.find('=');
  const std::vector<std::string> path = split_path(std::string_view(text).substr(0, equals));
  const bool has_gap = std::any_of(path.begin(), path.end(), [](const std::string& word) { return word.empty(); });
  if (equals == std::string::npos || equals + 1 == text.size() || has_gap) {
    report.add(ErrorCode::bad_override, at, "",
               fmt::format("expected dotted.key=value, got {}; write for example pipeline.stages=8", quoted(text)));
    return;
  }
  if (path.size() > static_cast<std::size_t>(deepest_nesting)) {
    report.add(ErrorCode::too_deep, at, "",
               fmt::format("expected at most {} keys in the path, got {}; shorten it", deepest_nesting, path.size()));
    return;
  }
  auto value = parse_yaml(std::string_view(text).substr(equals + 1), report, number);
  if (!value) return;
  YamlNode* node = &root;
  std::string walked;
  for (const std::string& word : path) {
    node = descend(*node, word, walked, at, report);
    if (!node) return;
    walked += (walked.empty() ? "" : ".") + word;
  }
  *node = std::move(*value);
}

// An entry whose value comes from an override is cited as that override, its key included.
void cite_override(YamlNode& node) {
  for (YamlNode::Entry& entry : node.entries) {
    if (entry.value.at.override_number) entry.at = entry.value.at;
    cite_override(entry.value);
  }
  for (YamlNode& item : node.items) cite_override(item);
}

}  // namespace

void apply_overrides(YamlNode& root, Report& report) {
  for (std::uint32_t i = 0; i < report.overrides().size(); ++i) apply(root, report.overrides()[i], i, report);
  cite_override(root);
}

}  // namespace stagecraft
