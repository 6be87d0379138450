#include "planning/delay.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "planning/bug.hpp"
#include "planning/random.hpp"
#include "planning/replay.hpp"
#include "tests/planning/pipelines.hpp"

namespace stagecraft {
namespace {

using namespace std::chrono_literals;
using pipelines::B;
using pipelines::F;
using pipelines::input_of;
using pipelines::reactive_plans;
using pipelines::shape_of;
using pipelines::W;
using pipelines::X;

#ifdef __SANITIZE_ADDRESS__  // ten times slower there
constexpr int random_pipelines = 150, bisections = 5;
#else
constexpr int random_pipelines = 1000, bisections = 20;
#endif

AlternatingPipeline alternating(std::vector<std::uint32_t> warmup, std::uint32_t micro_batches,
                                OperatorTimes times = {10ms, 10ms, 10ms}) {
  AlternatingPipeline pipeline;
  pipeline.times.assign(warmup.size(), times);
  pipeline.down.assign(warmup.size() - 1, Duration{});
  pipeline.up = pipeline.down;
  pipeline.warmup = std::move(warmup);
  pipeline.micro_batches = micro_batches;
  return pipeline;
}

AlternatingPipeline with_delay(AlternatingPipeline pipeline, std::size_t link, Duration each_way) {
  pipeline.down[link] = pipeline.up[link] = each_way;
  return pipeline;
}

// The order that the analysis is about, as lists.
Schedule lists_of(const AlternatingPipeline& pipeline) {
  Schedule schedule;
  for (std::uint32_t s = 0; s < pipeline.stages(); ++s) {
    std::vector<Operator> list;
    const std::uint32_t n = pipeline.micro_batches;
    std::uint32_t forwards = 0;
    const auto add = [&](OperatorKind kind, std::uint32_t j) { list.push_back({kind, ChunkId{s}, MicroBatch{j}}); };
    while (forwards < pipeline.warmup[s]) add(F, forwards++);
    for (std::uint32_t j = 0; j < n; ++j) {
      add(pipeline.weights == WeightWork::fused ? X : B, j);
      if (pipeline.weights == WeightWork::in_place) add(W, j);
      if (forwards < n) add(F, forwards++);
    }
    for (std::uint32_t j = 0; pipeline.weights == WeightWork::deferred && j < n; ++j) add(W, j);
    schedule.operators.push_back(std::move(list));
  }
  return schedule;
}

PipelineProblem in_lists(const AlternatingPipeline& pipeline) {
  PipelineProblem problem;
  problem.shape = shape_of(pipeline.stages(), pipeline.micro_batches);
  problem.times = pipeline.times;
  for (const Duration latency : pipeline.down) problem.forward_links.push_back({latency, {}, {}});
  for (const Duration latency : pipeline.up) problem.backward_links.push_back({latency, {}, {}});
  return problem;
}

SimulationResult simulated(const AlternatingPipeline& pipeline) {
  return replay(in_lists(pipeline), lists_of(pipeline));
}

// Unequal stages, warm-ups with a slack of `least` to 3 per link, each link slow with even chance.
AlternatingPipeline random_pipeline(Entropy& dice, std::uint32_t micro_batches, WeightWork weights,
                                    std::uint32_t least = 0) {
  AlternatingPipeline pipeline;
  const auto stages = static_cast<std::uint32_t>(dice.between(2, 6));
  const auto time = [&] { return Duration{static_cast<std::int64_t>(dice.between(5'000'000, 15'000'000))}; };
  for (std::uint32_t s = 0; s < stages; ++s) pipeline.times.push_back({time(), time(), time()});
  pipeline.warmup.assign(stages, 1);
  for (std::uint32_t s = stages - 1; s-- > 0;)
    pipeline.warmup[s] = pipeline.warmup[s + 1] + static_cast<std::uint32_t>(dice.between(least, 3));
  for (std::uint32_t k = 0; k + 1 < stages; ++k) {
    const bool slow = dice.below(2) == 1;
    const auto latency = [&] { return slow ? Duration{static_cast<std::int64_t>(dice.below(60'000'000))} : 0ms; };
    pipeline.down.push_back(latency());
    pipeline.up.push_back(latency());
  }
  pipeline.micro_batches = micro_batches;
  pipeline.weights = weights;
  return pipeline;
}

// Nanoseconds per micro-batch on the last stage over the second half, in whole rounds of the given tokens.
double simulated_period(const SimulationResult& result, const AlternatingPipeline& pipeline, std::uint32_t tokens) {
  const std::uint32_t n = pipeline.micro_batches, window = n / 2 / tokens * tokens;
  std::vector<Duration> ends(n);
  for (const TimedOperator& item : result.timeline) {
    const Operator& op = item.op;
    if (op.chunk.value + 1 == pipeline.stages() && (op.kind == B || op.kind == X))
      ends[op.micro_batch.value] = item.end;
  }
  return static_cast<double>((ends[n - 1] - ends[n - 1 - window]).count()) / window;
}

TEST(DelayAnalysis, the_worked_example_has_its_budgets) {
  const auto published = analyse_delay(alternating({7, 5, 3, 1}, 12));
  for (const LinkDelay& link : published.links) {
    EXPECT_EQ(link.slack, 2U);
    EXPECT_EQ(link.budget, Duration{20ms});  // 10 ms each way
    EXPECT_EQ(link.published_budget, Duration{20ms});
    EXPECT_TRUE(link.at_work_bound);
  }
  const auto planned = analyse_delay(with_delay(alternating({8, 5, 3, 1}, 12), 0, 20ms));
  EXPECT_EQ(planned.links[0].budget, Duration{40ms});
  EXPECT_EQ(planned.links[0].published_budget, Duration{40ms});
  EXPECT_EQ(published_budget(3, 10ms), Duration{20ms});
  EXPECT_EQ(planned.binding.period(), 20e6);
  EXPECT_EQ(planned.binding.first, planned.binding.last);
}

TEST(DelayAnalysis, one_forward_of_slack_leaves_no_budget_and_none_is_worse) {
  const auto one = analyse_delay(alternating({4, 3, 2, 1}, 12));
  for (const LinkDelay& link : one.links) EXPECT_EQ(link.budget, Duration{0});
  EXPECT_EQ(published_budget(1, 10ms), Duration{0});
  const auto none = analyse_delay(alternating({1, 1}, 12));
  EXPECT_EQ(none.binding.period(), 40e6);
  EXPECT_EQ(none.binding.last, StageId{1});
  EXPECT_FALSE(none.links[0].at_work_bound);
  EXPECT_EQ(none.links[0].budget, Duration{0});
  EXPECT_EQ(none.links[0].published_budget, Duration{-20ms});
}

TEST(DelayAnalysis, a_stage_that_is_no_bottleneck_leaves_more_budget_than_the_published_condition_sees) {
  auto pipeline = alternating({3, 1}, 100);
  pipeline.times[0] = {20ms, 20ms, 0ms};  // the bottleneck is above the link
  const LinkDelay link = analyse_delay(pipeline).links[0];
  EXPECT_EQ(link.published_budget, Duration{0});  // 2 * 20 - 40
  EXPECT_EQ(link.budget, Duration{60ms});         // 3 * 40 - 40 - 20
}

TEST(DelayAnalysis, weight_gradients_in_place_leave_the_budget_of_fixed_one_f_one_b_one_w) {
  for (const std::uint32_t slack : {2U, 3U}) {  // (3 * slack - 2) * t / 2 each way
    auto pipeline = alternating({1 + slack, 1}, 24);
    pipeline.weights = WeightWork::in_place;
    EXPECT_EQ(analyse_delay(pipeline).links[0].budget, Duration{(3 * slack - 2) * 10ms});
  }
}

TEST(DelayAnalysis, all_forwards_first_leaves_any_budget) {
  auto pipeline = with_delay(alternating({12, 12, 1}, 12), 0, 500ms);
  const auto analysis = analyse_delay(pipeline);
  EXPECT_FALSE(analysis.links[0].budget);
  EXPECT_FALSE(analysis.links[1].budget);
  EXPECT_EQ(analysis.binding.period(), 20e6);
  EXPECT_EQ(alternating_iteration(pipeline) - alternating_iteration(with_delay(pipeline, 0, 499ms)), Duration{2ms});
}

TEST(DelayAnalysis, both_directions_of_a_link_count_together) {
  auto one = alternating({5, 3, 1}, 60), other = one;
  one.down[1] = 50ms, one.up[1] = 10ms;
  other.down[1] = other.up[1] = 30ms;
  EXPECT_EQ(analyse_delay(one).binding.period(), analyse_delay(other).binding.period());
  EXPECT_EQ(analyse_delay(one).links[1].round_trip, Duration{60ms});
  EXPECT_EQ(analyse_delay(one).binding.time, Duration{100ms});
}

TEST(DelayAnalysis, adjacent_slow_links_form_one_longer_cycle) {
  // Each link alone is within its pair's room (3 * 20 - 40 = 20), together over a short middle stage they are not.
  auto pipeline = alternating({5, 3, 1}, 60);
  pipeline.times[1] = {2ms, 2ms, 2ms};
  pipeline = with_delay(with_delay(pipeline, 0, 18ms), 1, 18ms);
  const auto analysis = analyse_delay(pipeline);
  EXPECT_EQ(analysis.binding.first, StageId{0});
  EXPECT_EQ(analysis.binding.last, StageId{2});
  EXPECT_EQ(analysis.binding.tokens, 5U);
  EXPECT_EQ(analysis.binding.time, Duration{116ms});
  EXPECT_EQ(analysis.links[0].budget, Duration{20ms});  // 5 * 20 - 44 - 36
}

// The budget is the threshold: at it the period is unchanged, a nanosecond more and it grows.
TEST(DelayAnalysis, a_budget_is_exactly_where_the_period_starts_to_grow) {
  Entropy dice(3, "threshold");
  for (int i = 0; i < 500; ++i) {
    AlternatingPipeline pipeline = random_pipeline(dice, 200, i % 2 == 0 ? WeightWork::deferred : WeightWork::fused, 1);
    const std::size_t link = dice.below(pipeline.down.size());
    pipeline.down[link] = pipeline.up[link] = Duration{};
    const auto free = analyse_delay(pipeline);
    pipeline.down[link] = *free.links[link].budget;
    ASSERT_DOUBLE_EQ(analyse_delay(pipeline).binding.period(), free.binding.period());
    pipeline.down[link] += Duration{2};  // one for the rounding of a period that is a fraction
    ASSERT_GT(analyse_delay(pipeline).binding.period(), free.binding.period());
  }
}

// At equal assumptions: the other links are free and have a slack of at least one, as the published plans do.
TEST(DelayAnalysis, the_published_condition_never_allows_more_than_the_exact_budget) {
  Entropy dice(4, "published");
  int tighter = 0;
  for (int i = 0; i < 2000; ++i) {
    AlternatingPipeline pipeline = random_pipeline(dice, 400, WeightWork::deferred, 1);
    std::fill(pipeline.down.begin(), pipeline.down.end(), Duration{});
    pipeline.up = pipeline.down;
    for (const LinkDelay& link : analyse_delay(pipeline).links) {
      if (!link.at_work_bound) {
        ASSERT_LT(link.published_budget, Duration{});
        continue;
      }
      ASSERT_LE(link.published_budget, *link.budget);
      tighter += link.published_budget < *link.budget ? 1 : 0;
    }
  }
  EXPECT_GT(tighter, 1000);
}

TEST(DelayAnalysis, the_period_is_that_of_the_simulator_in_random_pipelines_with_several_slow_links) {
  Entropy dice(5, "period");
  int by_links = 0;
  for (int i = 0; i < random_pipelines; ++i) {
    const auto pipeline = random_pipeline(dice, 400, WeightWork::deferred);
    const auto analysis = analyse_delay(pipeline);
    const auto result = simulated(pipeline);
    ASSERT_FALSE(result.hung);
    const double period = simulated_period(result, pipeline, analysis.binding.tokens);
    ASSERT_NEAR(period / analysis.binding.period(), 1, 0.005) << to_text(analysis);
    by_links += analysis.binding.first != analysis.binding.last ? 1 : 0;
  }
  EXPECT_GT(by_links, random_pipelines / 3);
}

TEST(DelayAnalysis, the_exact_iteration_and_the_simulator_agree_to_the_nanosecond_wherever_the_weights_run) {
  Entropy dice(6, "iteration");
  for (int i = 0; i < 300; ++i) {
    const auto weights = static_cast<WeightWork>(i % 3);
    auto pipeline = random_pipeline(dice, static_cast<std::uint32_t>(dice.between(1, 30)), weights);
    for (std::uint32_t& x : pipeline.warmup) x = std::min(x, pipeline.micro_batches);
    ASSERT_EQ(alternating_iteration(pipeline), simulated(pipeline).makespan);
  }
}

TEST(DelayAnalysis, the_forecast_is_never_short_and_close_for_many_micro_batches) {
  Entropy dice(7, "forecast");
  double sum = 0, worst = 0;
  for (int i = 0; i < 300; ++i) {
    const auto pipeline = random_pipeline(dice, 400, static_cast<WeightWork>(i % 3));
    const auto exact = alternating_iteration(pipeline), forecast = analyse_delay(pipeline).forecast.total();
    ASSERT_GE(forecast, exact);
    const double over = static_cast<double>(forecast.count()) / static_cast<double>(exact.count()) - 1;
    sum += over, worst = std::max(worst, over);
  }
  EXPECT_LT(sum / 300, 0.005);
  EXPECT_LT(worst, 0.025);
}

TEST(DelayAnalysis, the_threshold_found_by_bisection_on_the_simulator_is_the_budget_within_the_grid) {
  Entropy dice(8, "bisection");
  const Duration grid = 1ms;
  for (int i = 0; i < bisections; ++i) {
    auto pipeline = random_pipeline(dice, 600, WeightWork::deferred, 2);
    for (std::uint32_t s = 0; s < pipeline.stages(); ++s) pipeline.times[s] = {12ms, 12ms, 0ms};
    const std::size_t link = dice.below(pipeline.down.size());
    std::fill(pipeline.down.begin(), pipeline.down.end(), 2ms);
    std::fill(pipeline.up.begin(), pipeline.up.end(), 1ms);
    const std::uint32_t tokens = pipeline.warmup[link] - pipeline.warmup[link + 1] + 1;
    const auto unchanged = [&](std::int64_t steps) {
      pipeline.down[link] = steps * grid, pipeline.up[link] = Duration{};
      return simulated_period(simulated(pipeline), pipeline, tokens) <= 24e6 * 1.0001;
    };
    std::int64_t low = 0, high = 256;
    ASSERT_TRUE(unchanged(low));
    ASSERT_FALSE(unchanged(high));
    while (high - low > 1) (unchanged((low + high) / 2) ? low : high) = (low + high) / 2;
    const LinkDelay analysed = analyse_delay(pipeline).links[link];
    ASSERT_GE(*analysed.budget, low * grid);
    ASSERT_LT(*analysed.budget, (low + 1) * grid);
  }
}

// What one more millisecond costs beyond the budget, in milliseconds.
double measured_slope(const AlternatingPipeline& pipeline, std::size_t link) {
  const Duration low = alternating_iteration(with_delay(pipeline, link, 60ms));
  const Duration high = alternating_iteration(with_delay(pipeline, link, 80ms));
  return static_cast<double>((high - low).count()) / 20e6;
}

TEST(DelayAnalysis, beyond_the_budget_a_link_costs_two_crossings_per_round) {
  EXPECT_EQ(cost_per_delay(12, 2), 8);
  EXPECT_EQ(cost_per_delay(24, 2), 16);
  EXPECT_EQ(cost_per_delay(24, 1), 24);
  EXPECT_EQ(cost_per_delay(24, 0), 48);
  EXPECT_EQ(cost_per_delay(12, 2, 1), 6);  // the last round's crossings hidden behind weight gradients
  // The last link of 4 and of 8 stages, by the exact recurrence.
  EXPECT_EQ(measured_slope(alternating({7, 5, 3, 1}, 12), 2), 8);
  const std::vector<std::uint32_t> h2{15, 13, 11, 9, 7, 5, 3, 1}, natural{8, 7, 6, 5, 4, 3, 2, 1};
  EXPECT_EQ(measured_slope(alternating(h2, 24, {9ms, 10ms, 6ms}), 6), 16);
  EXPECT_EQ(measured_slope(alternating(natural, 24, {9ms, 10ms, 6ms}), 6), 24);
  EXPECT_EQ(measured_slope(alternating({14, 12, 10, 8, 6, 4, 1, 1}, 24, {9ms, 10ms, 6ms}), 6), 48);
}

// Run-time choice made into a list: weight gradients stand in the gaps, and one crossing of the first link hides
// behind them.
TEST(DelayAnalysis, a_replayed_list_of_the_worked_example_costs_six_per_millisecond_on_the_first_link) {
  const std::vector<std::uint32_t> warmup{7, 5, 3, 1};
  const PipelineShape shape = shape_of(4, 12);
  SimulationInput input = input_of(shape, reactive_plans(shape));
  for (std::uint32_t s = 0; s < 4; ++s) input.plans[s].warmup = warmup[s];
  Schedule list;
  list.operators.resize(4);
  for (const TimedOperator& item : simulate(input).timeline) list.operators[item.op.chunk.value].push_back(item.op);
  const auto makespan = [&](Duration delay) {
    return replay(in_lists(with_delay(alternating(warmup, 12), 0, delay)), list).makespan;
  };
  EXPECT_EQ(makespan(0ms), Duration{390ms});
  EXPECT_EQ(makespan(10ms), Duration{400ms});
  EXPECT_EQ(makespan(20ms), Duration{440ms});
  EXPECT_EQ(makespan(60ms) - makespan(40ms), Duration{20 * 6ms});
}

TEST(DelayAnalysis, two_stages_cost_what_the_closed_form_says_within_and_beyond_the_budget) {
  for (const std::uint32_t slack : {1U, 2U, 3U, 4U}) {
    const auto free = alternating({1 + slack, 1}, 30);
    const Duration budget = published_budget(slack, 10ms);
    for (int c = 0; c <= 60; c += 5) {
      const Duration delay = c * 1ms, within = std::min(delay, budget);
      const auto added = alternating_iteration(with_delay(free, 0, delay)) - alternating_iteration(free);
      const auto rounds = static_cast<std::int64_t>(cost_per_delay(30, slack));
      EXPECT_EQ(added, 2 * within + rounds * (delay - within)) << "slack " << slack << ", " << c << " ms";
    }
  }
}

TEST(DelayAnalysis, warm_ups_that_could_not_run_are_refused_with_their_stage) {
  EXPECT_FALSE(check_warmup(alternating({7, 5, 3, 1}, 12)));
  EXPECT_NE(check_warmup(alternating({2, 3, 1}, 12))->find("stage 1 waits for 3"), std::string::npos);
  EXPECT_NE(check_warmup(alternating({13, 1}, 12))->find("12 micro-batches"), std::string::npos);
  EXPECT_TRUE(check_warmup(alternating({3, 2}, 12)));
  auto short_one = alternating({3, 1}, 12);
  short_one.warmup.pop_back();
  EXPECT_TRUE(check_warmup(short_one));
  EXPECT_THROW(analyse_delay(alternating({2, 3, 1}, 12)), Bug);
}

TEST(DelayAnalysis, one_stage_has_no_links_and_its_own_period) {
  const auto analysis = analyse_delay(alternating({1}, 5));
  EXPECT_TRUE(analysis.links.empty());
  EXPECT_EQ(analysis.forecast.total(), Duration{150ms});
}

TEST(DelayAnalysis, prints_the_period_and_a_line_per_link) {
  const std::string text = to_text(analyse_delay(with_delay(alternating({8, 5, 3, 1}, 12), 0, 20ms)));
  EXPECT_EQ(text.substr(0, text.find('\n')), "period 20 ms: the work of stage 0");
  EXPECT_NE(text.find("link 0-1: slack 3, round trip 40 ms, budget 40 ms (published 40 ms)\n"), std::string::npos);
}

}  // namespace
}  // namespace stagecraft
