// Timers of the virtual world, and how a message reaches its handler.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <vector>

#include "actors/messages.hpp"
#include "actors/world/deterministic_scheduler.hpp"
#include "fixture.hpp"
#include "planning/bug.hpp"

namespace stagecraft::test {
namespace {

using namespace std::chrono_literals;

TEST(VirtualClock, timers_fire_by_their_time_and_those_of_one_time_in_the_order_in_which_they_were_set) {
  const auto world = make_virtual_world({}, text_disk());
  std::vector<int> seen;
  std::vector<Instant> times;
  // With an argument: of none CAF makes a reference to nothing.
  const auto ear_of = [](caf::event_based_actor*, std::function<void(int)> hear) -> caf::behavior {
    return {[hear = std::move(hear)](int n) { hear(n); }};
  };
  const caf::actor ear = world->system().spawn(ear_of, std::function<void(int)>([&](int n) {
                                                 seen.push_back(n);
                                                 times.push_back(world->now());
                                               }));
  const Instant begin = world->now();
  std::vector<std::pair<Duration, int>> expected;
  for (int n = 0; n < 500; ++n) {
    expected.emplace_back(Duration(1ms) * (1 + keyed(3, n) % 7), n);
    caf::delayed_anon_send(ear, expected.back().first, n);
  }
  std::stable_sort(expected.begin(), expected.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  EXPECT_EQ(DeterministicScheduler::of(world->system()).timers(), 500U);
  world->drive([] { return false; });
  ASSERT_EQ(seen.size(), expected.size());
  for (std::size_t i = 0; i < seen.size(); ++i) {
    EXPECT_EQ(seen[i], expected[i].second);
    EXPECT_EQ(times[i], begin + expected[i].first);
  }
}

TEST(VirtualClock, refuses_what_no_actor_here_may_ask_for) {
  VirtualClock clock;
  EXPECT_THROW(clock.set_ordinary_timeout({}, nullptr, caf::atom("x"), 1), Bug);
  EXPECT_THROW(clock.set_multi_timeout({}, nullptr, caf::atom("x"), 1), Bug);
  EXPECT_THROW(clock.set_request_timeout({}, nullptr, caf::make_message_id()), Bug);
}

using Ear = Door<Events, CloseLog>;
struct EarState {
  static inline const char* name = "ear";
  Ear::pointer self = nullptr;
  std::vector<Event>* kept = nullptr;
  void on(Events&& x) { *kept = std::move(x.events); }
  void on(const CloseLog&) { kept->clear(); }
};
Ear::behavior_type ear_behavior(Ear::stateful_pointer<EarState> self, std::vector<Event>* kept) {
  self->state.self = self;
  self->state.kept = kept;
  return behavior_of(Ear{}, self->state);
}

TEST(Doors, a_message_that_somebody_else_still_holds_is_copied_before_a_handler_takes_it_apart) {
  const auto world = make_virtual_world({}, text_disk());
  std::vector<Event> kept;
  const Ear ear = world->system().spawn(ear_behavior, &kept);
  const caf::message held = caf::make_message(Events{{Event{}, Event{}}});
  caf::anon_send(caf::actor_cast<caf::actor>(ear), held);
  world->drive([] { return false; });
  EXPECT_EQ(kept.size(), 2U);
  EXPECT_EQ(held.get_as<Events>(0).events.size(), 2U);
  tell_from_outside(ear, CloseLog{});
  world->drive([] { return false; });
  EXPECT_TRUE(kept.empty());
}

}  // namespace
}  // namespace stagecraft::test
