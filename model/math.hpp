// Our own transcendental functions: the same bits on every x86 CPU and with every C library.
//
// Built from IEEE +, -, x, /, square root and fused multiply-adds in a fixed order; no library function whose last bit
// is a matter of taste. Pure functions; any thread. They expect round-to-nearest and leave the floating-point
// environment alone.
#pragma once

#include <cstdint>

namespace stagecraft::math {

inline constexpr double pi = 3.14159265358979323846;

/// e^x within 2 units in the last place; the same bits as the sixteen-lane form of the kernels. 0 far below, infinity
/// far above, NaN stays NaN.
float exp(float x);
/// e^x within 2 units in the last place for results that are normal numbers; 0 below -746, infinity above 709.79.
double exp(double x);
/// Natural logarithm within 2 units in the last place. log(0) is -infinity, of negative numbers NaN.
double log(double x);
/// Sine and cosine for |x| <= 100000, within 2^-51 absolutely; beyond that the error grows with |x|.
double sin(double x);
double cos(double x);
/// base^exponent for base > 0, as exp(exponent log(base)): the relative error grows with |exponent log(base)|.
double pow(double base, double exponent);
/// base^exponent by repeated squaring.
double powi(double base, std::uint64_t exponent);

}  // namespace stagecraft::math
