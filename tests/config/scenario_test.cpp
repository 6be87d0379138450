// Scenario files by themselves: every key as a value, and a head that is read strictly.
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
  EXPECT_EQ(only_fault(load_good(scenario_of(kill_fault))).trigger.kind, Kind::start);
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
    const FaultSpec fault =
        load_good(scenario_of(kill_fault + fmt::format(", {{ id: f, when: {{ event: {} }}, do: kill, on: "
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
  const Expectation during = expectation_of("iteration_time: { during: slow, settle: 3, at_most: 1.10x }", slow_fault);
  EXPECT_EQ(during.kind, Kind::iteration_time);
  EXPECT_EQ(during.fault, "slow");
  EXPECT_FALSE(during.after || during.within);
  EXPECT_EQ(during.settle, 3U);
  EXPECT_EQ(during.ratio, 1.10);
  const Expectation after = expectation_of("iteration_time: { after: slow, at_most: 450ms }", slow_fault);
  EXPECT_TRUE(after.after && !after.ratio);
  EXPECT_EQ(after.settle, 0U);
  EXPECT_EQ(after.within, 450ms);
  EXPECT_EQ(expectation_of("iteration_time: { at_most: 1000x }").fault, "");
  const Expectation progress = expectation_of("progress: { within: 20s, after: kill }", kill_fault);
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

}  // namespace
}  // namespace stagecraft
