// Scenarios against a topology: what is not there, what can never happen, and where that is said.
#include <gtest/gtest.h>

#include "tests/config/examples.hpp"
#include "tests/config/scenarios.hpp"

namespace stagecraft {
namespace {

using Words = std::vector<std::string>;

// Four stages, 8 micro-batches, 2 replicas, 40 iterations, two nodes of emulated devices.
const std::string topology_file = R"(version: 1
job: { name: checked, iterations: 40 }
model: { layers: 8 }
training: { micro_batches: 8, logical_shards: 4 }
pipeline: { stages: 4, replicas: 2 }
nodes:
  - &
  - &
checkpoint: { every: 10 }
)";
const std::string devices =
    "[{ kind: emulated, count: 4, memory: 8GiB, costs: { forward: 10ms, backward_input: 10ms, backward_weight: 10ms } "
    "}]";

Topology topology(const Words& overrides = {}) {
  std::string text = topology_file;
  for (const char* name : {"n0", "n1"})
    text.replace(text.find('&'), 1, fmt::format("{{ name: {}, devices: {} }}", name, devices));
  return load(text, overrides);
}

struct Checked {
  Scenario scenario;
  std::vector<Diagnostic> diagnostics;
};

Checked check(const std::string& text, const Words& overrides = {}) {
  Checked checked{load_good(text), {}};
  checked.diagnostics = check_against(checked.scenario, topology(overrides));
  return checked;
}

void expect_fine(const std::string& text, const Words& overrides = {}) {
  EXPECT_EQ(lines_of(check(text, overrides).diagnostics), "") << text;
}
void expect_wrong(const std::string& text, const std::string& place, const std::string& code, const Words& pieces = {},
                  const Words& overrides = {}) {
  expect_one(check(text, overrides).diagnostics, text, place, code, pieces);
}

std::string with_fault(const std::string& keys) { return scenario_of("{ id: f, " + keys + " }"); }
std::string killed(const std::string& trigger) { return with_fault(trigger + ", do: kill, on: { stage: 0 }"); }

TEST(ScenarioCheck, a_good_scenario_earns_no_remark_and_its_nodes_are_found) {
  const Checked checked = check(rich_scenario, {"job.iterations=60"});
  EXPECT_EQ(lines_of(checked.diagnostics), "");
  EXPECT_EQ(checked.scenario.faults.at(3).on.nodes, (std::vector<std::uint32_t>{0, 1}));
  EXPECT_EQ(checked.scenario.faults.at(4).on.nodes, (std::vector<std::uint32_t>{1}));
}
TEST(ScenarioCheck, links_join_neighbours) {
  const auto link = [](const std::string& stages) { return with_fault("do: link_down, on: { link: " + stages + " }"); };
  expect_fine(link("[2, 1]"));
  expect_wrong(link("[0, 2]"), "[0, 2]", "SC0310", {"faults[0].on.link", "0 to 3", "got [0, 2]"});
  expect_wrong(link("[3, 0]"), "[3, 0]", "SC0310");
  expect_fine(link("[3, 0]"), {"pipeline.chunks=2", "pipeline.schedule=interleaved"});
  expect_wrong(link("[3, 4]"), "[3, 4]", "SC0310");
  expect_wrong(link("[1, 1]"), "[1, 1]", "SC0310");
}
TEST(ScenarioCheck, stages_replicas_and_micro_batches_exist) {
  expect_fine(with_fault("do: kill, on: { stage: 3, replica: 1 }"));
  expect_wrong(with_fault("do: kill, on: { stage: 4 }"), "4 }", "SC0311",
               {"faults[0].on.stage", "a stage from 0 to 3 (pipeline.stages = 4)", "got 4"});
  expect_wrong(with_fault("do: kill, on: { twin: 7 }"), "7 }", "SC0311", {"on.twin"});
  expect_wrong(with_fault("do: kill, on: { twin: 1 }"), "1 }", "SC0311", {"on.twin", "recovery.twins: true"},
               {"recovery.twins=false"});
  expect_wrong(with_fault("do: kill, on: { stage: 0, replica: 2 }"), "2 }", "SC0311", {"pipeline.replicas = 2"});
  expect_wrong(with_fault("do: link_down, on: { link: [0, 1], replica: 2 }"), "2 }", "SC0311", {"on.replica"});
  expect_fine(killed("when: { event: forward_done, stage: 3, replica: 1, micro_batch: 7, iteration: 40 }"));
  expect_wrong(killed("when: { event: forward_done, stage: 4 }"), "4 }", "SC0311", {"when.stage"});
  expect_wrong(killed("when: { event: forward_done, replica: 2 }"), "2 }", "SC0311", {"when.replica"});
  expect_wrong(killed("when: { event: forward_done, micro_batch: 8 }"), "8 }", "SC0311",
               {"when.micro_batch", "training.micro_batches = 8"});
}
TEST(ScenarioCheck, nodes_exist) {
  expect_wrong(with_fault("do: partition, on: { nodes: [n0, n7] }"), "[n0", "SC0312", {"n0, n1", "'n7'"});
  expect_wrong(with_fault("do: skew, on: { node: m1 }, with: { ahead: 1ms }"), "m1", "SC0312",
               {"on.node", "did you mean 'n1'?"});
}
TEST(ScenarioCheck, iterations_of_triggers_are_those_of_the_job) {
  expect_fine(killed("at: { iteration: 40 }"));
  expect_wrong(killed("at: { iteration: 41 }"), "41", "SC0308", {"at.iteration", "job.iterations = 40", "got 41"});
  expect_wrong(killed("when: { event: committed, iteration: 41 }"), "41", "SC0308", {"when.iteration"});
}
TEST(ScenarioCheck, weight_events_need_a_weight_gradient_of_its_own) {
  for (const char* event : {"weight_started", "weight_done"}) {
    const std::string text = killed(fmt::format("when: {{ event: {} }}", event));
    expect_fine(text);
    expect_fine(text, {"pipeline.dispatch=static", "pipeline.schedule=zb-h1"});
    for (const char* dispatch : {"static", "follow"}) {
      for (const char* schedule : {"1f1b", "gpipe"})
        expect_wrong(text, event, "SC0308", {schedule, dispatch, "in one piece"},
                     {fmt::format("pipeline.dispatch={}", dispatch), fmt::format("pipeline.schedule={}", schedule)});
    }
  }
  expect_fine(killed("when: { event: backward_started }"), {"pipeline.dispatch=static"});
}
TEST(ScenarioCheck, what_needs_checkpoints_is_refused_without_them) {
  const Words none{"checkpoint.every=0"};
  for (const char* event : {"saving", "saved"}) {
    const std::string text = killed(fmt::format("when: {{ event: {} }}", event));
    expect_fine(text);
    expect_wrong(text, event, "SC0308", {"checkpoint.every = 0"}, none);
    const std::string at = killed(fmt::format("when: {{ event: {}, iteration: 6 }}", event));
    expect_fine(at, {"checkpoint.every=3"});
    expect_fine(at, {"checkpoint.every=5", "job.iterations=6"});  // the last one is saved
    expect_wrong(at, "6", "SC0308", {"an iteration whose state is saved", "checkpoint.every = 5"},
                 {"checkpoint.every=5"});
  }
  for (const char* kind : {"disk_full", "torn_write", "flip"}) {
    const std::string text = with_fault(fmt::format("do: {}", kind));
    expect_fine(text);
    expect_wrong(text, kind, "SC0314", {"faults[0].do", kind}, none);
  }
  const std::string text = scenario_of("", "checkpoint: { at_least: 20 }");
  expect_fine(text);
  expect_wrong(text, "checkpoint", "SC0314", {"expect[0].checkpoint"}, none);
}
TEST(ScenarioCheck, emulated_devices_have_no_numbers_to_spoil) {
  const std::string text = with_fault("do: nan, on: { stage: 1 }");
  expect_wrong(text, "nan", "SC0313", {"emulated"});
  Scenario scenario = load_good(text);
  EXPECT_EQ(lines_of(check_against(scenario, load(cpu_file))), "");
}
TEST(ScenarioCheck, expectations_and_the_calm_stay_within_the_job) {
  for (const char* kind : {"committed", "checkpoint"}) {
    const auto text = [&](const char* number) {
      return scenario_of("", fmt::format("{}: {{ at_least: {} }}", kind, number));
    };
    expect_fine(text("40"));
    expect_wrong(text("41"), "41", "SC0315", {kind, "job.iterations = 40", "got 41"});
  }
  const auto calm = [](int from) {
    return scenario_of("", "", fmt::format("calm: {{ iteration: {}, progress: {{ within: 3s }} }}\n", from));
  };
  expect_fine(calm(40));
  expect_wrong(calm(41), "41", "SC0315", {"calm.iteration"});
}
TEST(ScenarioCheck, an_expectation_has_an_iteration_of_the_job_to_look_at) {
  const auto text = [](const std::string& fault, const std::string& expect) {
    return scenario_of("{ id: f, " + fault + " }", "iteration_time: { " + expect + ", at_most: 2x }");
  };
  const std::string paused = "at: { iteration: 31 }, do: pause, on: { stage: 0 }, for: { iterations: 5 }";
  expect_fine(text(paused, "after: f, settle: 4"));
  expect_wrong(text(paused, "after: f, settle: 5"), "5, at_most", "SC0307", {"got 5 after 'f'", "of which 5 settle"});
  const std::string long_pause = "at: { iteration: 31 }, do: pause, on: { stage: 0 }, for: { iterations: 50 }";
  expect_fine(text(long_pause, "during: f, settle: 9"));
  expect_wrong(text(long_pause, "during: f, settle: 10"), "10, at_most", "SC0307", {"got 10 during 'f'"});
  expect_wrong(text(long_pause, "after: f"), "iteration_time", "SC0307", {"got 0 after 'f'"});
  const std::string crash = "when: { event: ready, iteration: 38 }, do: kill, on: { stage: 0 }";
  expect_fine(text(crash, "after: f, settle: 2"));
  expect_wrong(text(crash, "after: f, settle: 3"), "3, at_most", "SC0307");
  expect_fine(text(crash, "settle: 39"));
  expect_wrong(text(crash, "settle: 40"), "40, at_most", "SC0307", {"got 40 in all"});
}
TEST(ScenarioCheck, all_problems_are_reported_at_once_by_position) {
  const std::string text =
      scenario_of("{ id: a, do: kill, on: { stage: 9, replica: 9 } }, { id: b, at: { iteration: 50 }, do: flip }",
                  "committed: { at_least: 41 }, checkpoint: { at_least: 41 }",
                  "calm: { iteration: 99, progress: { within: 3s } }\n");
  Words codes;
  for (const Diagnostic& d : check(text, {"checkpoint.every=0"}).diagnostics)
    codes.push_back(fmt::format("{} {}", d.at.line, to_text(d.code)));
  EXPECT_EQ(codes,
            (Words{"4 SC0311", "4 SC0311", "4 SC0308", "4 SC0314", "5 SC0315", "5 SC0314", "5 SC0315", "6 SC0315"}));
}
TEST(ScenarioCheck, problems_of_an_override_are_cited_where_the_scenario_has_it) {
  const std::string text = scenario_of("", "", "set: [\"job.iterations=3\", \"model.layrs=2\"]\n");
  const Scenario scenario = load_good(text);
  const auto loaded = load_topology("t.yaml", emulated_file + "weather: fine\n", scenario.set);
  const auto cited = cite_scenario(scenario, loaded.diagnostics);
  ASSERT_EQ(cited.size(), 2U);
  EXPECT_TRUE(to_text(cited[0]).starts_with("t.yaml:13:1: SC0114: weather")) << to_text(cited[0]);
  EXPECT_TRUE(to_text(cited[1]).starts_with(place_of(text, "\"model") + "SC0114: set[1] 'model.layrs=2': model.layrs"))
      << to_text(cited[1]);
}

}  // namespace
}  // namespace stagecraft
