// Robust numbers of a block of samples. Pure; any thread. All take sorted values and at least one.
#pragma once

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <span>
#include <vector>

namespace stagecraft::robust {

inline std::vector<double> sorted(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values;
}

/// The value at the share `q`, between neighbours in proportion.
inline double quantile(std::span<const double> sorted, double q) {
  const double place = q * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(place);
  if (below + 1 == sorted.size()) return sorted.back();
  return sorted[below] + (place - static_cast<double>(below)) * (sorted[below + 1] - sorted[below]);
}
inline double median(std::span<const double> sorted) { return quantile(sorted, 0.5); }

/// The mean of the middle half: nearly as sharp as the mean on normal noise, and outliers do not reach it.
inline double midmean(std::span<const double> sorted) {
  const std::size_t cut = sorted.size() / 4;
  const std::span<const double> middle = sorted.subspan(cut, sorted.size() - 2 * cut);
  return std::accumulate(middle.begin(), middle.end(), 0.0) / static_cast<double>(middle.size());
}

/// The standard deviation that normal values of this median absolute deviation have.
inline double deviation(std::span<const double> sorted) {
  const double middle = median(sorted);
  std::vector<double> apart;
  for (const double value : sorted) apart.push_back(value < middle ? middle - value : value - middle);
  return 1.4826 * median(robust::sorted(std::move(apart)));
}

}  // namespace stagecraft::robust
