// Scenario files by themselves: every key as a value, and every refusal with its place and code.
#include "config/scenario.hpp"

#include <gtest/gtest.h>

#include <fstream>
#include <set>
#include <sstream>

#include "tests/config/scenarios.hpp"

namespace stagecraft {
namespace {

using namespace std::chrono_literals;
using Words = std::vector<std::string>;

const FaultSpec& only_fault(const Scenario& s) { return s.faults.at(0); }
FaultSpec fault_of(const std::string& text) { return only_fault(load_good(scenario_of(text))); }
Expectation expectation_of(const std::string& text, const std::string& faults = "") {
  return load_good(scenario_of(faults, text)).expect.at(0);
}

const std::string slow = "{ id: slow, do: slow, on: { stage: 1 }, with: { factor: 2 }, for: { iterations: 5 } }";
const std::string kill = "{ id: kill, do: kill, on: { stage: 1 } }";

TEST(Scenario, the_head_of_a_file_is_read) {
  const Scenario s = load_good(rich_scenario, "folder/sub/s.yaml");
  EXPECT_EQ(s.file, "folder/sub/s.yaml");
  EXPECT_EQ(s.name, "slow first link, then a dead stage");
  EXPECT_EQ(s.shows, "one sentence");
  EXPECT_EQ(s.topology, "folder/gpt.yaml");
  EXPECT_EQ(s.set, (Words{"job.iterations=60", "checkpoint.every=10"}));
  EXPECT_EQ(s.set_at.at(1), (Position{std::nullopt, 5, 28}));
  EXPECT_EQ(s.world, ScenarioWorld::virtual_clock);
  EXPECT_EQ(s.first_seed, 1U);
  EXPECT_EQ(s.last_seed, 100U);
  EXPECT_EQ(s.deadline, 500s);
  EXPECT_EQ(s.faults.size(), 5U);
  EXPECT_EQ(s.expect.size(), 8U);
  ASSERT_TRUE(s.calm);
  EXPECT_EQ(s.calm->from.value, 40U);
  EXPECT_EQ(s.calm->within, 10s);
}
TEST(Scenario, a_file_with_the_least_keys_gets_every_default) {
  const std::string least = "version: 1\nname: least\ntopology: t.yaml\n";
  const Scenario s = load_good(least);
  EXPECT_EQ(s.topology, "t.yaml");
  EXPECT_EQ(s.shows, "");
  EXPECT_EQ(s.world, ScenarioWorld::virtual_clock);
  EXPECT_EQ(s.first_seed, 1U);
  EXPECT_EQ(s.last_seed, 1U);
  EXPECT_EQ(s.deadline, 600s);
  EXPECT_TRUE(s.faults.empty() && s.expect.empty() && s.set.empty() && !s.calm);
  EXPECT_EQ(load_good(least + "world: real\n").deadline, 120s);
}
TEST(Scenario, the_path_of_the_topology_starts_at_the_folder_of_the_file) {
  const auto path = [](const std::string& file, const std::string& topology) {
    return load_good("version: 1\nname: x\ntopology: " + topology + "\n", file).topology;
  };
  EXPECT_EQ(path("s.yaml", "t.yaml"), "t.yaml");
  EXPECT_EQ(path("a/s.yaml", "t.yaml"), "a/t.yaml");
  EXPECT_EQ(path("a/b/s.yaml", "../t.yaml"), "a/t.yaml");
  EXPECT_EQ(path("/x/s.yaml", "../t.yaml"), "/t.yaml");
  EXPECT_EQ(path("a/s.yaml", "/y/t.yaml"), "/y/t.yaml");
}
TEST(Scenario, seeds_are_a_number_or_a_range) {
  const auto seeds = [](const std::string& text) {
    const Scenario s = load_good(scenario_of("", "", "seeds: " + text + "\n"));
    return std::pair(s.first_seed, s.last_seed);
  };
  EXPECT_EQ(seeds("7"), std::pair(std::uint64_t{7}, std::uint64_t{7}));
  EXPECT_EQ(seeds("3..9"), std::pair(std::uint64_t{3}, std::uint64_t{9}));
  EXPECT_EQ(seeds("18446744073709551615..18446744073709551615").first, ~std::uint64_t{0});
  const auto bad = [](const std::string& text, const std::string& code) {
    expect_bad(scenario_of("", "", "seeds: " + text + "\n"), text, code, {"seeds: "});
  };
  bad("9..3", "SC0118");
  bad("1..1000001", "SC0118");
  bad("1..", "SC0116");
  bad("a..b", "SC0116");
  bad("1...9", "SC0116");
  bad("-1..9", "SC0116");
  bad("-1", "SC0118");
  bad("many", "SC0116");
  bad("[1, 2]", "SC0116");
}
TEST(Scenario, the_head_of_a_file_is_read_strictly) {
  const auto head = [](const std::string& line) { return scenario_of("", "", line + "\n"); };
  expect_bad("name: x\ntopology: t\n", "name", "SC0115", {"version"});
  expect_bad("version: 2\nweather: fine\n", "2", "SC0201", {"got 2"});
  expect_bad("version: 1\ntopology: t\n", "version", "SC0115", {"name"});
  expect_bad("version: 1\nname: x\n", "version", "SC0115", {"topology"});
  expect_bad("version: 1\nname: \"a\\nb\"\ntopology: t\n", "\"a", "SC0124", {"one line"});
  expect_bad(head("colour: red"), "colour", "SC0114", {"'colour'", "topology", "calm"});
  expect_bad(head("sedes: 3"), "sedes", "SC0114", {"did you mean 'seeds'?"});
  expect_bad(head("name: again"), "name: again", "SC0113", {"line 2"});
  expect_bad(head("world: unreal"), "unreal", "SC0121", {"virtual, real"});
  expect_bad(head("deadline: 600"), "600", "SC0120");
  expect_bad(head("deadline: 169h"), "169h", "SC0118");
  expect_bad(head("deadline: 10us"), "10us", "SC0118");
  expect_bad(head("set: job.iterations=3"), "job.iterations=3", "SC0116", {"list"});
  expect_bad(head("set: [{ a: b }]"), "{ a", "SC0116", {"set[0]"});
  expect_bad("", "", "SC0110");
  expect_bad("[]", "[", "SC0116", {"map"});
}

TEST(Scenario, every_kind_of_fault_has_a_word_and_its_arguments) {
  using enum FaultKind;
  const auto fault = [](const std::string& keys) { return fault_of("{ id: f, " + keys + " }"); };
  EXPECT_EQ(fault("do: delay, on: { link: [0, 1] }, with: { mean: 30ms }").mean, 30ms);
  EXPECT_EQ(fault("do: delay, on: { link: [0, 1] }, with: { constant: 1us }").constant, 1us);
  EXPECT_EQ(fault("do: throttle, on: { link: [0, 1] }, with: { factor: 4.5 }").factor, 4.5);
  EXPECT_EQ(fault("do: slow, on: { stage: 0 }, with: { factor: 1000 }").factor, 1000);
  EXPECT_EQ(fault("do: drop, with: { probability: 0.25 }").probability, 0.25);
  EXPECT_EQ(fault("do: duplicate, with: { probability: 1 }").probability, 1);
  const FaultSpec reordered = fault("do: reorder, with: { mean: 1h }");
  EXPECT_EQ(reordered.mean, 1h);
  EXPECT_EQ(reordered.probability, 1);
  EXPECT_EQ(fault("do: reorder, with: { mean: 1ms, probability: 0.5 }").probability, 0.5);
  EXPECT_EQ(fault("do: skew, on: { node: n0 }, with: { ahead: 4ms }").offset, 4ms);
  EXPECT_EQ(fault("do: skew, on: { node: n0 }, with: { behind: 4ms }").offset, -4ms);
  EXPECT_EQ(fault("do: disk_full").operation, 1U);
  EXPECT_EQ(fault("do: torn_write, with: { operation: 7 }").operation, 7U);
  EXPECT_EQ(fault("do: flip, with: {}").kind, flip);
  EXPECT_EQ(fault("do: partition, on: { nodes: [a, b] }").kind, partition);
  for (const char* word : {"pause", "kill", "oom", "nan"})
    EXPECT_EQ(name_of(fault(fmt::format("do: {}, on: {{ stage: 3 }}", word)).kind), word);
  EXPECT_EQ(fault("do: link_down, on: { link: [1, 2] }").kind, link_down);
}
TEST(Scenario, targets_are_read) {
  using Kind = FaultTarget::Kind;
  const auto target = [](const std::string& keys) { return fault_of("{ id: f, " + keys + " }").on; };
  const FaultTarget link = target("do: link_down, on: { link: [3, 2], direction: backward, replica: 1 }");
  EXPECT_EQ(link.kind, Kind::link);
  EXPECT_EQ(link.stage.value, 3U);
  EXPECT_EQ(link.other.value, 2U);
  EXPECT_EQ(link.direction, Direction::backward);
  EXPECT_EQ(link.replica, ReplicaId{1});
  const FaultTarget both = target("do: link_down, on: { link: [0, 1] }");
  EXPECT_FALSE(both.direction || both.replica);
  const FaultTarget twin = target("do: kill, on: { twin: 2, replica: 1 }");
  EXPECT_EQ(twin.kind, Kind::twin);
  EXPECT_EQ(twin.stage.value, 2U);
  EXPECT_EQ(twin.replica, ReplicaId{1});
  EXPECT_EQ(target("do: kill, on: { stage: 2 }").kind, Kind::stage);
  EXPECT_EQ(target("do: drop, on: { stage: 2 }, with: { probability: 1 }").kind, Kind::stage);
  EXPECT_EQ(target("do: drop, with: { probability: 1 }").kind, Kind::job);
  EXPECT_EQ(target("do: flip").kind, Kind::disk);
  EXPECT_EQ(target("do: flip, on: { disk: checkpoints }").kind, Kind::disk);
  EXPECT_EQ(target("do: partition, on: { nodes: [a, b] }").node_names, (Words{"a", "b"}));
  EXPECT_EQ(target("do: skew, on: { node: a }, with: { ahead: 1s }").node_names, (Words{"a"}));
}
TEST(Scenario, triggers_are_read) {
  using Kind = Trigger::Kind;
  const auto trigger = [](const std::string& keys) {
    return fault_of("{ id: f, do: kill, on: { stage: 0 }, " + keys + " }").trigger;
  };
  EXPECT_EQ(only_fault(load_good(scenario_of(kill))).trigger.kind, Kind::start);
  EXPECT_EQ(trigger("at: { iteration: 5 }").kind, Kind::iteration);
  EXPECT_EQ(trigger("at: { iteration: 5 }").iteration.value, 5U);
  EXPECT_EQ(trigger("at: { time: 10s }").kind, Kind::time);
  EXPECT_EQ(trigger("at: { time: 10s }").time, 10s);
  const Trigger drawn = trigger("every: { mtbf: 3s }");
  EXPECT_EQ(drawn.kind, Kind::drawn);
  EXPECT_EQ(drawn.time, 3s);
  EXPECT_EQ(drawn.at_most, 1000U);
  EXPECT_EQ(trigger("every: { mtbf: 3s, at_most: 5 }").at_most, 5U);
  const Trigger event = trigger("when: { event: weight_done, stage: 3, replica: 2, micro_batch: 7, iteration: 9 }");
  EXPECT_EQ(event.kind, Kind::event);
  EXPECT_EQ(event.event.event, RunEvent::weight_done);
  EXPECT_EQ(event.event.stage, StageId{3});
  EXPECT_EQ(event.event.replica, ReplicaId{2});
  EXPECT_EQ(event.event.micro_batch, MicroBatch{7});
  EXPECT_EQ(event.event.iteration, Iteration{9});
  const EventPattern open = trigger("when: { event: ready }").event;
  EXPECT_FALSE(open.stage || open.replica || open.micro_batch || open.iteration);
}
TEST(Scenario, every_event_and_invariant_has_a_word_of_its_own_that_reads_back) {
  std::set<std::string_view> words;
  for (std::size_t i = 0; i < run_events; ++i) {
    const auto event = static_cast<RunEvent>(i);
    const FaultSpec fault = load_good(scenario_of(kill + fmt::format(", {{ id: f, when: {{ event: {} }}, do: kill, on: "
                                                                     "{{ stage: 0 }} }}",
                                                                     name_of(event))))
                                .faults.at(1);
    EXPECT_EQ(fault.trigger.event.event, event);
    EXPECT_TRUE(words.insert(name_of(event)).second);
    EXPECT_TRUE(!has_micro_batch(event) || has_stage(event));
  }
  for (std::size_t i = 0; i < invariants; ++i) {
    const auto invariant = static_cast<Invariant>(i);
    EXPECT_EQ(expectation_of(fmt::format("never: [{}]", name_of(invariant))).never, std::vector{invariant});
    EXPECT_TRUE(words.insert(name_of(invariant)).second);
  }
}
TEST(Scenario, a_fault_lasts_for_iterations_or_a_time_or_to_the_end) {
  const auto fault = [](const std::string& keys) {
    return fault_of("{ id: f, do: pause, on: { stage: 0 }" + keys + " }");
  };
  EXPECT_EQ(fault(", for: { iterations: 20 }").iterations, 20U);
  EXPECT_EQ(fault(", for: { time: 2s }").time, 2s);
  EXPECT_FALSE(fault("").iterations || fault("").time);
  EXPECT_EQ(fault(", every: { mtbf: 3s }, for: { time: 2s }").time, 2s);
  EXPECT_FALSE(fault(", every: { mtbf: 3s, at_most: 1 }").time);
}
TEST(Scenario, expectations_are_read) {
  using Kind = Expectation::Kind;
  const Expectation during = expectation_of("iteration_time: { during: slow, settle: 3, at_most: 1.10x }", slow);
  EXPECT_EQ(during.kind, Kind::iteration_time);
  EXPECT_EQ(during.fault, "slow");
  EXPECT_FALSE(during.after || during.within);
  EXPECT_EQ(during.settle, 3U);
  EXPECT_EQ(during.ratio, 1.10);
  const Expectation after = expectation_of("iteration_time: { after: slow, at_most: 450ms }", slow);
  EXPECT_TRUE(after.after && !after.ratio);
  EXPECT_EQ(after.settle, 0U);
  EXPECT_EQ(after.within, 450ms);
  EXPECT_EQ(expectation_of("iteration_time: { at_most: 1000x }").fault, "");
  const Expectation progress = expectation_of("progress: { within: 20s, after: kill }", kill);
  EXPECT_EQ(progress.kind, Kind::progress);
  EXPECT_EQ(progress.fault, "kill");
  EXPECT_EQ(progress.within, 20s);
  EXPECT_EQ(expectation_of("progress: { within: 20s }").fault, "");
  EXPECT_EQ(expectation_of("loss: { equals: fault_free }").tolerance, 0);
  EXPECT_EQ(expectation_of("loss: { equals: fault_free, tolerance: exact }").tolerance, 0);
  EXPECT_EQ(expectation_of("loss: { equals: fault_free, tolerance: 1e-6 }").tolerance, 1e-6);
  EXPECT_EQ(expectation_of("committed: { at_least: 30 }").at_least, 30U);
  EXPECT_EQ(expectation_of("checkpoint: { at_least: 20 }").kind, Kind::checkpoint);
  EXPECT_EQ(expectation_of("shutdown: { within: 5s }").within, 5s);
  EXPECT_EQ(name_of(Kind::shutdown), "shutdown");
}

TEST(Scenario, the_documentation_has_every_word) {
  std::ifstream file(STAGECRAFT_SOURCE_DIR "/docs/scenarios.md");
  std::stringstream text;
  text << file.rdbuf();
  const auto expect_words = [&]<class E>(E, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
      const std::string word = fmt::format("`{}`", name_of(static_cast<E>(i)));
      EXPECT_NE(text.str().find(word), std::string::npos) << word;
    }
  };
  expect_words(FaultKind{}, fault_kinds);
  expect_words(RunEvent{}, run_events);
  expect_words(Invariant{}, invariants);
  expect_words(Expectation::Kind{}, expectation_kinds);
}

TEST(Scenario, faults_are_read_strictly) {
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
TEST(Scenario, arguments_that_are_missing_unknown_or_out_of_range_are_refused) {
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
TEST(Scenario, a_duration_is_refused_where_a_fault_strikes_once_and_missed_where_it_strikes_again) {
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
TEST(Scenario, targets_that_a_kind_does_not_take_are_refused) {
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
TEST(Scenario, triggers_are_read_strictly) {
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
TEST(Scenario, ids_are_unique) {
  expect_bad(scenario_of(kill + ", " + slow + ", { id: kill, do: flip }"), "{ id: kill", "SC0305",
             {"faults[2].id", "'kill'", "first on line 4, column 10"}, 1);
}
TEST(Scenario, expectations_are_read_strictly) {
  const auto bad = [](const std::string& expect, const std::string& place, const std::string& code,
                      const Words& pieces = {}) { expect_bad(scenario_of(slow, expect), place, code, pieces); };
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
TEST(Scenario, the_calm_is_read_strictly) {
  const auto bad = [](const std::string& calm, const std::string& place, const std::string& code,
                      const Words& pieces = {}) {
    expect_bad(scenario_of("", "", "calm: " + calm + "\n"), place, code, pieces);
  };
  bad("{ iteration: 3 }", "calm", "SC0115", {"calm.progress"});
  bad("{ progress: { within: 3s } }", "calm", "SC0115", {"calm.iteration"});
  bad("{ iteration: 3, progress: {} }", "progress", "SC0115", {"calm.progress.within"});
  bad("{ iteration: 3, progress: { within: 3s }, from: 3 }", "from", "SC0114");
}

TEST(Scenario, expectations_about_faults_that_are_not_there_are_refused) {
  const auto bad = [](const std::string& expect, const std::string& place, const Words& pieces) {
    expect_bad(scenario_of(slow + ", " + kill, expect), place, "SC0306", pieces);
  };
  bad("iteration_time: { during: slwo, at_most: 2x }", "slwo", {"slow, kill", "did you mean 'slow'?"});
  bad("progress: { within: 3s, after: nothing }", "nothing", {"'nothing'; name a fault"});
  expect_bad(scenario_of("", "progress: { within: 3s, after: slow }"), "slow", "SC0306", {"there are none"});
}
TEST(Scenario, expectations_that_could_look_at_no_iteration_are_refused) {
  const auto bad = [](const std::string& expect, const std::string& place, const Words& pieces,
                      const std::string& more = "") {
    const std::string endless = "{ id: pause, at: { iteration: 8 }, do: pause, on: { stage: 0 } }";
    expect_bad(scenario_of(slow + ", " + kill + ", " + endless, expect, more), place, "SC0307", pieces);
  };
  const std::string calm = "calm: { iteration: 10, progress: { within: 3s } }\n";
  bad("iteration_time: { during: slow, settle: 5, at_most: 2x }", "5, at_most", {"got 5 during 'slow'", "5 settle"});
  bad("iteration_time: { during: kill, at_most: 2x }", "iteration_time", {"kill strikes once; write after"});
  bad("iteration_time: { after: pause, at_most: 2x }", "iteration_time", {"lasts to the end"});
  bad("iteration_time: { during: pause, settle: 2, at_most: 2x }", "2, at_most", {"got 2 during 'pause'"}, calm);
  const auto good = [](const std::string& expect, const std::string& more = "") {
    const std::string endless = "{ id: pause, at: { iteration: 8 }, do: pause, on: { stage: 0 } }";
    load_good(scenario_of(slow + ", " + kill + ", " + endless, expect, more));
  };
  good("iteration_time: { during: slow, settle: 4, at_most: 2x }");
  good("iteration_time: { after: kill, settle: 4, at_most: 2x }");
  good("iteration_time: { during: pause, settle: 100, at_most: 2x }");
  good(
      "iteration_time: { after: pause, settle: 1, at_most: 2x }, iteration_time: { during: pause, settle: 1, at_most: "
      "2x }",
      calm);
}
TEST(Scenario, faults_that_could_never_strike_are_refused) {
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
TEST(Scenario, the_real_world_refuses_what_it_can_not_make) {
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
TEST(Scenario, all_problems_are_reported_at_once_by_position) {
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
