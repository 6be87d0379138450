#include "planning/units.hpp"

#include <array>
#include <limits>
#include <span>

#include <fmt/format.h>

namespace stagecraft {
namespace {

__extension__ using Wide = unsigned __int128;

struct Unit {
  std::string_view name;
  std::uint64_t scale;  // in nanoseconds or bytes
};

constexpr std::uint64_t kilo = 1000, mega = kilo * kilo, giga = kilo * mega, tera = kilo * giga;
constexpr std::uint64_t kibi = 1024, mebi = kibi * kibi, gibi = kibi * mebi, tebi = kibi * gibi;

constexpr std::array<Unit, 6> duration_units{
    {{"ns", 1}, {"us", kilo}, {"ms", mega}, {"s", giga}, {"m", 60 * giga}, {"h", 3600 * giga}}};
constexpr std::array<Unit, 10> byte_units{{{"B", 1},
                                           {"kB", kilo},
                                           {"KB", kilo},
                                           {"MB", mega},
                                           {"GB", giga},
                                           {"TB", tera},
                                           {"KiB", kibi},
                                           {"MiB", mebi},
                                           {"GiB", gibi},
                                           {"TiB", tebi}}};

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// Cuts the leading digits off `text`.
std::string_view take_digits(std::string_view& text) {
  std::size_t n = 0;
  while (n < text.size() && is_digit(text[n])) ++n;
  const std::string_view digits = text.substr(0, n);
  text.remove_prefix(n);
  return digits;
}

// The value of a run of digits; empty when there is none or it passes 64 bits.
std::optional<std::uint64_t> to_number(std::string_view digits) {
  if (digits.empty()) return std::nullopt;
  std::uint64_t value = 0;
  for (char c : digits) {
    if (__builtin_mul_overflow(value, std::uint64_t{10}, &value)) return std::nullopt;
    if (__builtin_add_overflow(value, static_cast<std::uint64_t>(c - '0'), &value)) return std::nullopt;
  }
  return value;
}

// digits [ "." digits ] unit, in whole nanoseconds or bytes: exact integer arithmetic, the last one rounded to nearest.
// At most 18 digits behind the point.
std::optional<std::uint64_t> parse_scaled(std::string_view text, std::span<const Unit> units, std::uint64_t limit) {
  const auto whole = to_number(take_digits(text));
  if (!whole) return std::nullopt;
  std::uint64_t fraction = 0, parts = 1;
  if (text.starts_with('.')) {
    text.remove_prefix(1);
    const std::string_view digits = take_digits(text);
    if (digits.empty() || digits.size() > 18) return std::nullopt;
    fraction = *to_number(digits);
    for (std::size_t i = 0; i < digits.size(); ++i) parts *= 10;
  }
  for (const Unit& unit : units) {
    if (text != unit.name) continue;
    const Wide value = Wide{*whole} * unit.scale + (Wide{fraction} * unit.scale + parts / 2) / parts;
    if (value > limit) return std::nullopt;
    return static_cast<std::uint64_t>(value);
  }
  return std::nullopt;
}

// magnitude / scale with at most `places` digits behind the point, zeros trimmed.
std::string decimal(std::uint64_t magnitude, std::uint64_t scale, int places) {
  std::uint64_t parts = 1;
  for (int i = 0; i < places; ++i) parts *= 10;
  const auto scaled = static_cast<std::uint64_t>((Wide{magnitude} * parts + scale / 2) / scale);
  std::string text = fmt::format("{}.{:0{}}", scaled / parts, scaled % parts, places);
  text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.') text.pop_back();
  return text;
}

// True when magnitude / scale still prints as less than `next` units, so that no "1000 ms" or "1024 KiB" appears.
bool prints_below(std::uint64_t magnitude, std::uint64_t scale, std::uint64_t next, std::uint64_t parts) {
  return Wide{magnitude} * parts + scale / 2 < Wide{next} * parts * scale;
}

}  // namespace

std::optional<Duration> parse_duration(std::string_view text) {
  if (text == "0") return Duration{};
  const auto value = parse_scaled(text, duration_units, std::numeric_limits<std::int64_t>::max());
  if (!value) return std::nullopt;
  return Duration{static_cast<std::int64_t>(*value)};
}

std::optional<Bytes> parse_bytes(std::string_view text) {
  if (text == "0") return Bytes{};
  const auto value = parse_scaled(text, byte_units, std::numeric_limits<std::uint64_t>::max());
  if (!value) return std::nullopt;
  return Bytes{*value};
}

std::optional<Bandwidth> parse_bandwidth(std::string_view text) {
  if (!text.ends_with("/s")) return std::nullopt;
  text.remove_suffix(2);
  const auto value = parse_scaled(text, byte_units, std::numeric_limits<std::uint64_t>::max());
  if (!value) return std::nullopt;
  return Bandwidth{static_cast<double>(*value)};
}

std::string format(Duration d) {
  const bool negative = d.count() < 0;
  const auto bits = static_cast<std::uint64_t>(d.count());
  const std::uint64_t ns = negative ? 0 - bits : bits;
  const std::string sign = negative ? "-" : "";
  if (ns < kilo) return fmt::format("{}{} ns", sign, ns);
  if (ns >= 3600 * giga && ns % (3600 * giga) == 0) return fmt::format("{}{} h", sign, ns / (3600 * giga));
  if (ns >= 120 * giga && ns % (60 * giga) == 0) return fmt::format("{}{} m", sign, ns / (60 * giga));
  if (prints_below(ns, kilo, kilo, 1000)) return fmt::format("{}{} us", sign, decimal(ns, kilo, 3));
  if (prints_below(ns, mega, kilo, 1000)) return fmt::format("{}{} ms", sign, decimal(ns, mega, 3));
  return fmt::format("{}{} s", sign, decimal(ns, giga, 3));
}

std::string format(Bytes b) {
  if (b.value < kibi) return fmt::format("{} B", b.value);
  if (prints_below(b.value, kibi, kibi, 100)) return fmt::format("{} KiB", decimal(b.value, kibi, 2));
  if (prints_below(b.value, mebi, kibi, 100)) return fmt::format("{} MiB", decimal(b.value, mebi, 2));
  if (prints_below(b.value, gibi, kibi, 100)) return fmt::format("{} GiB", decimal(b.value, gibi, 2));
  return fmt::format("{} TiB", decimal(b.value, tebi, 2));
}

}  // namespace stagecraft
