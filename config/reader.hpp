// Reads a tree of YAML values strictly: every key must be asked for, every value must have the type, unit and range
// that was asked for, and all problems are reported with their positions. Nothing here throws because of a file's
// content. One thread per Report.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "config/diagnostics.hpp"
#include "config/yaml_tree.hpp"
#include "planning/units.hpp"

namespace stagecraft {

/// A value that was read: what it is, where it stands, whether the file gave it, and whether it may be used. A default
/// is valid and not given; a value with a problem (already reported) is given and not valid.
template <class T>
struct Field {
  T value{};
  Position at;
  std::string path;
  bool given = false;
  bool valid = false;
  explicit operator bool() const { return valid; }
};

/// A value of the tree with its key path.
struct Value {
  const YamlNode* node = nullptr;  ///< never null
  Position at;                     ///< of the value; of the key when the value is a map or missing
  std::string path;
};

template <class T>
struct Bounds {
  T low{}, high{};
  bool open_low = false;   ///< low itself is not allowed
  bool open_high = false;  ///< nor is high
};

/// A word and what it stands for.
template <class E>
struct Choice {
  std::string_view name;
  E value{};
};

/// Scalars. Empty after a reported problem. `also` names what else the key takes ("auto"), for the message.
std::optional<std::uint64_t> read_integer(const Value& value, Bounds<std::uint64_t> range, Report& report,
                                          std::string_view also = "");
std::optional<double> read_number(const Value& value, Bounds<double> range, Report& report);
std::optional<bool> read_boolean(const Value& value, Report& report);
std::optional<std::string> read_text(const Value& value, std::size_t longest, Report& report);
std::optional<Duration> read_duration(const Value& value, Bounds<Duration> range, Report& report);
std::optional<Bytes> read_bytes(const Value& value, Bounds<Bytes> range, Report& report);
std::optional<Bandwidth> read_bandwidth(const Value& value, Bounds<Bandwidth> range, Report& report,
                                        std::string_view also = "");
/// The index of the word. Words of `later` are known, but this version can't do them.
std::optional<std::size_t> read_choice(const Value& value, std::span<const std::string> words, Report& report,
                                       std::span<const std::string> later = {});
/// The items, each with its own path (`nodes[0]`). `what` names the items in messages.
std::optional<std::vector<Value>> read_list(const Value& value, Bounds<std::size_t> length, std::string_view what,
                                            Report& report);
/// True when the value is that plain or quoted word.
bool is_word(const Value& value, std::string_view word);

/// A map that is being read. Ask for every key that it may have, then call finish().
class Section {
 public:
  Section(const Value& value, Report& report);

  /// A map below this one. Absent and required: reported. Absent: an empty section whose defaults are valid when it is
  /// optional, and whose required keys are not reported again.
  Section section(std::string_view key, bool required);
  /// The value of a key, if the file gives it. Marks the key as known.
  std::optional<Value> value(std::string_view key);
  /// The same; a missing key is reported, with `what` it takes.
  std::optional<Value> required_value(std::string_view key, std::string_view what);

  /// Scalars. Without a fallback the key is required.
  template <class T>
  Field<T> integer(std::string_view key, T low, T high, std::optional<T> fallback = std::nullopt);
  Field<double> number(std::string_view key, Bounds<double> range, std::optional<double> fallback = std::nullopt);
  Field<bool> boolean(std::string_view key, std::optional<bool> fallback = std::nullopt);
  Field<std::string> text(std::string_view key, std::size_t longest,
                          std::optional<std::string> fallback = std::nullopt);
  Field<Duration> duration(std::string_view key, Bounds<Duration> range,
                           std::optional<Duration> fallback = std::nullopt);
  Field<Bytes> bytes(std::string_view key, Bounds<Bytes> range, std::optional<Bytes> fallback = std::nullopt);
  template <class E>
  Field<E> choice(std::string_view key, std::initializer_list<Choice<E>> choices,
                  std::optional<std::type_identity_t<E>> fallback = std::nullopt,
                  std::initializer_list<std::string_view> later = {});

  /// A key of the format that this version can't do: reported as such when it is given.
  void not_available(std::string_view key, std::string_view instead);

  /// The file gives a key that has not been asked for yet.
  bool has_unknown_key() const;
  /// Reports unknown and duplicate keys.
  void finish();

  bool given() const { return node_ != nullptr; }
  const Position& at() const { return at_; }
  const std::string& path() const { return path_; }
  std::string path_of(std::string_view key) const;

 private:
  Section(std::string path, Position at, bool quiet, Report& report);
  bool is_known(const std::string& key) const;
  void report_duplicate(const YamlNode::Entry& entry, const Position& first);
  void report_unknown(const YamlNode::Entry& entry);

  template <class T>
  Field<T> begin_field(std::string_view key) const;
  template <class T, class Read>
  Field<T> scalar(std::string_view key, std::string_view what, std::optional<T> fallback, Read&& read);

  const YamlNode* node_ = nullptr;  // null: the section is absent
  Position at_;
  std::string path_;
  bool quiet_ = false;  // missing keys have been reported with the section
  std::vector<std::string> known_;
  std::vector<std::string> refused_;  // keys that have been reported as not available
  Report& report_;
};

/// "an integer from 1 to 64".
std::string describe_range(Bounds<std::uint64_t> range);

// Templates.

template <class T>
Field<T> Section::begin_field(std::string_view key) const {
  Field<T> field;
  field.at = at_;
  field.path = path_of(key);
  return field;
}

template <class T, class Read>
Field<T> Section::scalar(std::string_view key, std::string_view what, std::optional<T> fallback, Read&& read) {
  auto field = begin_field<T>(key);
  const auto found = fallback ? value(key) : required_value(key, what);
  if (!found) {
    field.valid = fallback.has_value();
    if (fallback) field.value = *fallback;
    return field;
  }
  field.given = true;
  field.at = found->at;
  if (std::optional<T> result = read(*found)) {
    field.value = *result;
    field.valid = true;
  }
  return field;
}

template <class T>
Field<T> Section::integer(std::string_view key, T low, T high, std::optional<T> fallback) {
  const Bounds<std::uint64_t> range{.low = low, .high = high};
  return scalar<T>(key, describe_range(range), fallback, [&](const Value& v) -> std::optional<T> {
    const auto number = read_integer(v, range, report_);
    if (!number) return std::nullopt;
    return static_cast<T>(*number);
  });
}

template <class E>
Field<E> Section::choice(std::string_view key, std::initializer_list<Choice<E>> choices,
                         std::optional<std::type_identity_t<E>> fallback,
                         std::initializer_list<std::string_view> later) {
  std::vector<std::string> words, later_words(later.begin(), later.end());
  for (const auto& choice : choices) words.emplace_back(choice.name);
  return scalar<E>(key, "one of " + joined(words), fallback, [&](const Value& v) -> std::optional<E> {
    const auto index = read_choice(v, words, report_, later_words);
    if (!index) return std::nullopt;
    return (choices.begin() + *index)->value;
  });
}

}  // namespace stagecraft
