// Units: bytes and durations that say what they are, with their text forms. Values only; any thread.
#pragma once

#include <chrono>
#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace stagecraft {

using Duration = std::chrono::nanoseconds;
/// A point on the world's clock: time since the world began.
using Instant = std::chrono::nanoseconds;

struct Bytes {
  std::uint64_t value = 0;
  constexpr auto operator<=>(const Bytes&) const = default;
  constexpr Bytes operator+(Bytes other) const { return {value + other.value}; }
  constexpr Bytes& operator+=(Bytes other) { return value += other.value, *this; }
};

/// Bytes moved per second.
struct Bandwidth {
  double bytes_per_second = 0;
  constexpr auto operator<=>(const Bandwidth&) const = default;
};

/// "10ms", "1.5s", "250us", "7ns", "2m", "1h", and "0" alone. A unit is required. Empty when the text is anything else,
/// negative, or beyond 64-bit nanoseconds.
std::optional<Duration> parse_duration(std::string_view text);
/// "64MiB", "2GiB", "512KiB", "100B", "50GB" (decimal). A unit is required, except for "0".
std::optional<Bytes> parse_bytes(std::string_view text);
/// "50GB/s", "100MiB/s".
std::optional<Bandwidth> parse_bandwidth(std::string_view text);

/// The shortest exact or nearly exact form a person would write: "390 ms", "1.25 s", "12.3 us".
std::string format(Duration d);
/// "1.5 GiB", "640 KiB", "12 B".
std::string format(Bytes b);

}  // namespace stagecraft
