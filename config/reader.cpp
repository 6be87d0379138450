#include "config/reader.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

namespace stagecraft {

Section::Section(const Value& value, Report& report) : at_(value.at), path_(value.path), report_(report) {
  if (value.node->kind == YamlNode::Kind::map) {
    node_ = value.node;
    return;
  }
  quiet_ = true;
  const bool glued = value.node->plain && value.node->text.find(':') != std::string::npos;
  const std::string_view got = value.node->kind == YamlNode::Kind::null   ? "nothing"
                               : value.node->kind == YamlNode::Kind::list ? "a list"
                               : glued ? "a single value (is a blank missing after the colon?)"
                                       : "a single value";
  report_.add(ErrorCode::wrong_type, at_, path_,
              fmt::format("expected a map of keys, got {}; write key: value lines below it, or {{ key: value }}", got));
}

Section::Section(std::string path, Position at, bool quiet, Report& report)
    : at_(at), path_(std::move(path)), quiet_(quiet), report_(report) {}

std::string Section::path_of(std::string_view key) const {
  return path_.empty() ? std::string(key) : fmt::format("{}.{}", path_, key);
}

std::optional<Value> Section::value(std::string_view key) {
  if (std::find(known_.begin(), known_.end(), key) == known_.end()) known_.emplace_back(key);
  const YamlNode::Entry* entry = node_ ? node_->find(key) : nullptr;
  if (!entry) return std::nullopt;
  const bool at_key = entry->value.kind == YamlNode::Kind::map || entry->value.kind == YamlNode::Kind::null;
  return Value{&entry->value, at_key ? entry->at : entry->value.at, path_of(key)};
}

std::optional<Value> Section::required_value(std::string_view key, std::string_view what) {
  auto found = value(key);
  if (!found && !quiet_) {
    report_.add(ErrorCode::missing_key, at_, path_of(key),
                fmt::format("expected this key ({}), got none; add '{}' to {}", what, key,
                            path_.empty() ? "the file" : "'" + path_ + "'"));
  }
  return found;
}

Section Section::section(std::string_view key, bool required) {
  const auto found = required ? required_value(key, "a map of keys") : value(key);
  if (found) return Section(*found, report_);
  return Section(path_of(key), at_, required || quiet_, report_);
}

Field<double> Section::number(std::string_view key, Bounds<double> range, std::optional<double> fallback) {
  return scalar<double>(key, "a number", fallback, [&](const Value& v) { return read_number(v, range, report_); });
}

Field<bool> Section::boolean(std::string_view key, std::optional<bool> fallback) {
  return scalar<bool>(key, "true or false", fallback, [&](const Value& v) { return read_boolean(v, report_); });
}

Field<std::string> Section::text(std::string_view key, std::size_t longest, std::optional<std::string> fallback) {
  return scalar<std::string>(key, "text", std::move(fallback),
                             [&](const Value& v) { return read_text(v, longest, report_); });
}

Field<Duration> Section::duration(std::string_view key, Bounds<Duration> range, std::optional<Duration> fallback) {
  return scalar<Duration>(key, "a duration, for example 10ms", fallback,
                          [&](const Value& v) { return read_duration(v, range, report_); });
}

Field<Bytes> Section::bytes(std::string_view key, Bounds<Bytes> range, std::optional<Bytes> fallback) {
  return scalar<Bytes>(key, "a size, for example 2GiB", fallback,
                       [&](const Value& v) { return read_bytes(v, range, report_); });
}

void Section::not_available(std::string_view key, std::string_view instead) {
  refused_.emplace_back(key);
  const YamlNode::Entry* entry = node_ ? node_->find(key) : nullptr;
  if (!entry) return;
  report_.add(ErrorCode::not_available_yet, entry->at, path_of(key),
              fmt::format("expected {}, got a key that this version can't do yet; remove it", instead));
}

bool Section::is_known(const std::string& key) const {
  const auto holds = [&](const std::vector<std::string>& keys) {
    return std::find(keys.begin(), keys.end(), key) != keys.end();
  };
  return holds(known_) || holds(refused_);
}

bool Section::has_unknown_key() const {
  return node_ && std::any_of(node_->entries.begin(), node_->entries.end(),
                              [&](const YamlNode::Entry& entry) { return !is_known(entry.key); });
}

void Section::finish() {
  if (!node_) return;
  std::map<std::string_view, Position> first;
  for (const YamlNode::Entry& entry : node_->entries) {
    const auto [where, is_first] = first.emplace(entry.key, entry.at);
    if (!is_first) {
      report_duplicate(entry, where->second);
    } else if (!is_known(entry.key)) {
      report_unknown(entry);
    }
  }
}

void Section::report_duplicate(const YamlNode::Entry& entry, const Position& first) {
  report_.add(ErrorCode::duplicate_key, entry.at, path_of(printable(entry.key)),
              fmt::format("expected each key once, got {} again (first {}); remove one of them", quoted(entry.key),
                          describe_position(first)));
}

void Section::report_unknown(const YamlNode::Entry& entry) {
  // `{a:1}` and `[a, b` read as the keys 'a:1' and 'b' without a value.
  const bool glued = entry.key.find(':') != std::string::npos && entry.value.kind == YamlNode::Kind::null;
  const std::string guess = did_you_mean(entry.key, known_);
  const std::string hint = glued ? "; is a blank missing after the colon?" : guess.empty() ? "; remove it" : guess;
  report_.add(ErrorCode::unknown_key, entry.at, path_of(printable(entry.key)),
              fmt::format("expected one of {}; got the unknown key {}{}", joined(known_), quoted(entry.key), hint));
}

}  // namespace stagecraft
