// A set of small numbers that is asked for its lowest: one bit each. One owner; not thread-safe.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace stagecraft {

class ReadySet {
 public:
  ReadySet() = default;
  /// Of the numbers 0 .. size-1.
  explicit ReadySet(std::size_t size) : words_((size + 63) / 64, 0) {}

  void insert(std::size_t n) {
    words_[n / 64] |= std::uint64_t{1} << (n % 64);
    if (n / 64 < low_) low_ = n / 64;
  }
  void erase(std::size_t n) { words_[n / 64] &= ~(std::uint64_t{1} << (n % 64)); }

  /// The lowest number of the set that is at least `from`.
  std::optional<std::size_t> lowest(std::size_t from = 0) const {
    while (low_ < words_.size() && words_[low_] == 0) ++low_;
    std::size_t word = from / 64 > low_ ? from / 64 : low_;
    std::uint64_t mask = word == from / 64 ? ~std::uint64_t{0} << (from % 64) : ~std::uint64_t{0};
    for (; word < words_.size(); ++word, mask = ~std::uint64_t{0})
      if (const std::uint64_t bits = words_[word] & mask)
        return word * 64 + static_cast<std::size_t>(std::countr_zero(bits));
    return std::nullopt;
  }

 private:
  std::vector<std::uint64_t> words_;
  mutable std::size_t low_ = 0;  // no bit is set in a lower word
};

}  // namespace stagecraft
