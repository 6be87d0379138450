// describe() of scenarios: what it prints loads back to the same values.
#include "config/describe_scenario.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <map>

#include "tests/config/random_scenario.hpp"
#include "tests/config/same_scenario.hpp"
#include "tests/config/scenarios.hpp"

namespace stagecraft {
namespace {

using namespace std::chrono_literals;

void expect_round_trip(const Scenario& scenario) {
  const std::string text = describe(scenario);
  const auto again = load_scenario(scenario.file, text);
  ASSERT_TRUE(again.scenario) << lines_of(again.diagnostics) << text;
  EXPECT_EQ(lines_of(again.diagnostics), "");
  expect_same(*again.scenario, scenario);
  EXPECT_EQ(describe(*again.scenario), text);
}
std::string twice(const Scenario& scenario) { return describe(load_good(describe(scenario), scenario.file)); }

TEST(DescribeScenario, a_rich_file_and_one_of_defaults_load_back) {
  expect_round_trip(load_good(rich_scenario, "folder/sub/s.yaml"));
  const Scenario least = load_good("version: 1\nname: least\ntopology: t.yaml\n");
  expect_round_trip(least);
  EXPECT_EQ(describe(least), "version: 1\nname: \"least\"\ntopology: \"t.yaml\"\n") << "defaults are left out";
}
TEST(DescribeScenario, is_written_as_a_person_would) {
  const Scenario s = load_good(scenario_of(
      "{ id: slow, when: { event: ready, stage: 2, iteration: 4 }, do: delay, on: { link: [2, 1], direction: backward "
      "}, with: { mean: 1500us }, for: { iterations: 5 } }",
      "iteration_time: { during: slow, settle: 3, at_most: 1.10x }, never: [micro_batch_lost]",
      "calm: { iteration: 40, progress: { within: 10s } }\nseeds: 3..9\n"));
  EXPECT_EQ(describe(s, "first line\nsecond"),
            "# first line\n# second\nversion: 1\nname: \"test\"\ntopology: \"t.yaml\"\nseeds: 3..9\nfaults:\n"
            "  - { id: \"slow\", when: { event: ready, stage: 2, iteration: 4 }, do: delay, on: { link: [2, 1], "
            "direction: backward }, with: { mean: 1500us }, for: { iterations: 5 } }\n"
            "expect:\n  - { iteration_time: { during: \"slow\", settle: 3, at_most: 1.1x } }\n"
            "  - { never: [micro_batch_lost] }\ncalm: { iteration: 40, progress: { within: 10s } }\n");
}
TEST(DescribeScenario, a_comment_can_hold_anything) {
  Scenario s = load_good(rich_scenario);
  const std::string text = describe(s, "a: b\n\n{ \"c\tof\x7fseed 7: stagecraft scenario run\r\nfaults: []");
  expect_same(load_good(text), s);
}
TEST(DescribeScenario, no_text_is_taken_for_yaml) {
  Scenario s = load_good(rich_scenario);
  s.name = "\"quotes\" and \\ and # and: {";
  s.shows = "caf\u00e9 'x'";
  s.set = {"data.sources=[{ files: \"a\\\\b\", split: \"\\n\" }]", "a=b\n\tc"};
  s.set_at.resize(2);
  s.faults[0].id = "null";
  s.expect[0].fault = s.expect[1].fault = "null";
  expect_round_trip(s);
}
TEST(DescribeScenario, the_topology_is_named_from_the_folder_in_which_the_file_is_to_lie) {
  Scenario s = load_good(rich_scenario, "examples/scenarios/s.yaml");
  EXPECT_EQ(s.topology, "examples/gpt.yaml");
  s.file = "stagecraft-runs/failing/7.yaml";
  EXPECT_NE(describe(s).find("topology: \"../../examples/gpt.yaml\"\n"), std::string::npos) << describe(s);
  expect_round_trip(s);
  for (const char* file : {"/tmp/7.yaml", "../runs/7.yaml"}) {
    s.file = file;
    const Scenario again = load_good(describe(s), file);
    EXPECT_EQ(again.topology, std::filesystem::absolute("examples/gpt.yaml").string());
  }
}
TEST(DescribeScenario, a_changed_value_is_a_changed_text) {
  const Scenario s = load_good(rich_scenario);
  const std::string text = describe(s);
  std::map<std::string, Scenario> changed;
  const auto change = [&](const std::string& what) -> Scenario& { return changed.emplace(what, s).first->second; };
  change("offset").faults[4].offset = -4000001ns;
  change("mean").faults[0].mean += 1ns;
  change("iterations").faults[0].iterations = 21;
  change("stage").faults[1].on.stage = {1};
  change("micro-batch").faults[1].trigger.event.micro_batch.reset();
  change("at most").faults[2].trigger.at_most = usual_strikes;
  change("ratio").expect[0].ratio = std::nextafter(1.1, 2);
  change("tolerance").expect[3].tolerance = 1e-300;
  change("calm").calm.reset();
  change("seeds").last_seed = 1;
  change("world").world = ScenarioWorld::real;
  for (const auto& [what, other] : changed) {
    EXPECT_NE(describe(other), text) << what;
    if (what == "world") continue;  // that one can't have all of its faults
    EXPECT_EQ(twice(other), describe(other)) << what;
  }
}
TEST(DescribeScenario, five_hundred_random_scenarios_load_back) {
  std::map<std::string, int> seen;
  for (std::uint64_t seed = 0; seed < 500; ++seed) {
    const Scenario s = RandomScenario(seed).draw();
    expect_round_trip(s);
    if (HasFailure()) FAIL() << "seed " << seed << ":\n" << describe(s);
    for (const FaultSpec& f : s.faults) {
      ++seen[fmt::format("fault {}", name_of(f.kind))];
      ++seen[fmt::format("target {}", name_of(f.on.kind))];
      ++seen[fmt::format("trigger {}", int(f.trigger.kind))];
      if (f.trigger.kind == Trigger::Kind::event) ++seen[fmt::format("event {}", name_of(f.trigger.event.event))];
    }
    for (const Expectation& e : s.expect) {
      ++seen[fmt::format("expectation {}", name_of(e.kind))];
      for (const Invariant i : e.never) ++seen[fmt::format("invariant {}", name_of(i))];
    }
    ++seen[s.calm ? "calm" : "no calm"];
    ++seen[fmt::format("world {}", name_of(s.world))];
  }
  // Everything that the words can say was there.
  EXPECT_EQ(seen.size(), fault_kinds + target_kinds + 5 + run_events + expectation_kinds + invariants + 4);
}

}  // namespace
}  // namespace stagecraft
