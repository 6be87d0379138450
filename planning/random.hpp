// Chance without state: counter-based numbers, keyed by what they are for. Same seed, same keys, same number, on every
// machine and thread. Not for cryptography.
#pragma once

#include <cstdint>
#include <string_view>

namespace stagecraft {

/// Mixes all bits of a 64-bit word (the finaliser of the published SplitMix64 generator, Steele et al. 2014).
constexpr std::uint64_t mix_bits(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15ULL;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

/// A number that depends on the seed and on every key, in order.
template <class... Keys>
constexpr std::uint64_t keyed(std::uint64_t seed, Keys... keys) {
  std::uint64_t h = mix_bits(seed);
  ((h = mix_bits(h ^ static_cast<std::uint64_t>(keys))), ...);
  return h;
}

/// The key that stands for a name (FNV-1a).
constexpr std::uint64_t name_key(std::string_view name) {
  std::uint64_t h = 14695981039346656037ULL;
  for (char c : name) h = (h ^ static_cast<unsigned char>(c)) * 1099511628211ULL;
  return h;
}

/// Maps a 64-bit number to 0 .. n-1 without the bias of a remainder. n > 0.
constexpr std::uint64_t bounded(std::uint64_t number, std::uint64_t n) {
  __extension__ using Wide = unsigned __int128;
  return static_cast<std::uint64_t>((static_cast<Wide>(number) * n) >> 64);
}

/// A named stream of draws: adding a draw to one stream moves no other. One owner, one thread.
class Entropy {
 public:
  Entropy(std::uint64_t seed, std::string_view name) : seed_(keyed(seed, name_key(name))) {}
  std::uint64_t next() { return keyed(seed_, count_++); }
  std::uint64_t below(std::uint64_t n) { return bounded(next(), n); }
  /// Inclusive at both ends.
  std::uint64_t between(std::uint64_t low, std::uint64_t high) { return low + below(high - low + 1); }

 private:
  std::uint64_t seed_;
  std::uint64_t count_ = 0;
};

}  // namespace stagecraft
