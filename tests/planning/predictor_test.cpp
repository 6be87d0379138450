#include "planning/predictor.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "planning/bug.hpp"
#include "tests/planning/pipelines.hpp"

namespace stagecraft {
namespace {

using namespace std::chrono_literals;
using pipelines::natural;
using pipelines::shape_of;

// The worked table: 16 layers of 1 ms, 32 micro-batches.
ScaleConfig worked(std::uint32_t stages, std::uint32_t chunks) {
  ScaleConfig config;
  config.stages = stages;
  config.chunks = chunks;
  config.layers = 16;
  config.global_batch = 32;
  config.layer_time = 1ms;
  return config;
}

ScaleRow row_of(std::uint32_t devices, Duration model, Duration profile) {
  ScaleRow row;
  row.devices = row.stages = devices;
  row.model = model;
  row.profile = profile;
  return row;
}

std::vector<RowVerdict> verdicts(const std::vector<ScaleRow>& rows) {
  std::vector<RowVerdict> result;
  for (const ScaleRow& row : rows) result.push_back(row.verdict);
  return result;
}

TEST(Predictor, the_worked_table_comes_out_exactly) {
  const std::map<std::uint32_t, int> one{{4, 140}, {5, 144}, {6, 111}, {7, 114}, {8, 78}, {10, 82}, {12, 86}, {16, 47}};
  const std::map<std::uint32_t, int> two{{4, 134}, {5, 136}, {6, 138}, {7, 140}, {8, 71}};
  for (const auto& [p, time] : one) EXPECT_EQ(predict(worked(p, 1)).time(), Duration{time * 1ms}) << p;
  for (const auto& [p, time] : two) EXPECT_EQ(predict(worked(p, 2)).time(), Duration{time * 1ms}) << p;
}

TEST(Predictor, the_worked_table_keeps_four_rows_with_their_speedups) {
  std::vector<ScaleRow> rows;
  for (const std::uint32_t p : {4, 5, 6, 7, 8, 10, 12, 16}) {
    const Duration time = predict(worked(p, 1)).time();
    rows.push_back(row_of(p, time, time));
    rows.back().work = 16 * 32 * 1ms;
  }
  std::vector<std::uint32_t> kept;
  std::vector<double> speedups;
  for (const ScaleRow& row : filter(rows, 0)) {
    if (row.verdict == RowVerdict::ok)
      kept.push_back(row.devices), speedups.push_back(row.speedup);
    else
      EXPECT_EQ(row.verdict, RowVerdict::dominated);
  }
  EXPECT_EQ(kept, (std::vector<std::uint32_t>{4, 6, 8, 16}));
  const double expected[] = {1, 1.2613, 1.7949, 2.9787};
  for (std::size_t i = 0; i < 4; ++i) EXPECT_NEAR(speedups.at(i), expected[i], 5e-5);
}

TEST(Predictor, padding_and_micro_batches_round_up) {
  ScaleConfig config = worked(6, 1);
  EXPECT_EQ(predict(config).units_per_chunk, 3U);
  EXPECT_EQ(predict(config).no_ops, 2U);
  config.extra_units = 3;
  EXPECT_EQ(predict(config).units_per_chunk, 4U);
  EXPECT_EQ(predict(config).no_ops, 5U);
  config.replicas = 3;
  EXPECT_EQ(predict(config).micro_batches, 11U);
  config.micro_batch = 2;
  EXPECT_EQ(predict(config).micro_batches, 6U);
}

TEST(Predictor, the_model_is_the_simulator_for_interleaved_pipelines_of_equal_layers) {
  const std::tuple<std::uint32_t, std::uint32_t, std::uint32_t> cases[] = {
      {4, 8, 1}, {4, 8, 2}, {4, 16, 4}, {8, 32, 2}, {2, 6, 3}, {4, 4, 2}, {8, 8, 4}, {3, 9, 1}, {5, 7, 1}};
  for (const auto& [p, m, v] : cases) {
    const PipelineShape shape = shape_of(p, m, v);
    const auto kind = v == 1 ? ScheduleKind::one_f_one_b : ScheduleKind::interleaved;
    PipelineProblem problem;
    problem.shape = shape;
    problem.times.assign(shape.total_chunks(), {1ms, 1ms, 1ms});
    ScaleConfig config;
    config.stages = p, config.chunks = v, config.layers = p * v, config.global_batch = m, config.layer_time = 3ms;
    const auto played = predict(problem, natural(kind, shape));
    ASSERT_TRUE(played);
    EXPECT_EQ(played->pipeline, predict(config).time()) << pipelines::to_text(shape);
    EXPECT_EQ(played->work, Duration{3ms * p * v * m});
  }
}

TEST(Predictor, unequal_stages_lie_between_their_bounds) {
  const Duration times[] = {6ms, 6ms, 3ms, 3ms};
  const UnequalBounds bounds = unequal_bounds(times, 8);
  EXPECT_EQ(bounds.lower, Duration{54ms});
  EXPECT_EQ(bounds.upper, Duration{60ms});
  PipelineProblem problem;
  problem.shape = shape_of(4, 8);
  problem.times = {{2ms, 4ms, 0ms}, {2ms, 4ms, 0ms}, {1ms, 2ms, 0ms}, {1ms, 2ms, 0ms}};
  const Schedule list = natural(ScheduleKind::one_f_one_b, problem.shape);
  EXPECT_EQ(predict(problem, list)->pipeline, Duration{56ms});
}

TEST(Predictor, an_order_that_can_not_proceed_has_no_prediction) {
  PipelineProblem problem;
  problem.shape = shape_of(1, 1);
  problem.times = {{1ms, 1ms, 1ms}};
  EXPECT_FALSE(predict(problem, *parse_schedule("0B0 0F0 0W0\n")));
  EXPECT_TRUE(predict(problem, *parse_schedule("0F0 0B0 0W0\n")));
}

TEST(Predictor, chunk_times_are_the_sums_of_their_units) {
  const OperatorTimes units[] = {{1ms, 0ms, 2ms}, {3ms, 4ms, 5ms}, {3ms, 4ms, 5ms}, {2ms, 2ms, 2ms}};
  const std::uint32_t counts[] = {2, 2};
  const auto chunks = chunk_times(units, counts);
  EXPECT_EQ(chunks[0], (OperatorTimes{4ms, 4ms, 7ms}));
  EXPECT_EQ(chunks[1], (OperatorTimes{5ms, 6ms, 7ms}));
  const std::uint32_t too_few[] = {2, 1};
  EXPECT_THROW(chunk_times(units, too_few), Bug);
}

TEST(Predictor, the_tail_of_the_slowest_stage_comes_on_top) {
  PipelineProblem problem;
  problem.shape = shape_of(2, 1);
  problem.times.assign(2, {1ms, 1ms, 0ms});
  const Schedule list = natural(ScheduleKind::one_f_one_b, problem.shape);
  TailModel model;
  model.replicas = 4;
  model.bandwidth = {1e9};
  model.step_ns_per_parameter = 2;
  model.scalars = 1ms;
  std::vector<StageTail> tails{{Bytes{2'000'000}, 0, 1ms}, {Bytes{6'000'000}, 1'000'000, 1ms}};
  EXPECT_EQ(reduction_time(tails[0], model), Duration{2ms});  // 2 * 3/4 * 2 MB at 1 GB/s, less 1 ms
  EXPECT_EQ(step_time(tails[1], model), Duration{2ms});
  EXPECT_EQ(predict(problem, list, tails, model)->stage_end, (std::vector<Duration>{4ms, 3ms}));
  EXPECT_EQ(predict(problem, list, tails, model)->time, Duration{3ms + 8ms + 2ms + 1ms});
  model.sharded_optimizer = true;
  EXPECT_EQ(step_time(tails[1], model), Duration{500us});
  tails[0].overlap = 1s;
  EXPECT_EQ(reduction_time(tails[0], model), Duration{0});
  model.replicas = 1;
  EXPECT_EQ(reduction_time(tails[1], model), Duration{0});
}

TEST(Predictor, a_stage_above_its_share_of_memory_rejects_the_row) {
  std::vector<ScaleRow> rows{row_of(1, 100ms, 100ms), row_of(2, 50ms, 50ms)};
  rows[1].capacity = Bytes{1000};
  rows[1].memory = {Bytes{920}, Bytes{921}};
  const auto judged = filter(rows, 0);
  EXPECT_EQ(verdicts(judged), (std::vector{RowVerdict::ok, RowVerdict::memory}));
  EXPECT_EQ(judged[1].reason, "stage 1 needs 921 B of 920 B allowed (R1)");
  rows[1].memory.back() = Bytes{920};
  EXPECT_EQ(filter(rows, 0)[1].verdict, RowVerdict::ok);
}

TEST(Predictor, paths_that_disagree_reject_the_row_unless_it_was_measured) {
  std::vector<ScaleRow> rows{row_of(1, 100ms, 100ms), row_of(2, 50ms, 59ms)};  // ln(59/50) = 0.166
  EXPECT_EQ(filter(rows, 0)[1].verdict, RowVerdict::deviation);
  rows[1].profile = 58ms;
  EXPECT_EQ(filter(rows, 0)[1].verdict, RowVerdict::ok);
  rows[1].profile = 30ms;
  rows[1].measured = 59ms;
  EXPECT_EQ(filter(rows, 0)[1].verdict, RowVerdict::ok);
  EXPECT_DOUBLE_EQ(filter(rows, 0)[1].speedup, 100.0 / 59);
}

TEST(Predictor, a_row_faster_than_its_own_operators_is_not_believed) {
  std::vector<ScaleRow> rows{row_of(1, 100ms, 100ms), row_of(2, 48ms, 48ms)};
  rows[1].work = 100ms;
  EXPECT_EQ(filter(rows, 0)[1].verdict, RowVerdict::work_bound);
  rows[1].work = 98ms;  // 0.97 * 49 = 47.5
  EXPECT_EQ(filter(rows, 0)[1].verdict, RowVerdict::ok);
}

TEST(Predictor, rows_are_judged_against_the_last_one_kept) {
  std::vector<ScaleRow> rows{row_of(4, 100ms, 100ms), row_of(4, 105ms, 105ms), row_of(5, 98ms, 101ms),
                             row_of(6, 99ms, 99ms),   row_of(8, 70ms, 70ms),   row_of(12, 71ms, 71ms)};
  const auto judged = filter(rows, 0);
  EXPECT_EQ(verdicts(judged), (std::vector{RowVerdict::ok, RowVerdict::not_best, RowVerdict::trend,
                                           RowVerdict::marginal, RowVerdict::ok, RowVerdict::dominated}));
  EXPECT_EQ(judged[3].reason, "1.010 times 4 devices, 1.125 needed (R5)");
  EXPECT_EQ(judged[2].reason, "faster than 4 devices by the model, slower by the profile (R2)");
  EXPECT_NE(to_text(judged).find("dominated: no faster than 8 devices, 70 ms (R6)"), std::string::npos);
}

TEST(Predictor, a_footprint_adds_up) { EXPECT_EQ((StageFootprint{{18}, {5}, {2}, {1}}.sum()), Bytes{26}); }

}  // namespace
}  // namespace stagecraft
