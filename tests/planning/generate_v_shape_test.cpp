// Two chunks per stage in a V: bubbles and memory of zb-v, v-half and v-min, and the squeeze.
#include <gtest/gtest.h>

#include <algorithm>

#include "planning/bug.hpp"
#include "planning/generate/squeeze.hpp"
#include "planning/generate/v_shape.hpp"
#include "tests/planning/schedule_vectors.hpp"

namespace stagecraft::pipelines {
namespace {

constexpr ScheduleKind blocks[] = {ScheduleKind::v_half, ScheduleKind::v_min};

SimulationResult run(ScheduleKind kind, std::uint32_t p, std::uint32_t m, const OperatorTimes& times) {
  const PipelineProblem problem = uniform_problem(shape_for(kind, p, m), times);
  SimulationResult result = replay(problem, generate(kind, problem));
  EXPECT_FALSE(result.hung) << name_of(kind) << ", " << to_text(problem.shape);
  return result;
}

// Idle time of the longest stage.
Duration stage_bubble(ScheduleKind kind, std::uint32_t p, std::uint32_t m, const OperatorTimes& times) {
  return stage_time(run(kind, p, m, times)) - 2 * m * times.sum();
}

TEST(ZeroBubbleV, the_longest_stage_idles_2_times_p_less_1_times_b_less_w) {
  for (const OperatorTimes& t :
       {OperatorTimes{10ms, 10ms, 10ms}, OperatorTimes{9ms, 10ms, 6ms}, OperatorTimes{10ms, 12ms, 5ms},
        OperatorTimes{10ms, 16ms, 10ms}, OperatorTimes{10ms, 20ms, 10ms}})
    for (const std::uint32_t p : {1U, 2U, 3U, 4U, 5U, 6U, 8U, 12U})
      for (const std::uint32_t m : {2 * p - 1, 2 * p, 3 * p + 1, 30U})
        ASSERT_EQ(stage_bubble(ScheduleKind::zb_v, p, m, t), 2 * (p - 1) * (t.backward_input - t.backward_weight))
            << p << " stages, " << m << " micro-batches";
}

TEST(ZeroBubbleV, idles_more_where_forwards_are_longer_than_backwards) {
  EXPECT_EQ(stage_bubble(ScheduleKind::zb_v, 2, 24, {12ms, 8ms, 4ms}), 12ms);
  EXPECT_EQ(stage_bubble(ScheduleKind::zb_v, 4, 24, {12ms, 8ms, 4ms}), 44ms);
  EXPECT_EQ(stage_bubble(ScheduleKind::zb_v, 8, 24, {12ms, 8ms, 4ms}), 108ms);
  EXPECT_EQ(stage_bubble(ScheduleKind::zb_v, 4, 3, {10ms, 10ms, 10ms}), 80ms) << "and with few micro-batches";
}

TEST(ZeroBubbleV, every_stage_holds_two_chunks_of_as_many_micro_batches_as_there_are_stages) {
  for (std::uint32_t p = 1; p <= 8; ++p)
    for (std::uint32_t m = 1; m <= 20; ++m) {
      const SimulationResult result = run(ScheduleKind::zb_v, p, m, {10ms, 10ms, 10ms});
      for (const StagePeaks& peaks : result.peaks) {
        ASSERT_LE(peaks.held, std::min(2 * m, 2 * p)) << p << " stages, " << m << " micro-batches";
        if (m >= 2 * p - 1) {
          ASSERT_EQ(peaks.held, 2 * p);
          ASSERT_EQ(peaks.activations, 2 * p);
        }
      }
    }
}

TEST(RepeatedBlock, holds_what_its_formula_says) {
  for (const std::uint32_t p : {1U, 2U, 3U, 4U, 5U, 6U, 7U, 8U, 16U}) {
    EXPECT_EQ(block_memory(ScheduleKind::v_half, p), 2 * ((p + 2) / 2));
    EXPECT_EQ(block_memory(ScheduleKind::v_min, p), 2 * ((p + 4) / 3));
    for (const ScheduleKind kind : blocks) {
      const PipelineProblem problem = uniform_problem(shape_for(kind, p, 6 * p), {1ms, 1ms, 1ms});
      const auto held = peaks_of(replay(problem, repeated_block(kind, problem.shape)), &StagePeaks::held);
      EXPECT_EQ(*std::max_element(held.begin(), held.end()), block_memory(kind, p)) << name_of(kind) << ", " << p;
    }
  }
}

TEST(Squeeze, never_makes_a_block_longer_or_larger) {
  for (const ScheduleKind kind : blocks)
    for (std::uint32_t p = 1; p <= 10; ++p)
      for (std::uint32_t m = 1; m <= 18; ++m) {
        const PipelineProblem problem = uniform_problem(shape_for(kind, p, m, 4), {1ms, 1ms, 1ms});
        SCOPED_TRACE(fmt::format("{}, {}", name_of(kind), to_text(problem.shape)));
        const Schedule plain = repeated_block(kind, problem.shape);
        const SimulationResult before = replay(problem, plain);
        const SimulationResult after = replay(problem, squeeze(problem.shape, plain, block_memory(kind, p)));
        ASSERT_FALSE(before.hung || after.hung);
        ASSERT_LE(after.makespan, before.makespan);
        ASSERT_LE(stage_time(after), stage_time(before));
        for (const StagePeaks& peaks : after.peaks) ASSERT_LE(peaks.held, block_memory(kind, p));
      }
}

TEST(Squeeze, leaves_at_eight_stages_half_and_two_thirds_of_the_bubble_of_1f1b) {
  for (const std::uint32_t m : {24U, 40U}) {
    EXPECT_EQ(stage_bubble(ScheduleKind::v_half, 8, m, {1ms, 1ms, 1ms}), 23ms);
    EXPECT_EQ(stage_bubble(ScheduleKind::v_min, 8, m, {1ms, 1ms, 1ms}), 27ms);
  }
}

// Two operators wait behind a forward whose input is late; a forward may pass them only while memory has a place.
TEST(Squeeze, lets_a_forward_pass_only_what_leaves_it_a_place) {
  const PipelineShape shape = shape_of(2, 2);
  const auto lists = parse_schedule("0F0 0B0 0W0 0F1 0B1 0W1\n1F0 1B0 1W0 1F1 1B1 1W1\n");
  EXPECT_EQ(to_text(squeeze(shape, *lists, 1)), to_text(*lists)) << "one place: nothing may pass";
  EXPECT_EQ(to_text(squeeze(shape, *lists, 2)), "0F0 0F1 0B0 0W0 0B1 0W1\n1F0 1B0 1W0 1F1 1B1 1W1\n");
}

TEST(Squeeze, says_where_a_list_that_can_not_run_stands_still) {
  const auto lists = parse_schedule("0B0 0F0 0W0\n");
  try {
    squeeze(shape_of(1, 1), *lists, 0);
    FAIL() << "0F0 may not pass 0B0: there is no place";
  } catch (const Bug& bug) {
    EXPECT_NE(std::string(bug.what()).find("stage 0 can't go on after 0 of 3"), std::string::npos) << bug.what();
  }
}

// How much longer the period of one micro-batch is than its operators.
Duration extra_per_micro_batch(ScheduleKind kind, std::uint32_t p, const OperatorTimes& t) {
  const auto longer = [&](std::uint32_t m) { return run(kind, p, m, t).makespan; };
  return (longer(60) - longer(40)) / 20 - 2 * t.sum();
}

TEST(RepeatedBlock, costs_more_per_micro_batch_where_operators_are_unequal) {
  for (const OperatorTimes& t :
       {OperatorTimes{10ms, 10ms, 10ms}, OperatorTimes{9ms, 10ms, 6ms}, OperatorTimes{10ms, 12ms, 5ms},
        OperatorTimes{10ms, 20ms, 10ms}, OperatorTimes{16ms, 8ms, 4ms}})
    for (const std::uint32_t p : {4U, 5U, 8U}) {
      const Duration f = t.forward, b = t.backward_input, w = t.backward_weight;
      EXPECT_EQ(extra_per_micro_batch(ScheduleKind::v_half, p, t),
                std::max({Duration{}, 2 * b - 2 * f - w, 2 * f - 2 * b - w}))
          << p << " stages, " << format(b);
      EXPECT_EQ(extra_per_micro_batch(ScheduleKind::v_min, p, t), 6 * std::max(f, b) - 2 * (f + b + w))
          << p << " stages, " << format(b);
    }
}

}  // namespace
}  // namespace stagecraft::pipelines
