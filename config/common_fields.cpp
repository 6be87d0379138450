#include "config/common_fields.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace stagecraft {
namespace {

constexpr std::uint64_t known_version = 1;

bool is_name_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_' || c == '.';
}

bool has_control_character(std::string_view text) {
  return std::any_of(text.begin(), text.end(), [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte < 0x20 || byte == 0x7f;
  });
}

}  // namespace

bool check_version(Section& root, Report& report) {
  const auto value = root.required_value("version", std::to_string(known_version));
  const auto version = value ? read_integer(*value, {0, 1'000'000}, report) : std::nullopt;
  if (!version || *version == known_version) return true;
  report.add(ErrorCode::unknown_version, value->at, value->path,
             fmt::format("expected version {}, got {}; use a stagecraft that reads it, or write version: {}",
                         known_version, *version, known_version));
  return false;
}

Field<std::string> read_name(Section& section, std::string_view key, Report& report) {
  auto name = section.text(key, 64);
  if (!name) return name;
  const bool fine = std::all_of(name.value.begin(), name.value.end(), is_name_character);
  const char first = name.value.front();
  if (fine && name.value.find(".before-") != std::string::npos) {
    report.add(ErrorCode::bad_text, name.at, name.path,
               fmt::format("expected a name without '.before-', which marks checkpoints that were moved aside, got {}",
                           quoted(name.value)));
    name.valid = false;
    return name;
  }
  if (fine && first != '-' && first != '_' && first != '.') return name;
  report.add(ErrorCode::bad_text, name.at, name.path,
             fmt::format("expected a name of letters, digits, - _ and . that begins with a letter or digit, got {}; "
                         "write for example my-run-7",
                         quoted(name.value)));
  name.valid = false;
  return name;
}

Field<std::string> read_line(Section& section, std::string_view key, std::size_t longest,
                             std::optional<std::string> fallback, Report& report) {
  auto line = section.text(key, longest, std::move(fallback));
  if (line && has_control_character(line.value)) {
    report.add(
        ErrorCode::bad_text, line.at, line.path,
        fmt::format("expected text on one line without control characters, got {}; remove them", quoted(line.value)));
    line.valid = false;
  }
  return line;
}

}  // namespace stagecraft
