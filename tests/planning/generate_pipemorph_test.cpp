// The published planner for slow links: its warm-ups, its clip, its lists, and what replaying them costs.
#include <gtest/gtest.h>

#include "planning/generate/pipemorph.hpp"
#include "tests/planning/schedule_vectors.hpp"

namespace stagecraft::pipelines {
namespace {

using Warmup = std::vector<std::int64_t>;

// Equal operators of 10 ms; the first link slow.
PipelineProblem slow_first_link(std::uint32_t p, std::uint32_t m, Duration delay) {
  PipelineProblem problem = uniform_problem(shape_of(p, m), {10ms, 10ms, 10ms});
  problem.forward_links[0].latency = problem.backward_links[0].latency = delay;
  return problem;
}

Duration makespan(const PipelineProblem& problem, const Schedule& schedule) {
  const SimulationResult result = replay(problem, schedule);
  EXPECT_FALSE(result.hung);
  return result.makespan;
}

std::vector<std::uint32_t> activations(const PipelineProblem& problem) {
  return peaks_of(replay(problem, generate(ScheduleKind::pipemorph, problem)), &StagePeaks::activations);
}

TEST(Pipemorph, spreads_the_places_of_the_first_stage_evenly_over_the_links) {
  EXPECT_EQ(spread_warmup(4, 7), (Warmup{7, 5, 3, 1}));
  EXPECT_EQ(spread_warmup(4, 8), (Warmup{8, 5, 3, 1})) << "the first link gets what is left over";
  EXPECT_EQ(spread_warmup(4, 12), (Warmup{12, 8, 4, 1}));
  EXPECT_EQ(spread_warmup(4, 2), (Warmup{2, 1, 1, 1}));
  EXPECT_EQ(spread_warmup(1, 5), (Warmup{1}));
}

TEST(Pipemorph, gives_the_worked_example_its_warmups) {
  for (const auto& [delay, first] : {std::pair(0ms, 7), std::pair(10ms, 7), std::pair(15ms, 8), std::pair(20ms, 8),
                                     std::pair(30ms, 9), std::pair(40ms, 9)})
    EXPECT_EQ(delayed_warmup(slow_first_link(4, 12, delay)), (Warmup{first, 5, 3, 1})) << delay.count();
}

TEST(Pipemorph, counts_both_ways_over_a_link_and_the_next_stage_as_the_period) {
  PipelineProblem problem = uniform_problem(shape_of(2, 20), {10ms, 10ms, 10ms});
  problem.forward_links[0] = {20ms, 5ms, {}};
  problem.backward_links[0].latency = 16ms;
  EXPECT_EQ(delayed_warmup(problem), (Warmup{5, 1})) << "ceil(61 / 20)";
  problem.times[1] = {4ms, 4ms, 4ms};
  EXPECT_EQ(delayed_warmup(problem), (Warmup{9, 1})) << "ceil(61 / 8)";
}

TEST(Pipemorph, clips_as_printed_down_to_no_slack_and_below) {
  const auto equal = [](std::uint32_t p, std::uint32_t m) {
    return delayed_warmup(uniform_problem(shape_of(p, m), {10ms, 10ms, 10ms}));
  };
  EXPECT_EQ(equal(8, 16), Warmup(8, 1));
  EXPECT_EQ(equal(8, 17), (Warmup{8, 7, 6, 5, 4, 3, 2, 1}));
  EXPECT_EQ(equal(8, 12), (Warmup{-27, -23, -19, -15, -11, -7, -3, 1}));
}

TEST(Pipemorph, still_runs_where_the_clip_leaves_no_warmup) {
  for (const std::uint32_t m : {1U, 7U, 12U, 16U}) {
    const PipelineProblem problem = uniform_problem(shape_of(8, m), {10ms, 10ms, 10ms});
    const SimulationResult result = replay(problem, generate(ScheduleKind::pipemorph, problem));
    EXPECT_FALSE(result.hung);
    for (const auto& order : generate(ScheduleKind::pipemorph, problem).operators)
      EXPECT_TRUE(order.size() > 1 && order[0].kind == F && order[1].kind == B);
  }
}

TEST(Pipemorph, replays_the_worked_example_planned_with_the_delay) {
  for (const auto& [delay, expected] : {std::pair(0ms, 390ms), std::pair(10ms, 400ms), std::pair(15ms, 405ms),
                                        std::pair(20ms, 410ms), std::pair(30ms, 420ms), std::pair(40ms, 430ms)}) {
    const PipelineProblem problem = slow_first_link(4, 12, delay);
    EXPECT_EQ(makespan(problem, generate(ScheduleKind::pipemorph, problem)), expected) << delay.count();
  }
}

TEST(Pipemorph, replays_the_worked_example_planned_without_the_delay) {
  const Schedule schedule = generate(ScheduleKind::pipemorph, slow_first_link(4, 12, 0ms));
  for (const auto& [delay, expected] : {std::pair(0ms, 390ms), std::pair(10ms, 400ms), std::pair(15ms, 410ms),
                                        std::pair(20ms, 440ms), std::pair(30ms, 500ms), std::pair(40ms, 560ms)})
    EXPECT_EQ(makespan(slow_first_link(4, 12, delay), schedule), expected) << delay.count();
}

TEST(Pipemorph, defers_every_w_in_the_worked_example) {
  const PipelineProblem problem = slow_first_link(4, 12, 0ms);
  const SimulationResult result = replay(problem, generate(ScheduleKind::pipemorph, problem));
  EXPECT_EQ(peaks_of(result, &StagePeaks::activations), (std::vector<std::uint32_t>{7, 5, 3, 1}));
  EXPECT_EQ(peaks_of(result, &StagePeaks::held), std::vector<std::uint32_t>(4, 12));
}

TEST(Pipemorph, spreads_memory_only_while_no_link_is_known_to_be_slow) {
  PipelineProblem problem = slow_first_link(4, 24, 0ms);
  problem.caps.assign(4, {10U, {}, {}});
  EXPECT_EQ(activations(problem)[0], 10U);
  problem.forward_links[0].latency = problem.backward_links[0].latency = 20ms;
  EXPECT_EQ(activations(problem), (std::vector<std::uint32_t>{8, 5, 3, 1})) << "memory isn't looked at";
}

// Made without a delay, the list uses up the slack that its warm-ups promise: 770 ms would do at 20 ms.
TEST(Pipemorph, eats_slack_beyond_two_when_it_plans_without_the_delay) {
  for (const auto& [places, expected] : {std::pair(10U, 860ms), std::pair(13U, 840ms), std::pair(16U, 820ms)}) {
    PipelineProblem problem = slow_first_link(4, 24, 0ms);
    problem.caps.assign(4, {places, {}, {}});
    const Schedule schedule = generate(ScheduleKind::pipemorph, problem);
    EXPECT_EQ(makespan(slow_first_link(4, 24, 20ms), schedule), expected) << places;
  }
  const PipelineProblem known = slow_first_link(4, 24, 20ms);
  EXPECT_EQ(makespan(known, generate(ScheduleKind::pipemorph, known, {{10, 7, 4, 1}, false})), 770ms);
}

TEST(Pipemorph, raises_a_warmup_below_that_of_the_next_stage) {
  const PipelineProblem problem = uniform_problem(shape_of(3, 6), {10ms, 10ms, 10ms});
  EXPECT_EQ(generate(ScheduleKind::pipemorph, problem, {{1, 3, 99}, false}),
            generate(ScheduleKind::pipemorph, problem, {{6, 6, 6}, false}));
}

TEST(Pipemorph, picks_by_what_is_there_with_unequal_operators) {
  PipelineProblem problem = uniform_problem(shape_of(2, 3), {10ms, 10ms, 10ms});
  problem.times[1] = {20ms, 5ms, 5ms};
  EXPECT_EQ(to_text(generate(ScheduleKind::pipemorph, problem, {{2, 1}, false})),
            "0F0 0F1 0B0 0F2 0W0 0B1 0W1 0B2 0W2\n"
            "1F0 1B0 1F1 1B1 1F2 1B2 1W0 1W1 1W2\n");
}

}  // namespace
}  // namespace stagecraft::pipelines
