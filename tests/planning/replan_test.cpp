// When measured times are worth a new plan, and what that may hold.
#include "planning/replan.hpp"

#include <gtest/gtest.h>

#include "tests/planning/pipelines.hpp"

namespace stagecraft::pipelines {
namespace {

const std::vector<OperatorTimes> even(4, {10ms, 10ms, 10ms});

std::vector<OperatorTimes> with_slow_forward(Duration forward) {
  std::vector<OperatorTimes> times = even;
  times[2].forward = forward;
  return times;
}

TEST(ReplanMachine, wants_a_plan_for_the_second_iteration_when_no_times_were_known) {
  ReplanMachine machine;
  EXPECT_FALSE(machine.step(with_slow_forward(90ms))) << "the first iteration pays for what happens once";
  EXPECT_TRUE(machine.step(even));
  for (int i = 0; i < 5; ++i) EXPECT_FALSE(machine.step(even));
}

TEST(ReplanMachine, wants_one_when_an_operator_has_moved_by_a_tenth_twice_in_a_row) {
  ReplanMachine machine(even);
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(machine.step(with_slow_forward(10900us)));
  EXPECT_FALSE(machine.step(with_slow_forward(13ms)));
  EXPECT_FALSE(machine.step(even)) << "once is an accident";
  EXPECT_FALSE(machine.step(with_slow_forward(13ms)));
  const auto why = machine.step(with_slow_forward(13ms));
  ASSERT_TRUE(why);
  EXPECT_EQ(*why, "F of chunk 2 takes 13 ms, planned were 10 ms");
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(machine.step(with_slow_forward(13ms))) << "that is the plan's own now";
  EXPECT_FALSE(machine.step(even));
  EXPECT_TRUE(machine.step(even)) << "and so is the way back";
}

PlanRequest request(const std::vector<OperatorTimes>& times) {
  PlanRequest request;
  request.shape = shape_of(4, 12);
  request.schedule = ScheduleKind::planned;
  request.dispatch = Dispatch::follow;
  request.times = times;
  return request;
}

TEST(Replan, a_plan_for_slower_operators_is_shorter_than_the_old_one_and_holds_no_more) {
  PlanRequest asked = request(even);
  asked.activations = {CapSpec::Kind::fixed, 5};
  const PipelinePlan present = make_plan(asked);
  std::vector<OperatorTimes> measured = even;
  measured[0] = {10ms, 10ms, 2ms};
  measured[1] = {25ms, 5ms, 5ms};
  measured[3] = {4ms, 12ms, 14ms};
  asked.limits = limits_of(present);
  const Replanned again = replan(asked, present, measured);
  EXPECT_LE(again.plan.forecast.makespan, again.before);
  EXPECT_EQ(again.pays, again.plan.forecast.makespan * 100 <= again.before * 99);
  EXPECT_EQ(again.plan.credits, present.credits);
  for (std::size_t s = 0; s < 4; ++s) {
    const StagePeaks& peaks = again.plan.forecast.peaks[s];
    EXPECT_LE(peaks.activations, present.stages[s].caps.activations.value_or(~0U));
    EXPECT_LE(peaks.held, present.stages[s].caps.held.value_or(~0U));
    EXPECT_LE(peaks.pending_weights, present.stages[s].caps.pending_weights.value_or(~0U));
  }
}

TEST(Replan, a_list_that_runs_in_order_limits_the_next_one_to_what_it_holds) {
  PlanRequest asked = request(even);
  asked.dispatch = Dispatch::in_order;
  const PipelinePlan first = make_plan(asked);
  asked.limits = limits_of(first);
  std::vector<OperatorTimes> measured = even;
  measured[1] = {25ms, 5ms, 5ms};
  const Replanned again = replan(asked, first, measured);
  for (std::size_t s = 0; s < 4; ++s) {
    EXPECT_LE(again.plan.forecast.peaks[s].activations, first.forecast.peaks[s].activations);
    EXPECT_LE(again.plan.forecast.peaks[s].held, first.forecast.peaks[s].held);
  }
}

TEST(Replan, nothing_pays_where_the_plan_is_as_good_as_can_be) {
  const PipelinePlan present = make_plan(request(even));
  const Replanned again = replan(request(even), present, even);
  EXPECT_FALSE(again.pays) << again.reason;
  EXPECT_NE(again.reason.find("instead of"), std::string::npos);
}

}  // namespace
}  // namespace stagecraft::pipelines
