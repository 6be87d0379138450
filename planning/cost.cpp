#include "planning/cost.hpp"

#include <cmath>

namespace stagecraft {

// occupancy + bytes / bandwidth, rounded to the nearest nanosecond; a time beyond 64 bits becomes the longest there is.
Duration service_time(const LinkCost& link, Bytes message) {
  if (link.bandwidth.bytes_per_second <= 0) return link.occupancy;
  const double ns = std::round(static_cast<double>(message.value) * 1e9 / link.bandwidth.bytes_per_second);
  const Duration room = Duration::max() - link.occupancy;
  if (ns >= static_cast<double>(room.count())) return Duration::max();
  return link.occupancy + Duration{static_cast<std::int64_t>(ns)};
}

}  // namespace stagecraft
