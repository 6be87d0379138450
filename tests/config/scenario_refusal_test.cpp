// What is refused in the faults, expectations and calm of a scenario file, with its place and code.
#include <gtest/gtest.h>

#include "tests/config/scenarios.hpp"

namespace stagecraft {
namespace {

using Words = std::vector<std::string>;

TEST(ScenarioRefusal, faults_are_read_strictly) {
  const auto bad = [](const std::string& fault, const std::string& place, const std::string& code,
                      const Words& pieces = {}) { expect_bad(scenario_of(fault), place, code, pieces); };
  bad("{ do: kill, on: { stage: 1 } }", "{ do", "SC0115", {"faults[0].id"});
  bad("{ id: \"a b\", do: kill, on: { stage: 1 } }", "\"a b\"", "SC0124");
  bad("{ id: f }", "{ id", "SC0115", {"faults[0].do"});
  bad("{ id: f, do: kil, on: { stage: 1 } }", "kil,", "SC0121", {"did you mean 'kill'?", "disk_full"});
  bad("{ id: f, do: kill, on: { stage: 1 }, wiht: {} }", "wiht", "SC0114", {"did you mean 'with'?"});
  bad("kill", "kill", "SC0116", {"faults[0]"});
  expect_bad("version: 1\nname: x\ntopology: t\nfaults: { id: f }\n", "faults", "SC0116", {"list"});
}
TEST(ScenarioRefusal, arguments_that_are_missing_unknown_or_out_of_range_are_refused) {
  const auto bad = [](const std::string& keys, const std::string& place, const std::string& code,
                      const Words& pieces = {}) {
    expect_bad(scenario_of("{ id: f, do: " + keys + " }"), place, code, pieces);
  };
  const std::string link = "on: { link: [0, 1] }", stage = "on: { stage: 0 }";
  bad("delay, " + link, "{ id", "SC0115", {"with"});
  bad("delay, " + link + ", with: {}", "with", "SC0301", {"mean, constant", "none"});
  bad("delay, " + link + ", with: { mean: 1ms, constant: 1ms }", "1ms }", "SC0301", {"'constant' beside 'mean'"});
  bad("delay, " + link + ", with: { mean: 1ms, factor: 2 }", "factor", "SC0114");
  bad("delay, " + link + ", with: { mean: 30 }", "30", "SC0120");
  bad("delay, " + link + ", with: { mean: 2h }", "2h", "SC0118");
  bad("delay, " + link + ", with: { constant: 999ns }", "999ns", "SC0118");
  bad("throttle, " + link + ", with: { factor: 1 }", "1 }", "SC0118", {"above 1"});
  bad("slow, " + stage + ", with: { factor: 1001 }", "1001", "SC0118");
  bad("slow, " + stage + ", with: { mean: 3ms, factor: 2 }", "mean", "SC0114");
  bad("drop, with: { probability: 0 }", "0 }", "SC0118");
  bad("duplicate, with: { probability: 1.5 }", "1.5", "SC0118");
  bad("drop, with: {}", "with", "SC0115", {"faults[0].with.probability"});
  bad("reorder, with: { probability: 1 }", "with", "SC0115", {"faults[0].with.mean"});
  bad("skew, on: { node: a }, with: {}", "with", "SC0301", {"ahead, behind"});
  bad("skew, on: { node: a }, with: { ahead: -4ms }", "-4ms", "SC0120");
  bad("flip, with: { operation: 0 }", "0 }", "SC0118");
  for (const char* kind : {"pause", "kill", "oom", "nan"})
    bad(fmt::format("{}, {}, with: {{ factor: 2 }}", kind, stage), "with", "SC0303", {kind, "has no arguments"});
  bad("link_down, " + link + ", with: { factor: 2 }", "with", "SC0303");
  bad("partition, on: { nodes: [a, b] }, with: { factor: 2 }", "with", "SC0303");
}
TEST(ScenarioRefusal, a_duration_is_refused_where_a_fault_strikes_once_and_missed_where_it_strikes_again) {
  const auto bad = [](const std::string& keys, const std::string& place, const std::string& code,
                      const Words& pieces = {}) {
    expect_bad(scenario_of("{ id: f, do: " + keys + " }"), place, code, pieces);
  };
  for (const char* kind : {"kill", "oom", "nan"})
    bad(fmt::format("{}, on: {{ stage: 0 }}, for: {{ iterations: 2 }}", kind), "for", "SC0303", {"strikes once"});
  for (const char* kind : {"disk_full", "torn_write", "flip"})
    bad(fmt::format("{}, for: {{ time: 2s }}", kind), "for", "SC0303", {kind});
  bad("pause, on: { stage: 0 }, for: {}", "for", "SC0301", {"iterations, time"});
  bad("pause, on: { stage: 0 }, for: { iterations: 3, time: 3s }", "3s", "SC0301");
  bad("pause, on: { stage: 0 }, for: { iterations: 0 }", "0 } }", "SC0118");
  bad("pause, on: { stage: 0 }, for: { time: 2h }", "2h", "SC0118");
  bad("pause, on: { stage: 0 }, for: 3", "3", "SC0116");
  bad("pause, on: { stage: 0 }, every: { mtbf: 3s }", "{ id", "SC0115", {"faults[0].for"});
}
TEST(ScenarioRefusal, targets_that_a_kind_does_not_take_are_refused) {
  const auto bad = [](const std::string& keys, const std::string& place, const std::string& code,
                      const Words& pieces = {}, int skip = 0) {
    expect_bad(scenario_of("{ id: f, do: " + keys + " }"), place, code, pieces, skip);
  };
  bad("delay, on: { stage: 1 }, with: { mean: 1ms }", "1 }", "SC0302", {"expected link for delay, got stage"});
  bad("throttle, on: { nodes: [a, b] }, with: { factor: 2 }", "[a, b]", "SC0302");
  bad("link_down, on: { stage: 1 }", "1 }", "SC0302");
  bad("drop, on: { link: [0, 1] }, with: { probability: 1 }", "[0, 1]", "SC0302", {"stage", "whole job"});
  bad("partition, on: { node: a }", "a }", "SC0302", {"nodes: [n0, n1]"});
  bad("pause, on: { twin: 1 }", "1 }", "SC0302");
  bad("kill, on: { link: [0, 1] }", "[0, 1]", "SC0302", {"stage or twin"});
  bad("flip, on: { stage: 1 }", "1 }", "SC0302", {"disk"});
  bad("skew, on: { nodes: [a, b] }, with: { ahead: 1ms }", "[a, b]", "SC0302", {"expected node for skew"});
  bad("kill, on: {}", "on: {}", "SC0301", {"link, stage, twin"});
  bad("kill, on: { stage: 1, twin: 1 }", "1 } }", "SC0301", {"'twin' beside 'stage'"});
  bad("kill", "{ id", "SC0115", {"faults[0].on", "stage: 1"});
  bad("kill, on: { stage: 1, direction: forward }", "direction", "SC0114");
  bad("kill, on: { stage: 1024 }", "1024", "SC0118");
  bad("kill, on: { stage: 1, replica: 256 }", "256", "SC0118");
  bad("link_down, on: { link: [0] }", "[0]", "SC0125");
  bad("link_down, on: { link: [0, b] }", "b]", "SC0116");
  bad("link_down, on: { link: [0, 1], direction: up }", "up", "SC0121");
  bad("partition, on: { nodes: [a] }", "[a]", "SC0125");
  bad("partition, on: { nodes: [a, a] }", "[a, a]", "SC0302", {"two different nodes"});
  bad("flip, on: { disk: scratch }", "scratch", "SC0121", {"checkpoints"});
}
TEST(ScenarioRefusal, triggers_are_read_strictly) {
  const auto bad = [](const std::string& keys, const std::string& place, const std::string& code,
                      const Words& pieces = {}) {
    expect_bad(scenario_of("{ id: f, do: kill, on: { stage: 0 }, " + keys + " }"), place, code, pieces);
  };
  bad("at: { iteration: 5 }, every: { mtbf: 3s }", "every", "SC0301", {"at, when, every", "'every' beside 'at'"});
  bad("at: { iteration: 5, time: 3s }", "3s", "SC0301");
  bad("at: {}", "at: {", "SC0301", {"iteration, time"});
  bad("at: 5", "5", "SC0116");
  bad("at: { iteration: 0 }", "0 } }]", "SC0118");
  bad("at: { time: 200h }", "200h", "SC0118");
  bad("every: {}", "every", "SC0115", {"mtbf"});
  bad("every: { mtbf: 3s, at_most: 0 }", "0 } }]", "SC0118");
  bad("when: {}", "when", "SC0115", {"event"});
  bad("when: { event: commited }", "commited", "SC0121", {"did you mean 'committed'?"});
  bad("when: { event: committed, stage: 2 }", "2 }", "SC0304", {"no stage with the event committed", "reduce_done"});
  bad("when: { event: opened, replica: 2 }", "2 }", "SC0304");
  bad("when: { event: ready, micro_batch: 3 }", "3 }", "SC0304", {"weight_done"});
  bad("when: { event: saved, iteration: 0 }", "0 } }]", "SC0118");
  bad("when: { event: ready, step: 2 }", "step", "SC0114");
}
TEST(ScenarioRefusal, ids_are_unique) {
  expect_bad(scenario_of(kill_fault + ", " + slow_fault + ", { id: kill, do: flip }"), "{ id: kill", "SC0305",
             {"faults[2].id", "'kill'", "first on line 4, column 10"}, 1);
}
TEST(ScenarioRefusal, expectations_are_read_strictly) {
  const auto bad = [](const std::string& expect, const std::string& place, const std::string& code,
                      const Words& pieces = {}) { expect_bad(scenario_of(slow_fault, expect), place, code, pieces); };
  bad("{}", "{}", "SC0301", {"iteration_time, progress"});
  bad("{ committed: { at_least: 3 }, checkpoint: { at_least: 3 } }", "checkpoint", "SC0301");
  bad("never: stale_epoch_accepted", "stale", "SC0116");
  bad("never: []", "[]", "SC0125");
  bad("never: [stale_epoch]", "stale_epoch]", "SC0121", {"left_behind"});
  bad("iteration_time: { during: slow }", "iteration_time", "SC0115", {"at_most"});
  bad("iteration_time: { during: slow, after: slow, at_most: 2x }", "slow, at_most", "SC0301");
  bad("iteration_time: { during: slow, at_most: 0.9x }", "0.9x", "SC0118", {"1x to 1000x"});
  bad("iteration_time: { during: slow, at_most: 1001x }", "1001x", "SC0118");
  bad("iteration_time: { during: slow, at_most: 1.1 }", "1.1 }", "SC0120", {"1.10x or 450ms"});
  bad("iteration_time: { during: slow, at_most: x }", "x }", "SC0120");
  bad("iteration_time: { during: slow, at_most: [] }", "[] }", "SC0116");
  bad("iteration_time: { during: slow, at_most: 200h }", "200h", "SC0118");
  bad("progress: { after: slow }", "progress", "SC0115", {"within"});
  bad("progress: { within: 3 }", "3 }", "SC0120");
  bad("loss: { tolerance: exact }", "loss", "SC0115", {"equals"});
  bad("loss: { equals: fault_free, tolerance: 0 }", "0 }]", "SC0118");
  bad("loss: { equals: yesterday }", "yesterday", "SC0121");
  bad("committed: { at_least: 0 }", "0 }]", "SC0118");
  bad("checkpoint: {}", "checkpoint", "SC0115");
  bad("shutdown: { within: 5s, at_most: 5s }", "at_most", "SC0114");
  bad("shutdwon: { within: 5s }", "shutdwon", "SC0114", {"did you mean 'shutdown'?"});
}
TEST(ScenarioRefusal, the_calm_is_read_strictly) {
  const auto bad = [](const std::string& calm, const std::string& place, const std::string& code,
                      const Words& pieces = {}) {
    expect_bad(scenario_of("", "", "calm: " + calm + "\n"), place, code, pieces);
  };
  bad("{ iteration: 3 }", "calm", "SC0115", {"calm.progress"});
  bad("{ progress: { within: 3s } }", "calm", "SC0115", {"calm.iteration"});
  bad("{ iteration: 3, progress: {} }", "progress", "SC0115", {"calm.progress.within"});
  bad("{ iteration: 3, progress: { within: 3s }, from: 3 }", "from", "SC0114");
}

TEST(ScenarioRefusal, expectations_about_faults_that_are_not_there_are_refused) {
  const auto bad = [](const std::string& expect, const std::string& place, const Words& pieces) {
    expect_bad(scenario_of(slow_fault + ", " + kill_fault, expect), place, "SC0306", pieces);
  };
  bad("iteration_time: { during: slwo, at_most: 2x }", "slwo", {"slow, kill", "did you mean 'slow'?"});
  bad("progress: { within: 3s, after: nothing }", "nothing", {"'nothing'; name a fault"});
  expect_bad(scenario_of("", "progress: { within: 3s, after: slow }"), "slow", "SC0306", {"there are none"});
}
TEST(ScenarioRefusal, expectations_that_could_look_at_no_iteration_are_refused) {
  const auto bad = [](const std::string& expect, const std::string& place, const Words& pieces,
                      const std::string& more = "") {
    const std::string endless = "{ id: pause, at: { iteration: 8 }, do: pause, on: { stage: 0 } }";
    expect_bad(scenario_of(slow_fault + ", " + kill_fault + ", " + endless, expect, more), place, "SC0307", pieces);
  };
  const std::string calm = "calm: { iteration: 10, progress: { within: 3s } }\n";
  bad("iteration_time: { during: slow, settle: 5, at_most: 2x }", "5, at_most", {"got 5 during 'slow'", "5 settle"});
  bad("iteration_time: { during: kill, at_most: 2x }", "iteration_time", {"kill strikes once; write after"});
  bad("iteration_time: { after: pause, at_most: 2x }", "iteration_time", {"lasts to the end"});
  bad("iteration_time: { during: pause, settle: 2, at_most: 2x }", "2, at_most", {"got 2 during 'pause'"}, calm);
  const auto good = [](const std::string& expect, const std::string& more = "") {
    const std::string endless = "{ id: pause, at: { iteration: 8 }, do: pause, on: { stage: 0 } }";
    load_good(scenario_of(slow_fault + ", " + kill_fault + ", " + endless, expect, more));
  };
  good("iteration_time: { during: slow, settle: 4, at_most: 2x }");
  good("iteration_time: { after: kill, settle: 4, at_most: 2x }");
  good("iteration_time: { during: pause, settle: 100, at_most: 2x }");
  good(
      "iteration_time: { after: pause, settle: 1, at_most: 2x }, iteration_time: { during: pause, settle: 1, at_most: "
      "2x }",
      calm);
}
TEST(ScenarioRefusal, faults_that_could_never_strike_are_refused) {
  const std::string on = "do: kill, on: { stage: 0 } }", calm = "calm: { iteration: 9, progress: { within: 3s } }\n";
  expect_bad(scenario_of("{ id: f, at: { iteration: 9 }, " + on, "", calm), "9 }", "SC0308", {"calm.iteration = 9"});
  expect_bad(scenario_of("{ id: f, when: { event: ready, iteration: 12 }, " + on, "", calm), "12 }", "SC0308",
             {"faults[0].when.iteration", "got 12"});
  expect_bad(scenario_of("{ id: f, at: { time: 10s }, " + on, "", "deadline: 10s\n"), "10s }", "SC0308",
             {"deadline of 10 s"});
  expect_bad(scenario_of("{ id: f, when: { event: recovered }, " + on), "recovered", "SC0308", {"another fault"});
  load_good(scenario_of("{ id: f, at: { iteration: 8 }, " + on, "", calm));
  load_good(scenario_of("{ id: f, at: { time: 9s }, " + on, "", "deadline: 10s\n"));
}
TEST(ScenarioRefusal, the_real_world_refuses_what_it_can_not_make) {
  const auto real = [](const std::string& keys) { return scenario_of("{ id: f, " + keys + " }", "", "world: real\n"); };
  for (const char* keys :
       {"do: drop, with: { probability: 1 }", "do: duplicate, with: { probability: 1 }",
        "do: reorder, with: { mean: 1s }", "do: partition, on: { nodes: [a, b] }",
        "do: skew, on: { node: a }, with: { ahead: 1s }", "do: disk_full", "do: torn_write", "do: flip"}) {
    const std::string rest = std::string(keys).substr(4);
    expect_bad(real(keys), rest, "SC0309", {"world: virtual", rest.substr(0, rest.find(','))});
  }
  for (const char* keys :
       {"do: delay, on: { link: [0, 1] }, with: { mean: 1s }",
        "do: throttle, on: { link: [0, 1] }, with: { factor: 2 }", "do: link_down, on: { link: [0, 1] }",
        "do: pause, on: { stage: 0 }", "do: kill, on: { twin: 0 }", "do: slow, on: { stage: 0 }, with: { factor: 2 }",
        "do: oom, on: { stage: 0 }", "do: nan, on: { stage: 0 }"})
    load_good(real(keys));
}
TEST(ScenarioRefusal, all_problems_are_reported_at_once_by_position) {
  const std::string text = R"(version: 1
topology: t.yaml
seeds: 5..1
world: real
faults:
  - { id: a, at: { iteration: 0, time: 3s }, do: kil, on: { stage: 1 } }
  - { id: b, do: drop, with: { probability: 2 } }
  - { id: c, do: drop, with: { probability: 1 } }
  - { id: c, do: pause, on: { link: [0, 1] }, with: { mean: 3 } }
expect:
  - never: [stale, micro_batch_lost]
  - iteration_time: { during: e, at_most: 10 }
  - loss: 5
calm: { iteration: none }
)";
  const auto result = load_scenario("s.yaml", text);
  EXPECT_FALSE(result.scenario);
  Words heads;
  for (const Diagnostic& d : result.diagnostics)
    heads.push_back(fmt::format("{}:{} {}", d.at.line, d.at.column, to_text(d.code)));
  EXPECT_EQ(heads, (Words{"1:1 SC0115", "3:8 SC0118", "6:40 SC0301", "6:50 SC0121", "7:18 SC0309", "7:45 SC0118",
                          "8:18 SC0309", "9:5 SC0305", "9:37 SC0302", "9:47 SC0303", "11:13 SC0121", "12:31 SC0306",
                          "12:43 SC0120", "13:11 SC0116", "14:1 SC0115", "14:20 SC0116"}))
      << lines_of(result.diagnostics);
}

}  // namespace
}  // namespace stagecraft
