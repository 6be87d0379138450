#include "planning/cost.hpp"

#include <algorithm>
#include <cmath>

namespace stagecraft {

Duration OperatorTimes::of(OperatorKind kind) const {
  switch (kind) {
    case OperatorKind::forward:
      return forward;
    case OperatorKind::backward_input:
      return backward_input;
    case OperatorKind::backward_weight:
      return backward_weight;
    case OperatorKind::backward:
      return backward_input + backward_weight;
  }
  return {};
}

// A message that would take longer takes this long: beyond any deadline, and thousands of them still add up.
static constexpr Duration longest_service = std::chrono::hours(24 * 7);

// occupancy + bytes / bandwidth, rounded to the nearest nanosecond.
Duration service_time(const LinkCost& link, Bytes message) {
  if (link.bandwidth.bytes_per_second <= 0) return link.occupancy;
  const double ns = std::round(static_cast<double>(message.value) * 1e9 / link.bandwidth.bytes_per_second);
  if (ns >= static_cast<double>(longest_service.count())) return longest_service;
  return std::min(longest_service, link.occupancy + Duration{static_cast<std::int64_t>(ns)});
}

}  // namespace stagecraft
