#include "config/yaml_text.hpp"

#include <fmt/format.h>

#include <iterator>
#include <utility>

namespace stagecraft {

std::string in_quotes(std::string_view text) {
  std::string out = "\"";
  for (char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (byte < 0x20 || byte == 0x7f) {
      fmt::format_to(std::back_inserter(out), "\\x{:02x}", byte);
    } else {
      out += c;
    }
  }
  return out + "\"";
}

std::string exact(Duration d) {
  using Unit = std::pair<std::int64_t, const char*>;
  for (const auto& [scale, name] : {Unit{1'000'000'000, "s"}, Unit{1'000'000, "ms"}, Unit{1'000, "us"}}) {
    if (d.count() % scale == 0) return fmt::format("{}{}", d.count() / scale, name);
  }
  return fmt::format("{}ns", d.count());
}

std::string exact(Bytes b) {
  using Unit = std::pair<std::uint64_t, const char*>;
  for (const auto& [scale, name] : {Unit{1 << 30, "GiB"}, Unit{1 << 20, "MiB"}, Unit{1 << 10, "KiB"}}) {
    if (b.value != 0 && b.value % scale == 0) return fmt::format("{}{}", b.value / scale, name);
  }
  return fmt::format("{}B", b.value);
}

std::string exact(Bandwidth b) {
  if (b.bytes_per_second == 0) return "unlimited";
  return fmt::format("{}B/s", static_cast<std::uint64_t>(b.bytes_per_second));  // whole since it was read
}

}  // namespace stagecraft
