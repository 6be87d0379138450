// Delays that change while iterations run: the courses they take, and what the systems make of them.
#include "planning/reproduce/changing.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <vector>

#include "planning/replay.hpp"
#include "planning/reproduce/fixed_costs.hpp"
#include "planning/reproduce/published.hpp"

namespace stagecraft::reproduce {
namespace {

using namespace std::chrono_literals;

std::vector<double> sorted_ms(const DelayCourse& course) {
  std::vector<double> values;
  for (const Hold& hold : course) values.push_back(static_cast<double>(hold.delay.count()) / 1e6);
  std::sort(values.begin(), values.end());
  return values;
}

double mean(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return sum / static_cast<double>(values.size());
}

TEST(DelayQuantiles, have_the_median_the_mean_and_the_99th_percentile_that_were_asked_for) {
  const DelayQuantiles quantiles(13.0, 22.3, 79.3, 90);
  EXPECT_DOUBLE_EQ(quantiles.at(0.5), 13.0);
  EXPECT_DOUBLE_EQ(quantiles.at(0.99), 79.3);
  EXPECT_DOUBLE_EQ(quantiles.at(1), 90);
  EXPECT_DOUBLE_EQ(quantiles.at(0), quantiles.least());
  EXPECT_GE(quantiles.least(), 0);
  double sum = 0;
  constexpr int steps = 100'000;
  for (int i = 0; i < steps; ++i) sum += quantiles.at((i + 0.5) / steps);
  EXPECT_NEAR(sum / steps, 22.3, 0.01);
}

TEST(Courses, meet_the_published_percentiles_in_the_long_run) {
  const DelayQuantiles quantiles(production_median_ms, production_mean_ms, production_p99_ms, 90);
  const auto values = sorted_ms(quantile_course(7, "test", quantiles, {50ms, 200ms}, 3h));
  ASSERT_GT(values.size(), 80'000U);
  EXPECT_NEAR(values[values.size() / 2], production_median_ms, 0.3);
  EXPECT_NEAR(values[values.size() * 99 / 100], production_p99_ms, 2);
  EXPECT_NEAR(mean(values), production_mean_ms, 0.3);
}

TEST(Courses, of_a_normal_distribution_have_its_mean_and_deviation_and_are_never_negative) {
  const auto values = sorted_ms(normal_course(7, "test", 30ms, 10ms, {50ms, 100ms}, 1h));
  EXPECT_NEAR(mean(values), 30, 0.2);
  double squares = 0;
  for (const double value : values) squares += (value - 30) * (value - 30);
  EXPECT_NEAR(std::sqrt(squares / static_cast<double>(values.size())), 10, 0.2);
  EXPECT_GE(values.front(), 0);
}

TEST(Courses, hold_each_delay_as_long_as_they_are_told_and_hang_on_the_seed_and_the_name) {
  const HoldTimes holds{50ms, 100ms};
  const DelayCourse course = normal_course(1, "a", 30ms, 10ms, holds, 60s);
  EXPECT_EQ(course.front().from, 0ms);
  for (std::size_t i = 1; i < course.size(); ++i) {
    EXPECT_GE(course[i].from - course[i - 1].from, holds.shortest);
    EXPECT_LE(course[i].from - course[i - 1].from, holds.longest);
  }
  const auto delay = [&](std::uint64_t seed, const char* name) {
    return normal_course(seed, name, 30ms, 10ms, holds, 1s).front().delay;
  };
  EXPECT_EQ(delay(1, "a"), course.front().delay);
  EXPECT_NE(delay(2, "a"), course.front().delay);
  EXPECT_NE(delay(1, "b"), course.front().delay);
  EXPECT_EQ(delay_at(course, course[3].from), course[3].delay);
  EXPECT_EQ(delay_at(course, course[3].from - 1ns), course[2].delay);
}

// 7B, all links; `delays` in turn, each for so long.
ChangingSetting changing_pipeline(Memory memory, Injection injection, std::uint64_t seed, const HoldTimes& holds) {
  ChangingSetting changing;
  changing.setting = setting_of(published_model(ModelSize::b7), memory);
  changing.setting.injection = injection;
  changing.setting.delegates = 3;
  changing.span = 10s;
  changing.beliefs = {20ms, 30ms, 40ms};
  for (std::uint32_t link = 0; link < 3; ++link) {
    changing.setting.slow.push_back({link, {}});
    const std::string name = "link " + std::to_string(link);
    changing.courses.push_back(normal_course(seed, name, 30ms, 10ms, holds, 70s));
    changing.past.push_back(normal_course(seed, name + " past", 30ms, 10ms, holds, 60s));
  }
  return changing;
}

TEST(ChangingDelays, a_delay_that_never_changes_is_a_slow_link) {
  for (const Injection injection : {Injection::latency, Injection::occupancy})
    for (const System system : {System::one_f_one_b, System::zero_bubble, System::delegated, System::pipemorph,
                                System::readiness, System::follow}) {
      ChangingSetting changing = changing_pipeline(Memory::free, injection, 1, {50ms, 100ms});
      changing.courses.assign(3, {{0ms, 20ms}});
      Setting still = changing.setting;
      for (SlowLink& slow : still.slow) slow.delay = 20ms;
      EXPECT_DOUBLE_EQ(play_changing(changing, system, {}).mean_ms,
                       static_cast<double>(play(still, system).makespan.count()) / 1e6)
          << name_of(system) << " " << name_of(injection);
    }
}

TEST(ChangingDelays, following_is_faster_than_planning_anew_for_delays_that_are_gone_by_then) {
  for (const Memory memory : {Memory::equal, Memory::free})
    for (const Injection injection : {Injection::latency, Injection::occupancy})
      for (const std::uint64_t seed : {1U, 2U}) {
        const ChangingSetting changing = changing_pipeline(memory, injection, seed, {50ms, 100ms});
        const double ours = play_changing(changing, System::ours, {}).mean_ms,
                     anew = play_changing(changing, System::pipemorph, {}).mean_ms,
                     future = play_changing(changing, System::hindsight, {}).mean_ms;
        EXPECT_LT(ours, anew) << name_of(memory) << " " << name_of(injection) << " " << seed;
        EXPECT_LT(ours, 1.05 * future) << name_of(memory) << " " << name_of(injection) << " " << seed;
      }
}

TEST(ChangingDelays, iterations_fill_the_span_with_their_fixed_cost) {
  ChangingSetting changing = changing_pipeline(Memory::equal, Injection::latency, 1, {50ms, 100ms});
  changing.courses.assign(3, {{0ms, 0ms}});
  const ChangingOutcome outcome = play_changing(changing, System::delegated, 171ms);
  EXPECT_DOUBLE_EQ(outcome.mean_ms, 329 + 171);
  EXPECT_EQ(outcome.iterations, 20U);
  EXPECT_EQ(outcome.held, 7U);
}

}  // namespace
}  // namespace stagecraft::reproduce
