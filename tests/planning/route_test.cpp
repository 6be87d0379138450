// Routes as costs, and when the automatic policy changes them.
#include "planning/route.hpp"

#include <gtest/gtest.h>

namespace stagecraft {
namespace {

using namespace std::chrono_literals;

const RouteSpec automatic{RoutePolicy::automatic, 2, 3, 1ms};

TEST(Route, a_direct_send_holds_a_place_and_a_delegated_one_is_staged) {
  const LinkCost wire{5ms, 7ms, {}};
  const LinkCost direct = over(Route::direct, automatic, wire), delegated = over(Route::delegated, automatic, wire);
  EXPECT_EQ(direct.queue, 2U);
  EXPECT_EQ(direct.lanes, 1U);
  EXPECT_EQ(direct.latency, 5ms);
  EXPECT_FALSE(delegated.queue);
  EXPECT_EQ(delegated.lanes, 3U);
  EXPECT_EQ(delegated.latency, 6ms);
  EXPECT_EQ(delegated.occupancy, 7ms);
  EXPECT_EQ(over(Route::direct, automatic, delegated).queue, 2U) << "and back";
}

TEST(Route, a_link_that_costs_nothing_by_the_usual_route_stays_free) {
  EXPECT_EQ(over(Route::delegated, RouteSpec{}, LinkCost{}), LinkCost{});
}

TEST(RouteMachine, delegates_take_over_when_the_device_is_held_up_for_longer_than_staging_takes) {
  RouteMachine machine(automatic);
  EXPECT_EQ(machine.route(), Route::direct);
  EXPECT_FALSE(machine.step({{}, 60ms})) << "a link that is slow and holds up nobody";
  EXPECT_FALSE(machine.step({1ms, 5ms})) << "staging takes as long";
  EXPECT_FALSE(machine.step({60ms, 65ms})) << "it may be an accident";
  EXPECT_FALSE(machine.step({{}, 5ms}));
  EXPECT_FALSE(machine.step({2ms, 10ms})) << "a tenth of a round trip does not count";
  EXPECT_FALSE(machine.step({2ms, 10ms}));
  EXPECT_FALSE(machine.step({2ms, 9ms}));
  const auto why = machine.step({2ms, 9ms});
  ASSERT_TRUE(why);
  EXPECT_NE(why->find("2 ms"), std::string::npos) << *why;
  EXPECT_EQ(machine.route(), Route::delegated);
}

TEST(RouteMachine, the_way_back_takes_three_iterations_as_good_as_the_best_healthy_one) {
  RouteMachine machine(automatic);
  machine.step({{}, 5ms});
  machine.step({1ms, 65ms});  // slow, but with slack enough
  for (int i = 0; i < 2; ++i) machine.step({40ms, 65ms});
  const RouteReading slow{{}, 66ms}, well{{}, 6ms}, almost{{}, 27ms};  // staging takes one, twenty count as none
  for (int i = 0; i < 9; ++i) EXPECT_FALSE(machine.step(slow));
  EXPECT_FALSE(machine.step(well));
  EXPECT_FALSE(machine.step(well));
  EXPECT_FALSE(machine.step(almost));
  EXPECT_FALSE(machine.step(well));
  EXPECT_FALSE(machine.step({{}, 26ms}));
  EXPECT_TRUE(machine.step(well));
  EXPECT_EQ(machine.route(), Route::direct);
  EXPECT_FALSE(machine.step({40ms, 65ms})) << "it begins as at first";
  EXPECT_TRUE(machine.step({40ms, 65ms}));
}

TEST(RouteMachine, a_link_that_was_never_healthy_stays_delegated) {
  RouteMachine machine(automatic);
  for (int i = 0; i < 2; ++i) machine.step({40ms, 65ms});
  EXPECT_EQ(machine.route(), Route::delegated);
  for (int i = 0; i < 9; ++i) EXPECT_FALSE(machine.step({{}, 1ms}));
}

TEST(RouteMachine, a_fixed_policy_never_changes) {
  for (const RoutePolicy policy : {RoutePolicy::direct, RoutePolicy::delegated}) {
    RouteMachine machine({policy, 1, 1, {}});
    for (int i = 0; i < 9; ++i) {
      EXPECT_FALSE(machine.step({i < 4 ? 60ms : 0ms, 5ms}));
    }
    EXPECT_EQ(machine.route(), policy == RoutePolicy::direct ? Route::direct : Route::delegated);
  }
}

}  // namespace
}  // namespace stagecraft
