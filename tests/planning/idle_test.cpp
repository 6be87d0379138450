// What each idle gap of a simulated pipeline waited for.
#include "planning/idle.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "planning/bug.hpp"
#include "tests/planning/follow_cases.hpp"
#include "tests/planning/schedule_vectors.hpp"

namespace stagecraft::pipelines {
namespace {

using testing::Contains;
using testing::ElementsAre;

std::vector<std::string> texts_of(const PipelineShape& shape, const IdleReport& report) {
  std::vector<std::string> texts;
  for (const IdleGap& gap : report.gaps) texts.push_back(to_text(shape, gap));
  return texts;
}

std::vector<std::string> replayed(const PipelineProblem& problem, std::string_view text) {
  const Schedule schedule = parse_schedule(text).value();
  return texts_of(problem.shape, explain_idle(problem, schedule, replay(problem, schedule)));
}

PipelineProblem two_stages(std::uint32_t micro_batches, const LinkCost& link = {}) {
  return uniform_problem(shape_of(2, micro_batches), {10ms, 10ms, 10ms}, link);
}

TEST(Idle, the_order_of_1f1b_waits_for_what_is_being_computed) {
  EXPECT_THAT(replayed(two_stages(2), "0F0 0F1 0X0 0X1\n1F0 1X0 1F1 1X1"),
              ElementsAre("stage 0 idles 20 ms from 20 ms: 0X0 waits for 1X0 of stage 1, which is not done",
                          "stage 0 idles 10 ms from 60 ms: 0X1 waits for 1X1 of stage 1, which is not done",
                          "stage 1 idles 10 ms from 0 ns: no micro-batch has got here yet",
                          "stage 1 idles 20 ms from 70 ms: nothing is left to run"));
}

TEST(Idle, the_part_of_a_wait_that_is_on_the_link_is_told_apart) {
  const auto texts = replayed(two_stages(2, {5ms, {}, {}}), "0F0 0F1 0X0 0X1\n1F0 1X0 1F1 1X1");
  EXPECT_THAT(texts, Contains("stage 0 idles 25 ms from 20 ms: 0X0 waits for 1X0 of stage 1, which is not done"));
  EXPECT_THAT(
      texts,
      Contains("stage 0 idles 5 ms from 45 ms: 0X0 waits for the result of 1X0 of stage 1, which is on the link"));
}

TEST(Idle, a_message_that_waits_for_the_server_of_its_link_is_on_the_link) {
  // Handed over at 10 and 20 ms, each on the link for 60 ms.
  EXPECT_THAT(replayed(two_stages(2, {{}, 60ms, {}}), "0F0 0F1 0X0 0X1\n1F0 1X0 1F1 1X1"),
              Contains("stage 1 idles 30 ms from 100 ms: 1F1 waits for the result of 0F1 of stage 0, which is on the "
                       "link"));
}

TEST(Idle, a_list_that_holds_a_stage_back_is_named) {
  // W of micro-batch 0 stands at the end of the list of stage 1, and is ready while 1F1 is not there.
  PipelineProblem problem = two_stages(2);
  problem.times[0].forward = 30ms;
  EXPECT_THAT(replayed(problem, "0F0 0F1 0B0 0B1 0W0 0W1\n1F0 1B0 1F1 1B1 1W0 1W1"),
              Contains("stage 1 idles 10 ms from 50 ms: 1W0 could have run, but 1F1 is planned first"));
}

TEST(Idle, a_device_that_its_own_send_holds_up_is_told_apart) {
  LinkCost link{{}, 40ms, {}};
  link.queue = 1;
  // 0F1 ends at 20 ms and finds the link taken until 50 ms.
  EXPECT_THAT(replayed(two_stages(3, link), "0F0 0F1 0F2 0X0 0X1 0X2\n1F0 1F1 1F2 1X0 1X1 1X2"),
              Contains("stage 0 idles 30 ms from 20 ms: the link has no place for the result of 0F1"));
}

TEST(Idle, a_cap_that_holds_back_what_is_ready_is_named) {
  const PipelineProblem problem = two_stages(2);
  SimulationInput input = input_of(problem.shape, reactive_plans(problem.shape));
  input.plans[0].caps.held = 1;
  EXPECT_THAT(texts_of(problem.shape, explain_idle(problem, input.plans, simulate(input))),
              Contains("stage 0 idles 20 ms from 10 ms: 0F1 is ready, but the caps hold it back until 0B0"));
}

TEST(Idle, caps_hold_a_list_back_too) {
  PipelineProblem problem = two_stages(2);
  const std::string_view text = "0F0 0X0 0F1 0X1\n1F0 1X0 1F1 1X1";
  EXPECT_THAT(replayed(problem, text),
              Contains("stage 0 idles 30 ms from 10 ms: 0F1 could have run, but 0X0 is planned first"));
  problem.caps.assign(2, {1U, {}, {}});
  EXPECT_THAT(replayed(problem, text),
              Contains("stage 0 idles 30 ms from 10 ms: 0F1 is ready, but the caps hold it back until 0X0"));
}

// The worked example with 20 ms on its first link: replay loses 80 ms per stage, and says to what.
TEST(Idle, the_table_shows_that_replay_loses_to_its_order_and_follow_does_not) {
  PipelineProblem problem = uniform_problem(shape_of(4, 12), {10ms, 10ms, 10ms});
  const Schedule schedule = generate(ScheduleKind::pipemorph, problem, {{7, 5, 3, 1}, false});
  const Planned planned{problem, schedule, replay(problem, schedule)};
  problem.forward_links[0].latency = problem.backward_links[0].latency = 20ms;
  EXPECT_EQ(to_text(explain_idle(problem, schedule, replay(problem, schedule))),
            "waits for       fill      order      drain       idle     share\n"
            "stage 0            -      80 ms          -      80 ms    18.2 %\n"
            "stage 1        30 ms      40 ms      10 ms      80 ms    18.2 %\n"
            "stage 2        40 ms      20 ms      20 ms      80 ms    18.2 %\n"
            "stage 3        50 ms          -      30 ms      80 ms    18.2 %\n"
            "all           120 ms     140 ms      60 ms     320 ms    18.2 %\n");
  const SimulationInput input = follow_input(planned, problem);
  EXPECT_EQ(to_text(explain_idle(problem, input.plans, simulate(input))),
            "waits for       fill      drain       idle     share\n"
            "stage 0            -      50 ms      50 ms    12.2 %\n"
            "stage 1        30 ms      20 ms      50 ms    12.2 %\n"
            "stage 2        40 ms      10 ms      50 ms    12.2 %\n"
            "stage 3        50 ms          -      50 ms    12.2 %\n"
            "all           120 ms      80 ms     200 ms    12.2 %\n");
}

void expect_complete(const PipelineProblem& problem, const std::vector<StagePlan>& plans,
                     const SimulationResult& result) {
  const IdleReport report = explain_idle(problem, plans, result);
  std::vector<Duration> busy(problem.shape.stages), idle(problem.shape.stages);
  for (const TimedOperator& timed : result.timeline) busy[timed.place.stage.value] += timed.end - timed.start;
  Instant seen{};
  StageId stage{};
  for (const IdleGap& gap : report.gaps) {
    if (gap.stage != stage) stage = gap.stage, seen = {};
    EXPECT_GE(gap.begin, seen) << to_text(problem.shape, gap);
    EXPECT_GT(gap.end, gap.begin) << to_text(problem.shape, gap);
    seen = gap.end;
    idle[gap.stage.value] += gap.end - gap.begin;
    const Dispatch dispatch = plans[stage.value].dispatch;
    if (dispatch == Dispatch::reactive) {
      EXPECT_NE(gap.reason, IdleReason::order) << to_text(problem.shape, gap);
    } else if (dispatch == Dispatch::in_order) {
      EXPECT_NE(gap.reason, IdleReason::cap) << to_text(problem.shape, gap);
    }
  }
  for (std::uint32_t s = 0; s < problem.shape.stages; ++s) EXPECT_EQ(busy[s] + idle[s], result.makespan) << s;
}

TEST(Idle, every_moment_that_a_stage_does_not_compute_has_one_reason) {
  Entropy draws(11, "idle");
  const auto between = [&](std::uint64_t low, std::uint64_t high) {
    return static_cast<std::uint32_t>(draws.between(low, high));
  };
  static constexpr ScheduleKind kinds[] = {ScheduleKind::one_f_one_b, ScheduleKind::interleaved, ScheduleKind::zb_h2,
                                           ScheduleKind::zb_v};
  for (int round = 0; round < 300; ++round) {
    const ScheduleKind kind = kinds[between(0, 3)];
    const PipelineShape shape = shape_for(kind, between(1, 6), between(0, 12), between(0, 2));
    PipelineProblem problem =
        uniform_problem(shape, {Duration(between(1, 9)), Duration(between(1, 9)), Duration(between(1, 9))},
                        {Duration(between(0, 9)), Duration(between(0, 9)), {}});
    for (LinkCost& link : problem.forward_links)
      if (between(0, 3) == 0) link.queue = between(1, 3), link.lanes = between(1, 2);
    const Schedule schedule = generate(kind, problem);
    const Planned planned{problem, schedule, replay(problem, schedule)};
    SCOPED_TRACE(fmt::format("round {}, {}: {}", round, name_of(kind), to_text(problem)));
    SimulationInput input = follow_input(planned, problem);
    expect_complete(problem, input.plans, simulate(input));
    expect_complete(problem, static_plans(shape, schedule), planned.forecast);
    input.plans = reactive_plans(shape);
    for (StagePlan& plan : input.plans) plan.caps.held = shape.chunks + between(0, 4);
    expect_complete(problem, input.plans, simulate(input));
    if (testing::Test::HasFailure()) FAIL() << "stopped at the first round that fails";
  }
}

TEST(Idle, refuses_a_run_that_hung) {
  const PipelineProblem problem = two_stages(1);
  const Schedule schedule = parse_schedule("0X0 0F0\n1F0 1X0").value();
  EXPECT_THROW((void)explain_idle(problem, schedule, replay(problem, schedule)), Bug);
}

}  // namespace
}  // namespace stagecraft::pipelines
