// The section moves of a scenario: what it can say, and what is refused, with its place.
#include <gtest/gtest.h>

#include "config/describe_scenario.hpp"
#include "tests/config/examples.hpp"
#include "tests/config/same_scenario.hpp"
#include "tests/config/scenarios.hpp"

namespace stagecraft {
namespace {

const std::string topology_file = R"(version: 1
job: { name: moving, iterations: 20 }
model: { layers: 8 }
training: { micro_batches: 4 }
pipeline: { stages: 4, layout: [2, 2, 2, 2] }
recovery: { twins: true }
nodes:
  - name: n0
    devices:
      - { kind: emulated, count: 4, memory: 8GiB, costs: { forward: 1ms, backward_input: 1ms, backward_weight: 1ms } }
)";

std::string moving(const std::string& moves, const std::string& expect = "") {
  return "version: 1\nname: test\ntopology: t.yaml\nmoves: [" + moves + "]\n" +
         (expect.empty() ? "" : "expect: [" + expect + "]\n");
}
std::vector<Diagnostic> check(const std::string& text, const std::vector<std::string>& overrides = {}) {
  Scenario scenario = load_good(text);
  return check_against(scenario, load(topology_file, overrides));
}
void expect_wrong(const std::string& text, const std::string& place, const std::string& code,
                  const std::vector<std::string>& pieces, const std::vector<std::string>& overrides = {}) {
  expect_one(check(text, overrides), text, place, code, pieces);
}

TEST(ScenarioMoves, name_layers_and_a_stage_or_a_whole_layout) {
  const std::string text = moving(
      "{ at: { iteration: 5 }, layers: 2-3, to: { stage: 0 } }, { at: { iteration: 9 }, layers: 4, to: { stage: 1 } }, "
      "{ at: { iteration: 12 }, layout: [2, 2, 2, 2] }",
      "moved: { at_least: 3 }");
  const Scenario s = load_good(text);
  ASSERT_EQ(s.moves.size(), 3U);
  EXPECT_EQ(s.moves[0].iteration, Iteration{5});
  EXPECT_EQ(s.moves[0].layers, (LayerRun{2, 4}));
  EXPECT_EQ(s.moves[0].to, StageId{0});
  EXPECT_EQ(s.moves[1].layers, (LayerRun{4, 5}));
  EXPECT_EQ(s.moves[2].layout, (Layout{2, 2, 2, 2}));
  EXPECT_EQ(s.expect.at(0).at_least, 3U);
  EXPECT_EQ(lines_of(check(text)), "");
  expect_same(load_good(describe(s)), s);
}
TEST(ScenarioMoves, that_say_nothing_clear_are_refused) {
  const auto bad = [](const std::string& move, const std::string& place, const std::string& code) {
    expect_bad(moving(move), place, code);
  };
  bad("{ at: { iteration: 5 }, layers: 4-3, to: { stage: 0 } }", "4-3", "SC0116");
  bad("{ at: { iteration: 5 }, layers: all, to: { stage: 0 } }", "all", "SC0116");
  bad("{ at: { iteration: 5 }, layers: 1, layout: [1], to: { stage: 0 } }", "[1]", "SC0301");
  bad("{ at: { iteration: 5 }, layout: [1], to: { stage: 0 } }", "to: {", "SC0301");
  bad("{ at: { iteration: 5 } }", "{ at", "SC0301");
  bad("{ at: { iteration: 0 }, layers: 1, to: { stage: 0 } }", "0 }, lay", "SC0118");
  bad("{ at: { iteration: 5 }, layers: 1, to: { stage: 0 }, how: fast }", "how", "SC0114");
}
TEST(ScenarioMoves, that_can_not_be_made_are_refused) {
  const auto to_stage = [](const std::string& layers, int stage) {
    return moving(fmt::format("{{ at: {{ iteration: 5 }}, layers: {}, to: {{ stage: {} }} }}", layers, stage));
  };
  expect_wrong(to_stage("4", 0), "4, to", "SC0316",
               {"moves[0].layers", "can't go to stage 0", "the first of layers 2"});
  expect_wrong(to_stage("2", 4), "2, to", "SC0316", {"a stage from 0 to 3, got 4"});
  expect_wrong(to_stage("8", 3), "8, to", "SC0316", {"layers from 0 to 7"});
  expect_wrong(to_stage("2", 0), "2, to", "SC0316", {"recovery.twins: true"}, {"recovery.twins=false"});
  expect_wrong(moving("{ at: { iteration: 5 }, layout: [3, 2, 2] }"), "[3, 2, 2]", "SC0316",
               {"4 entries with 8 layers"});
  expect_wrong(moving("{ at: { iteration: 5 }, layout: [2, 2, 2, 2] }"), "[2, 2, 2, 2]", "SC0316", {"another layout"});
  expect_wrong(moving("{ at: { iteration: 19 }, layers: 2, to: { stage: 0 } }"), "19", "SC0316",
               {"job.iterations - 2 = 18"});
}
TEST(ScenarioMoves, are_looked_at_in_the_order_of_their_iterations) {
  const std::string first = "{ at: { iteration: 5 }, layers: 2, to: { stage: 0 } }",
                    then = "{ at: { iteration: 9 }, layers: 3, to: { stage: 0 } }";
  EXPECT_EQ(lines_of(check(moving(then + ", " + first))), "");
  expect_wrong(moving(then), "3, to", "SC0316", {"without others"});
}
TEST(ScenarioMoves, are_at_least_as_many_as_are_expected) {
  expect_wrong(moving("{ at: { iteration: 5 }, layers: 2, to: { stage: 0 } }", "moved: { at_least: 2 }"), "2 }]\n",
               "SC0316", {"at most 1", "got 2"});
}

}  // namespace
}  // namespace stagecraft
