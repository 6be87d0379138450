#include "actors/world/virtual_clock.hpp"

#include <caf/group.hpp>

#include <algorithm>

#include "planning/bug.hpp"

namespace stagecraft {

bool VirtualClock::advance() {
  if (timers_.empty()) return false;
  const time_point due = timers_.front().due;
  now_ = std::max(now_, due);
  do fire_first();
  while (!timers_.empty() && timers_.front().due <= due);
  return true;
}

void VirtualClock::fire_first() {
  std::pop_heap(timers_.begin(), timers_.end(), Later{});
  Timer first = std::move(timers_.back());
  timers_.pop_back();
  first.to->enqueue(std::move(first.content), nullptr);
}

void VirtualClock::schedule_message(time_point due, caf::strong_actor_ptr to, caf::mailbox_element_ptr content) {
  timers_.push_back({due, set_++, std::move(to), std::move(content)});
  std::push_heap(timers_.begin(), timers_.end(), Later{});
}

void VirtualClock::schedule_message(time_point, caf::group, caf::strong_actor_ptr, caf::message) {
  throw Bug("a delayed message to a group in the virtual world: groups are not in use");
}
void VirtualClock::set_ordinary_timeout(time_point, caf::abstract_actor*, caf::atom_value, std::uint64_t) {
  throw Bug("a receive timeout in the virtual world: actors send themselves delayed messages instead");
}
void VirtualClock::set_multi_timeout(time_point, caf::abstract_actor*, caf::atom_value, std::uint64_t) {
  throw Bug("a timeout in the virtual world: actors send themselves delayed messages instead");
}
void VirtualClock::set_request_timeout(time_point, caf::abstract_actor*, caf::message_id) {
  throw Bug("a request with a timeout in the virtual world: all messages are one-way");
}

}  // namespace stagecraft
