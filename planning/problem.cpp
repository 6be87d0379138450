#include "planning/problem.hpp"

namespace stagecraft {

Duration PipelineProblem::crossing(Direction direction, std::uint32_t boundary_index) const {
  const auto& links = direction == Direction::forward ? forward_links : backward_links;
  if (links.empty() || shape.is_inside(boundary_index)) return {};
  const LinkCost& link = links[boundary_index];
  return link.latency + service_time(link, boundary.empty() ? Bytes{} : boundary[boundary_index]);
}

}  // namespace stagecraft
