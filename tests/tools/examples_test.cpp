// The examples at published sizes and the worked example in real time: what their first lines and the guide promise.
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "tests/tools/command.hpp"

namespace stagecraft::test {
namespace {

using Json = nlohmann::json;

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values.at(values.size() / 2);
}

// One run of an example per seed from 1 to 3, and the same again.
std::vector<Json> three_seeds(const std::string& arguments) {
  const std::string line = "sim " + arguments + " --json --seeds 1..3";
  const Ran a = run(line, "2>/dev/null"), b = run(line, "2>/dev/null");
  EXPECT_EQ(a.code, 0) << a.output;
  EXPECT_EQ(a.output, b.output) << "a seed is a whole run, to the last event";
  std::vector<Json> runs;
  std::istringstream lines(a.output);
  for (std::string text; std::getline(lines, text);) runs.push_back(Json::parse(text));
  return runs;
}

TEST(Examples, at_published_sizes_are_planned_and_every_seed_has_the_same_weights_in_another_order) {
  const std::pair<std::string, double> examples[] = {
      {"gpt-7b-4-stages.yaml", 329}, {"gpt-14b-8-stages.yaml", 663}, {"gpt-140b-128-gpus.yaml", 1307.4}};
  for (const auto& [name, ms] : examples) {
    const Ran plan = run("plan " + example(name));
    EXPECT_EQ(plan.code, 0) << plan.output;
    EXPECT_TRUE(has(plan, "gap 0.0 %")) << plan.output;
    std::set<std::string> weights, orders;
    for (const Json& ran : three_seeds(example(name))) {
      EXPECT_DOUBLE_EQ(median(ran["iteration_ms"]), ms) << name;
      weights.insert(ran["weights_sha256"]);
      orders.insert(ran["event_hash"].dump());
    }
    EXPECT_EQ(weights.size(), 1U) << name;
    EXPECT_EQ(orders.size(), 3U) << name;
  }
}

TEST(Examples, the_plan_of_the_7b_example_bears_a_slow_last_link_and_a_static_order_does_not) {
  const std::string slow =
      example("gpt-7b-4-stages.yaml") + " --set 'links.overrides=[{between: [2, 3], latency: 30ms}]'";
  const std::string fixed = " --set pipeline.schedule=zb-h2 --set pipeline.dispatch=static";
  EXPECT_DOUBLE_EQ(median(three_seeds(slow).at(0)["iteration_ms"]), 345);
  EXPECT_DOUBLE_EQ(median(three_seeds(slow + fixed).at(0)["iteration_ms"]), 497);
}

TEST(Examples, the_worked_example_takes_390_ms_in_real_time_by_due_times_and_the_clock_is_told_too) {
  const std::string line = "run --fresh " + example("worked-example.yaml") + " --set job.iterations=5";
  const Ran json = run(line + " --json", "2>/dev/null");
  ASSERT_EQ(json.code, 0) << json.output;
  const Json ran = Json::parse(json.output);
  EXPECT_NEAR(median(ran["iteration_ms"]), 390, 3.9);
  EXPECT_EQ(ran["iteration_wall_ms"].size(), 5U);
  EXPECT_NE(ran["iteration_wall_ms"], ran["iteration_ms"]) << "the time by the clock is not corrected";
  const Ran text = run(line, "2>/dev/null");
  EXPECT_TRUE(has(text, " ms median (") && has(text, " by the clock, with the timers' lateness)")) << text.output;
}

}  // namespace
}  // namespace stagecraft::test
