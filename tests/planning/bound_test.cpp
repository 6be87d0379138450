#include "planning/bound.hpp"

#include <gtest/gtest.h>

#include <chrono>

#include "planning/bug.hpp"
#include "planning/generate.hpp"
#include "planning/replay.hpp"
#include "tests/planning/small_pipelines.hpp"

namespace stagecraft {
namespace {

using namespace std::chrono_literals;

PipelineProblem equal_pipeline(std::uint32_t stages, std::uint32_t micro_batches, std::uint32_t chunks = 1) {
  PipelineProblem problem;
  problem.shape = {stages, chunks, MicroBatch{0}, micro_batches};
  problem.times.assign(problem.shape.total_chunks(), {10ms, 10ms, 10ms});
  return problem;
}

void expect_below_optima(const std::string& file, int least_tight) {
  int tight = 0;
  for (const small::Solved& solved : small::stored_optima(file)) {
    const Duration bound = lower_bound(solved.problem).makespan;
    EXPECT_LE(bound, solved.optimum) << solved.text;
    EXPECT_GE(bound * 1.0, solved.optimum * 0.948) << solved.text;
    tight += bound == solved.optimum;
  }
  EXPECT_GE(tight, least_tight);
}

TEST(LowerBounds, are_never_above_a_small_optimum_and_equal_in_93_percent) { expect_below_optima("optima.json", 145); }

TEST(LowerBounds, are_never_above_a_medium_optimum_and_equal_in_83_percent) {
  expect_below_optima("optima_medium.json", 80);
}

TEST(LowerBounds, name_the_critical_path_of_a_single_micro_batch) {
  const LowerBound bound = lower_bound(equal_pipeline(4, 1));
  EXPECT_EQ(bound.makespan, 90ms);
  EXPECT_EQ(bound.binding, Binding::critical_path);
  EXPECT_EQ(to_text(bound), "at least 90 ms: one micro-batch takes as long, there and back");
}

TEST(LowerBounds, name_the_work_of_the_slowest_stage) {
  PipelineProblem problem = equal_pipeline(4, 12);
  EXPECT_EQ(lower_bound(problem).makespan, 390ms);  // the last stage waits three forwards
  problem.times[2] = {12ms, 11ms, 10ms};
  const LowerBound bound = lower_bound(problem);
  EXPECT_EQ(bound.makespan, 20ms + 12 * 33ms);  // W of the last micro-batch hides the drain
  EXPECT_EQ(to_text(bound), "at least 416 ms: the work of stage 2 with its fill and drain");
}

TEST(LowerBounds, name_the_stage_whose_cap_binds) {
  PipelineProblem problem = equal_pipeline(2, 4);
  problem.caps.resize(2);
  problem.caps[0].held = 1;
  const LowerBound bound = lower_bound(problem);
  EXPECT_EQ(bound.work, 130ms);
  EXPECT_EQ(bound.makespan, 4 * 50ms);  // F, there and back, B, W, again and again
  EXPECT_EQ(bound.binding, Binding::memory);
  EXPECT_EQ(to_text(bound), "at least 200 ms: the memory of stage 0; without caps at least 130 ms");
}

TEST(LowerBounds, know_that_messages_queue) {
  PipelineProblem problem = equal_pipeline(2, 6);
  problem.forward_links = {{5ms, 50ms, {}}};
  problem.backward_links = {{}};
  EXPECT_EQ(lower_bound(problem).makespan, 10ms + 6 * 50ms + 5ms + 20ms + 20ms);
}

TEST(LowerBounds, of_a_fused_backward_are_those_of_the_published_schedules_at_equal_times) {
  for (const std::uint32_t stages : {1U, 2U, 4U, 7U}) {
    for (const std::uint32_t micro_batches : {1U, 3U, 8U, 20U}) {
      const PipelineProblem problem = equal_pipeline(stages, micro_batches);
      EXPECT_EQ(lower_bound(problem, BackwardForm::fused).makespan, (micro_batches + stages - 1) * 30ms);
    }
  }
}

TEST(LowerBounds, hold_for_the_published_schedules_with_any_chunks_times_and_links) {
  Entropy draws(11, "bound");
  for (int round = 0; round < 300; ++round) {
    const auto kind = std::array{ScheduleKind::gpipe, ScheduleKind::one_f_one_b, ScheduleKind::interleaved,
                                 ScheduleKind::bfs}[draws.below(4)];
    const bool one_chunk = kind == ScheduleKind::gpipe || kind == ScheduleKind::one_f_one_b;
    PipelineProblem problem;
    problem.shape = {static_cast<std::uint32_t>(draws.between(1, 5)),
                     one_chunk ? 1U : static_cast<std::uint32_t>(draws.between(1, 3)), MicroBatch{0},
                     static_cast<std::uint32_t>(draws.between(1, 9))};
    const auto ms = [&](std::uint64_t most) { return std::chrono::milliseconds(draws.between(0, most)); };
    for (std::uint32_t c = 0; c < problem.shape.total_chunks(); ++c) {
      problem.times.push_back({ms(9), ms(9), ms(9)});
      if (c > 0) problem.forward_links.push_back({ms(6), ms(4), {}});
      if (c > 0) problem.backward_links.push_back({ms(6), ms(4), {}});
    }
    const Schedule schedule = generate(kind, problem.shape, natural_warmup(kind, problem.shape));
    const SimulationResult played = replay(problem, schedule);
    for (const StagePeaks& peaks : played.peaks) problem.caps.push_back({peaks.activations, 1, peaks.held});
    EXPECT_LE(lower_bound(problem, BackwardForm::fused).makespan, played.makespan) << to_text(schedule);
    EXPECT_LE(lower_bound(problem).makespan, played.makespan) << to_text(schedule);
  }
}

TEST(LowerBounds, of_two_chunks_in_a_v_contain_the_work_and_the_way_there_and_back) {
  PipelineProblem problem = equal_pipeline(4, 10, 2);
  problem.shape.placement = Placement::v;
  EXPECT_EQ(lower_bound(problem).work, 10 * 60ms + 30ms);  // stage 3 waits three forwards
  problem.shape.micro_batches = 1;
  EXPECT_EQ(lower_bound(problem).makespan, 8 * 20ms + 10ms);
}

TEST(LowerBounds, do_not_overflow_with_hours_and_thousands_of_operators) {
  PipelineProblem problem = equal_pipeline(64, 512);
  problem.times.assign(64, {1h, 1h, 1h});
  problem.forward_links.assign(63, {1h, 1h, {}});
  problem.backward_links = problem.forward_links;
  EXPECT_GE(lower_bound(problem).makespan, 512 * 3h + 63 * 3h);
  problem.times.assign(64, {1'000'000h, 1h, 1h});
  EXPECT_THROW((void)lower_bound(problem), Bug);
}

TEST(LowerBounds, of_no_micro_batches_are_zero) { EXPECT_EQ(lower_bound(equal_pipeline(3, 0)).makespan, 0ns); }

TEST(ImpossibleCaps, say_which_stage_needs_how_much) {
  PipelineProblem problem = equal_pipeline(3, 4, 2);
  problem.caps.resize(3);
  EXPECT_FALSE(find_impossible_cap(problem));
  problem.caps[1].held = 2;
  problem.caps[2].activations = 1;
  const auto found = find_impossible_cap(problem);
  ASSERT_TRUE(found);
  EXPECT_EQ(to_text(*found),
            "stage 2 may hold 1 activations (F - B), but no schedule runs with fewer than 2: raise this cap to 2 or "
            "more");
  EXPECT_THROW((void)lower_bound(problem), Bug);
}

TEST(ImpossibleCaps, do_not_count_pending_weight_gradients_of_a_fused_backward) {
  PipelineProblem problem = equal_pipeline(2, 4);
  problem.caps.resize(2);
  problem.caps[1].pending_weights = 0;
  EXPECT_EQ(find_impossible_cap(problem), (ImpossibleCap{ImpossibleCap::Count::pending_weights, StageId{1}, 0, 1}));
  EXPECT_FALSE(find_impossible_cap(problem, BackwardForm::fused));
  EXPECT_EQ(lower_bound(problem, BackwardForm::fused).makespan, 150ms);
}

// Six delegates carry six messages at a time.
TEST(LowerBounds, are_below_what_a_link_with_several_lanes_needs) {
  PipelineProblem problem = equal_pipeline(4, 12);
  problem.forward_links.resize(3);
  problem.forward_links[1] = {{}, 60ms, {}};
  problem.forward_links[1].lanes = 6;
  problem.backward_links = problem.forward_links;
  const Schedule schedule = generate(ScheduleKind::gpipe, problem);
  EXPECT_LE(lower_bound(problem, BackwardForm::fused).makespan, replay(problem, schedule).makespan);
  problem.forward_links[1].lanes = problem.backward_links[1].lanes = 1;
  EXPECT_GE(lower_bound(problem).makespan, 12 * 60ms);
}

}  // namespace
}  // namespace stagecraft
