// The straggler detector in a run: a link or a stage becomes slow by a fault of which nobody is told, and is named.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "actors/faults/fault_board.hpp"
#include "config/load_scenario.hpp"
#include "fixture.hpp"

namespace stagecraft::test {
namespace {

using Json = nlohmann::json;

// What the event log says of stragglers and of plans.
struct Told {
  RunResult result;
  std::vector<Json> stragglers, plans;
};

// A pipeline of four stages with twelve micro-batches of 10 ms operators, for sixty iterations, under one fault.
Told run_under(const std::string& fault, std::vector<std::string> overrides) {
  overrides.insert(overrides.end(), {"pipeline.stages=4", "training.micro_batches=12", "job.iterations=60",
                                     "pipeline.schedule=planned", "pipeline.dispatch=follow"});
  const Topology topology = load(emulated_file(), overrides);
  const auto scenario = load_scenario("s.yaml", "version: 1\nname: test\ntopology: t.yaml\nfaults: [" + fault + "]\n");
  for (const Diagnostic& d : scenario.diagnostics) ADD_FAILURE() << to_text(d);
  const auto disk = text_disk();
  const auto world = make_virtual_world({.seed = 1, .log_disk = disk}, disk);
  world->inject(std::make_shared<FaultBoard>(*scenario.scenario, topology, 1));
  RunOptions options;
  options.log_path = "/events.jsonl";
  Told told;
  told.result = run_job(*world, topology, options);
  EXPECT_TRUE(sound(told.result)) << told.result.reason;
  std::istringstream log(disk->read("/events.jsonl").value());
  for (std::string line; std::getline(log, line);) {
    const Json event = Json::parse(line);
    if (event.at("event") == "straggler") told.stragglers.push_back(event);
    if (event.at("event") == "planned") told.plans.push_back(event);
  }
  return told;
}

std::string text(const Json& event) { return event.at("text"); }
bool has(const Json& event, const std::string& part) { return text(event).find(part) != std::string::npos; }
std::string all(const std::vector<Json>& events) {
  std::string out;
  for (const Json& event : events) out += event.dump() + "\n";
  return out;
}

TEST(Stragglers, nobody_is_blamed_in_a_healthy_run) {
  const Told told = run_under("", {});
  EXPECT_TRUE(told.stragglers.empty()) << all(told.stragglers);
}

TEST(Stragglers, a_slow_link_is_named_with_its_direction_and_delay_and_planned_for) {
  const Told told = run_under(
      "{ id: slow, at: { iteration: 25 }, do: delay, on: { link: [1, 2], direction: forward }, with: { constant: 20ms "
      "}, "
      "for: { iterations: 20 } }",
      {});
  ASSERT_EQ(told.stragglers.size(), 2U) << all(told.stragglers);
  EXPECT_TRUE(has(told.stragglers[0], "link 1 forward start")) << text(told.stragglers[0]);
  EXPECT_TRUE(has(told.stragglers[0], "latency 20 ms since iteration 25")) << text(told.stragglers[0]);
  EXPECT_LE(told.stragglers[0].at("iteration"), 29);
  EXPECT_TRUE(has(told.stragglers[1], "link 1 forward end")) << text(told.stragglers[1]);
  EXPECT_LE(told.stragglers[1].at("iteration"), 49);
  EXPECT_TRUE(std::any_of(told.plans.begin(), told.plans.end(), [](const Json& e) {
    return has(e, "link 1 forward start");
  })) << all(told.plans);
}

TEST(Stragglers, a_slow_stage_is_named_and_no_link) {
  const Told told = run_under(
      "{ id: slow, at: { iteration: 25 }, do: slow, on: { stage: 2 }, with: { factor: 1.3 }, for: { iterations: 20 } }",
      {});
  ASSERT_EQ(told.stragglers.size(), 2U) << all(told.stragglers);
  EXPECT_TRUE(has(told.stragglers[0], "stage 2 start")) << text(told.stragglers[0]);
  EXPECT_TRUE(has(told.stragglers[1], "stage 2 end")) << text(told.stragglers[1]);
}

}  // namespace
}  // namespace stagecraft::test
