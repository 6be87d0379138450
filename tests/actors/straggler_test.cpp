// The straggler detector in a run: a link or a stage becomes slow by a fault of which nobody is told, and is named.
#include <gtest/gtest.h>

#include "tests/actors/under_a_fault.hpp"

namespace stagecraft::test {
namespace {

// With a planner.
Told run_planned(const std::string& fault, std::vector<std::string> overrides) {
  overrides.insert(overrides.end(), {"pipeline.schedule=planned", "pipeline.dispatch=follow"});
  return run_under(fault, std::move(overrides));
}

TEST(Stragglers, nobody_is_blamed_in_a_healthy_run) {
  const Told told = run_planned("", {});
  EXPECT_TRUE(told.stragglers.empty()) << all(told.stragglers);
}

TEST(Stragglers, a_slow_link_is_named_with_its_direction_and_delay_and_planned_for) {
  const Told told = run_planned(
      "{ id: slow, at: { iteration: 25 }, do: delay, on: { link: [1, 2], direction: forward }, with: { constant: 20ms "
      "}, "
      "for: { iterations: 20 } }",
      {});
  ASSERT_EQ(told.stragglers.size(), 2U) << all(told.stragglers);
  EXPECT_TRUE(has(told.stragglers[0], "link 1 forward start")) << text(told.stragglers[0]);
  EXPECT_TRUE(has(told.stragglers[0], "latency 20 ms since iteration 25")) << text(told.stragglers[0]);
  EXPECT_LE(told.stragglers[0].at("iteration"), 29);
  EXPECT_TRUE(has(told.stragglers[1], "link 1 forward end")) << text(told.stragglers[1]);
  EXPECT_LE(told.stragglers[1].at("iteration"), 49);
  EXPECT_TRUE(std::any_of(told.plans.begin(), told.plans.end(), [](const Json& e) {
    return has(e, "link 1 forward start");
  })) << all(told.plans);
}

TEST(Stragglers, a_slow_stage_is_named_and_no_link) {
  const Told told = run_planned(
      "{ id: slow, at: { iteration: 25 }, do: slow, on: { stage: 2 }, with: { factor: 1.3 }, for: { iterations: 20 } }",
      {});
  ASSERT_EQ(told.stragglers.size(), 2U) << all(told.stragglers);
  EXPECT_TRUE(has(told.stragglers[0], "stage 2 start")) << text(told.stragglers[0]);
  EXPECT_TRUE(has(told.stragglers[1], "stage 2 end")) << text(told.stragglers[1]);
}

}  // namespace
}  // namespace stagecraft::test
