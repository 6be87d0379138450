// Planning while a job runs: from what is measured, under a new epoch, without a change in the bits.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "actors/new_plan.hpp"
#include "model/job_plan.hpp"
#include "tests/actors/fixture.hpp"

namespace stagecraft::test {
namespace {

using namespace std::chrono_literals;

struct Planned {
  RunResult result;
  std::vector<std::string> decisions;  // of the planner
  std::uint32_t epochs = 0;
};

Planned run_planned(const Topology& topology, RunOptions options = {}, std::uint64_t seed = 1) {
  VirtualRun run;
  run.seed = seed;
  run.options = std::move(options);
  run.options.log_path = "/log";
  run.disk = std::make_shared<MemoryDisk>(text_disk());
  Planned logged;
  logged.result = run_virtual(topology, run);
  const auto log = run.disk->read("/log");
  std::istringstream lines(log.value());
  for (std::string line; std::getline(lines, line);) {
    const auto event = nlohmann::json::parse(line);
    if (event["event"] == "planned") logged.decisions.push_back(event["text"]);
    if (event.contains("epoch")) logged.epochs = std::max(logged.epochs, event["epoch"].get<std::uint32_t>());
  }
  return logged;
}

const std::vector<std::string> planned{"pipeline.stages=4", "pipeline.schedule=planned", "pipeline.dispatch=follow"};

std::vector<std::string> and_also(std::vector<std::string> overrides, const std::vector<std::string>& more) {
  overrides.insert(overrides.end(), more.begin(), more.end());
  return overrides;
}

TEST(Planning, a_job_without_a_cost_table_starts_reactive_and_is_planned_from_its_first_iterations) {
  const Topology topology = load(tiny_file(), planned);
  const JobPlan plan = plan_job(topology);
  EXPECT_TRUE(plan.replans);
  EXPECT_EQ(plan.replicas.front().stages.front().dispatch, Dispatch::reactive);
  const Planned logged = run_planned(topology);
  EXPECT_TRUE(sound(logged.result)) << logged.result.reason;
  ASSERT_FALSE(logged.decisions.empty());
  EXPECT_NE(logged.decisions.front().find("the first operators are measured"), std::string::npos);
  EXPECT_EQ(bits(logged.result), bits(run_virtual(load(tiny_file(), {}))));
}

// Costs of the four stages by number: emulated devices have one table each.
std::vector<std::string> slow_stage(const std::string& forward) {
  return {
      "nodes.0.devices=[{kind: emulated, count: 2, memory: 8GiB, costs: {forward: 10ms, backward_input: 10ms, "
      "backward_weight: 10ms}}, {kind: emulated, memory: 8GiB, costs: {forward: " +
          forward +
          ", backward_input: 10ms, backward_weight: 4ms}}, {kind: emulated, memory: 8GiB, costs: {forward: 10ms, "
          "backward_input: 10ms, backward_weight: 10ms}}]",
      "job.iterations=8", "pipeline.caps.activations=5"};
}

TEST(Planning, a_profile_that_has_moved_gets_a_new_plan_under_a_new_epoch_and_the_iterations_get_shorter) {
  const Topology believed = load(emulated_file(), and_also(planned, slow_stage("10ms")));
  const Topology real = load(emulated_file(), and_also(planned, slow_stage("16ms")));
  RunOptions options;
  options.planned_for = &believed;
  const Planned logged = run_planned(real, options);
  ASSERT_TRUE(sound(logged.result)) << logged.result.reason;
  ASSERT_EQ(logged.decisions.size(), 1U);
  EXPECT_NE(logged.decisions[0].find("F of chunk 2 takes 16 ms, planned were 10 ms"), std::string::npos)
      << logged.decisions[0];
  const auto& iterations = logged.result.iterations;
  EXPECT_NE(logged.decisions[0].find("in force"), std::string::npos) << logged.decisions[0];
  EXPECT_EQ(logged.epochs, 2U);
  EXPECT_LE(iterations.back().time * 100, iterations[1].time * 99) << "what pays is shorter";
  RunOptions known;
  const Planned from_the_start = run_planned(real, known);
  EXPECT_TRUE(from_the_start.decisions.empty()) << "nothing has moved";
  EXPECT_EQ(bits(logged.result), bits(from_the_start.result));
}

TEST(Planning, many_seeds_of_jobs_that_plan_while_they_run_end_with_the_same_bits) {
  const Topology topology = load(tiny_file(), and_also(planned, {"job.iterations=5", "pipeline.replicas=2"}));
  const std::string expected = bits(run_virtual(load(tiny_file(), {"job.iterations=5"})));
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    VirtualRun run;
    run.seed = seed;
    run.lateness = 30ms;
    const RunResult result = run_virtual(topology, run);
    ASSERT_TRUE(sound(result)) << "seed " << seed << ": " << result.reason;
    ASSERT_EQ(bits(result), expected) << "seed " << seed;
  }
}

TEST(NewPlan, says_all_that_changes_of_a_stage) {
  StagePlan present;
  present.chunks = {{1}};
  present.micro_batches = 2;
  StagePlan plan = present;
  plan.dispatch = Dispatch::follow;
  plan.order = parse_schedule("1F0 1B0 1W0 1F1 1B1 1W1")->operators[0];
  plan.paces.assign(6, Pace{5ms, 2ms, 1ms});
  plan.caps = {1, std::nullopt, 2};
  const StagePlan back = with(present, to_message({{2}, {3}}, plan));
  EXPECT_EQ(back.order, plan.order);
  EXPECT_EQ(back.paces, plan.paces);
  EXPECT_EQ(back.caps, plan.caps);
  EXPECT_EQ(back.dispatch, plan.dispatch);
  EXPECT_EQ(back.chunks, present.chunks);
}

}  // namespace
}  // namespace stagecraft::test
