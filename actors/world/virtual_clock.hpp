// The clock of the virtual world: it stands still until the scheduler moves it to the next timer. Timers fire by their
// time, and those of one time in the order in which they were set.
//
// A timer is a message to an actor that is under way; nothing else of CAF's clock is in use here, and whoever asks for
// it meets a bug. Thread promise: the one thread of the virtual world.
#pragma once

#include <caf/actor_clock.hpp>
#include <caf/actor_control_block.hpp>
#include <caf/mailbox_element.hpp>

#include <cstdint>
#include <vector>

namespace stagecraft {

class VirtualClock final : public caf::actor_clock {
 public:
  time_point now() const noexcept override { return now_; }

  std::size_t timers() const { return timers_.size(); }
  /// Is there a timer that is due by now?
  bool is_due() const { return !timers_.empty() && timers_.front().due <= now_; }
  /// Moves to the next timer, unless it is due already, and fires all of its time. False when there is none.
  bool advance();

  void schedule_message(time_point due, caf::strong_actor_ptr to, caf::mailbox_element_ptr content) override;
  void cancel_all() override { timers_.clear(); }
  void cancel_timeouts(caf::abstract_actor*) override {}

  // What no actor here asks for.
  duration_type difference(caf::atom_value, long, time_point, time_point) const noexcept override { return {}; }
  void schedule_message(time_point, caf::group, caf::strong_actor_ptr, caf::message) override;
  void set_ordinary_timeout(time_point, caf::abstract_actor*, caf::atom_value, std::uint64_t) override;
  void set_multi_timeout(time_point, caf::abstract_actor*, caf::atom_value, std::uint64_t) override;
  void set_request_timeout(time_point, caf::abstract_actor*, caf::message_id) override;
  void cancel_ordinary_timeout(caf::abstract_actor*, caf::atom_value) override {}
  void cancel_request_timeout(caf::abstract_actor*, caf::message_id) override {}

 private:
  struct Timer {
    time_point due;
    std::uint64_t number;  // of those set so far
    caf::strong_actor_ptr to;
    caf::mailbox_element_ptr content;
  };
  struct Later {
    bool operator()(const Timer& a, const Timer& b) const {
      return a.due != b.due ? a.due > b.due : a.number > b.number;
    }
  };
  void fire_first();

  time_point now_{duration_type{1}};  // not zero, which stands for no time at all
  std::uint64_t set_ = 0;
  std::vector<Timer> timers_;  // a heap, the next one in front
};

}  // namespace stagecraft
