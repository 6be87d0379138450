// An exact sum of doubles: a fixed-point number of 192 bits, so that the order of addition never matters.
//
// Losses and squared norms are summed here and rounded once (Kulisch's long accumulator, cut to the range we need).
//
// Only the range can break that: a running total of both signs that leaves +-2^95 on the way is invalid, although
// another order might have stayed inside. Sums of numbers of one sign, which is what we have, leave it in every order
// or in none.
//
// Thread promise: a value; each thread its own.
#pragma once

#include <array>
#include <cstdint>

namespace stagecraft {

/// A signed multiple of 2^-96 with 96 bits before the point, two's complement, lowest limb first.
class ExactSum {
 public:
  using Limbs = std::array<std::uint64_t, 3>;

  ExactSum() = default;
  /// The sum that a message carries: what `limbs` and `valid` said.
  static ExactSum from_limbs(const Limbs& limbs, bool valid);

  /// Adds x, rounded to the nearest multiple of 2^-96 (ties to even). A value that is not finite, or whose magnitude is
  /// 2^90 or more, makes the sum invalid for good.
  void add(double x);
  /// Adds a whole sum, and its invalidity. A total beyond the range of +-2^95 makes the sum invalid.
  void add(const ExactSum& other);

  /// The sum, correctly rounded (ties to even). NaN when the sum is invalid.
  double value() const;
  /// False once anything that was added could not be represented, or the total left the range.
  bool valid() const { return valid_; }
  const Limbs& limbs() const { return limbs_; }

  /// Same sum and same validity; two invalid sums are equal whatever their limbs.
  bool operator==(const ExactSum& other) const;

 private:
  void add_limbs(const Limbs& addend);

  Limbs limbs_{};
  bool valid_ = true;
};

}  // namespace stagecraft
