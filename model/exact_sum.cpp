#include "model/exact_sum.hpp"

#include <bit>
#include <limits>

namespace stagecraft {

namespace {

constexpr int fraction_bits = 96;
constexpr int largest_exponent = 90;  // |x| < 2^90: 2^5 and more of them fit before the sign bit is at risk

bool negative(const ExactSum::Limbs& limbs) { return (limbs[2] >> 63) != 0; }

ExactSum::Limbs negated(ExactSum::Limbs limbs) {
  std::uint64_t carry = 1;
  for (auto& limb : limbs) {
    limb = ~limb + carry;
    carry = carry != 0 && limb == 0 ? 1 : 0;
  }
  return limbs;
}

/// m x 2^shift as limbs, for shift >= 0 and a result below 2^191.
ExactSum::Limbs shifted_left(std::uint64_t m, int shift) {
  ExactSum::Limbs limbs{};
  const auto limb = static_cast<std::size_t>(shift / 64);
  const int bits = shift % 64;
  limbs[limb] = m << bits;
  if (bits != 0 && limb + 1 < limbs.size()) limbs[limb + 1] = m >> (64 - bits);
  return limbs;
}

/// m / 2^shift rounded to the nearest integer, ties to even. shift >= 1.
std::uint64_t shifted_right_rounded(std::uint64_t m, int shift) {
  if (shift > 63) return 0;  // m < 2^53, so m / 2^shift < 1/2
  const std::uint64_t quotient = m >> shift;
  const std::uint64_t rest = m & ((std::uint64_t{1} << shift) - 1);
  const std::uint64_t half = std::uint64_t{1} << (shift - 1);
  return quotient + (rest > half || (rest == half && (quotient & 1) != 0) ? 1 : 0);
}

bool bit(const ExactSum::Limbs& limbs, int i) {
  return ((limbs[static_cast<std::size_t>(i / 64)] >> (i % 64)) & 1) != 0;
}

bool any_below(const ExactSum::Limbs& limbs, int end) {
  for (int i = 0; i < end; i += 64) {
    const auto limb = static_cast<std::size_t>(i / 64);
    const std::uint64_t mask = end - i >= 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << (end - i)) - 1;
    if ((limbs[limb] & mask) != 0) return true;
  }
  return false;
}

std::uint64_t bits_from(const ExactSum::Limbs& limbs, int first, int count) {
  std::uint64_t result = 0;
  for (int i = count - 1; i >= 0; --i) result = result << 1 | (bit(limbs, first + i) ? 1 : 0);
  return result;
}

}  // namespace

ExactSum ExactSum::from_limbs(const Limbs& limbs, bool valid) {
  ExactSum sum;
  sum.limbs_ = limbs;
  sum.valid_ = valid;
  return sum;
}

void ExactSum::add_limbs(const Limbs& addend) {
  const bool same_sign = negative(limbs_) == negative(addend);
  const bool sign = negative(limbs_);
  __extension__ using Wide = unsigned __int128;
  Wide carry = 0;
  for (std::size_t i = 0; i < limbs_.size(); ++i) {
    carry += static_cast<Wide>(limbs_[i]) + addend[i];
    limbs_[i] = static_cast<std::uint64_t>(carry);
    carry >>= 64;
  }
  if (same_sign && negative(limbs_) != sign) valid_ = false;
}

void ExactSum::add(double x) {
  const auto word = std::bit_cast<std::uint64_t>(x);
  const int field = static_cast<int>(word >> 52 & 0x7ff);
  std::uint64_t mantissa = word & ((std::uint64_t{1} << 52) - 1);
  if (field - 1023 >= largest_exponent) {  // infinities and NaN have the largest field
    valid_ = false;
    return;
  }
  if (field != 0) mantissa |= std::uint64_t{1} << 52;
  // x = mantissa x 2^(exponent), in multiples of 2^-96
  const int shift = (field == 0 ? 1 : field) - 1075 + fraction_bits;
  Limbs magnitude{};
  if (shift >= 0)
    magnitude = shifted_left(mantissa, shift);
  else
    magnitude[0] = shifted_right_rounded(mantissa, -shift);
  add_limbs((word >> 63) != 0 ? negated(magnitude) : magnitude);
}

void ExactSum::add(const ExactSum& other) {
  add_limbs(other.limbs_);
  valid_ = valid_ && other.valid_;
}

double ExactSum::value() const {
  if (!valid_) return std::numeric_limits<double>::quiet_NaN();
  const bool below_zero = negative(limbs_);
  const Limbs magnitude = below_zero ? negated(limbs_) : limbs_;
  int top = 191;
  while (top >= 0 && !bit(magnitude, top)) --top;
  if (top < 0) return 0.0;
  // 53 bits from the top one; the smallest magnitude, 2^-96, is far above the subnormal numbers.
  const int first = top >= 52 ? top - 52 : 0;
  std::uint64_t mantissa = bits_from(magnitude, first, top - first + 1);
  if (first > 0 && bit(magnitude, first - 1) && ((mantissa & 1) != 0 || any_below(magnitude, first - 1))) ++mantissa;
  // The mantissa is at most 2^53, so it converts exactly; the scale is a power of two in range.
  const double scale = std::bit_cast<double>(static_cast<std::uint64_t>(first - fraction_bits + 1023) << 52);
  const double result = static_cast<double>(mantissa) * scale;
  return below_zero ? -result : result;
}

bool ExactSum::operator==(const ExactSum& other) const {
  if (valid_ != other.valid_) return false;
  return !valid_ || limbs_ == other.limbs_;
}

}  // namespace stagecraft
