// Single faults, and what the judge says of runs that do not keep what was expected.
#include "actors/faults/scenario_run.hpp"

#include <gtest/gtest.h>

#include "actors/faults/judge.hpp"
#include "config/load_scenario.hpp"
#include "fixture.hpp"

namespace stagecraft::test {
namespace {

using namespace std::chrono_literals;

struct Played {
  Scenario scenario;
  ScenarioRecord record;
  RunResult fault_free;
  std::vector<Broken> broken;
};

// `more`: what follows the head of the scenario file.
Played play(const std::string& topology_text, const std::vector<std::string>& overrides, const std::string& more,
            std::uint64_t seed = 1) {
  const Topology topology = load(topology_text, overrides);
  auto loaded = load_scenario("s.yaml", "version: 1\nname: test\ntopology: t.yaml\n" + more);
  for (const Diagnostic& d : loaded.diagnostics) ADD_FAILURE() << to_text(d);
  Played p;
  p.scenario = *loaded.scenario;
  for (const Diagnostic& d : check_against(p.scenario, topology)) ADD_FAILURE() << to_text(d);
  p.fault_free = run_scenario(p.scenario, topology, 1, text_disk(), FaultsOf::nobody).result;
  p.record = run_scenario(p.scenario, topology, seed, text_disk());
  p.broken = judge(p.scenario, p.record, p.fault_free);
  return p;
}
std::string texts(const std::vector<Broken>& broken) {
  std::string out;
  for (const Broken& b : broken) out += b.what + ": " + b.text + "\n";
  return out;
}
Duration time_of(const RunResult& r, std::size_t i) { return r.iterations.at(i).time; }

const std::vector<std::string> four_stages = {"pipeline.stages=4", "job.iterations=6"};

TEST(Faults, a_delayed_link_makes_its_iterations_longer_and_no_others) {
  const Played p = play(emulated_file(), four_stages,
                        "faults: [{ id: late, at: { iteration: 3 }, do: delay, on: { link: [0, 1] }, with: { constant: "
                        "30ms }, for: { iterations: 2 } }]\n"
                        "expect: [{ iteration_time: { during: late, at_most: 1.05x } }, { iteration_time: { after: "
                        "late, at_most: 1x } }, { loss: { equals: fault_free } }]\n");
  EXPECT_EQ(time_of(p.record.result, 1), time_of(p.fault_free, 1));
  EXPECT_GT(time_of(p.record.result, 2), time_of(p.fault_free, 2) + 29ms);
  EXPECT_EQ(time_of(p.record.result, 4), time_of(p.fault_free, 4));
  ASSERT_EQ(p.broken.size(), 1U) << texts(p.broken);
  EXPECT_EQ(p.broken[0].what, "iteration_time");
  EXPECT_EQ(p.broken[0].at.line, 5U);
}

TEST(Faults, a_slow_device_takes_so_many_times_longer) {
  const Played p = play(emulated_file(), {"pipeline.stages=1", "job.iterations=3"},
                        "faults: [{ id: slow, at: { iteration: 2 }, do: slow, on: { stage: 0 }, with: { factor: 3 }, "
                        "for: { iterations: 1 } }]\n");
  EXPECT_EQ(time_of(p.record.result, 1), 3 * time_of(p.fault_free, 1));
  EXPECT_EQ(time_of(p.record.result, 2), time_of(p.fault_free, 2));
  EXPECT_TRUE(p.broken.empty()) << texts(p.broken);
}

TEST(Faults, a_link_that_is_down_holds_tensors_until_it_heals) {
  const Played p = play(emulated_file(), four_stages,
                        "faults: [{ id: down, at: { iteration: 2 }, do: link_down, on: { link: [1, 2] }, for: { time: "
                        "5s } }]\n");
  EXPECT_GT(time_of(p.record.result, 1), 5s);
  EXPECT_LT(time_of(p.record.result, 1), 6s);
  EXPECT_EQ(p.record.result.begun_again, 0U);
  EXPECT_TRUE(p.broken.empty()) << texts(p.broken);
}

TEST(Faults, a_device_that_pauses_for_too_long_is_replaced_by_one_that_nobody_has) {
  const std::string text =
      "faults: [{ id: stuck, at: { iteration: 2 }, do: pause, on: { stage: 2 }, for: { time: 1h } }]\n"
      "expect: [{ progress: { within: 150s, after: stuck } }]\n";
  auto twins = four_stages;
  twins.push_back("recovery.twins=true");
  const Played p = play(emulated_file(), twins, text);
  EXPECT_TRUE(p.broken.empty()) << texts(p.broken);
  EXPECT_EQ(p.record.result.losses, 1U);
  twins.push_back("nodes.0.devices.0.count=4");
  const Played none_left = play(emulated_file(), twins, text);
  EXPECT_EQ(none_left.record.result.ending, Ending::no_progress) << none_left.record.result.reason;
  EXPECT_GT(none_left.record.result.losses, 1U);
}

TEST(Faults, an_operator_without_memory_costs_the_stage_and_no_bits) {
  auto twins = four_stages;
  twins.push_back("recovery.twins=true");
  const Played p = play(emulated_file(), twins,
                        "faults: [{ id: full, when: { event: forward_started, stage: 1, micro_batch: 2, iteration: 3 "
                        "}, do: oom, on: { stage: 1 } }]\n");
  EXPECT_TRUE(p.broken.empty()) << texts(p.broken);
  EXPECT_EQ(p.record.result.losses, 1U);
  EXPECT_EQ(p.record.result.begun_again, 1U);
}

TEST(Faults, what_is_no_number_costs_a_step_that_says_so) {
  const Played p = play(tiny_file(), four_stages,
                        "faults: [{ id: bad, at: { iteration: 3 }, do: nan, on: { stage: 1 } }]\n"
                        "expect: [{ loss: { equals: fault_free } }]\n");
  EXPECT_TRUE(p.record.result.iterations.at(2).skipped);
  EXPECT_FALSE(p.record.result.iterations.at(3).skipped);
  EXPECT_FALSE(p.broken.empty()) << "it can't have the bits of a run that stepped";
}

// Whichever operation of the last save is struck: the run goes on, and the newest sound checkpoint is the one before,
// or the last one where the fault met nothing that counts.
TEST(Faults, a_damaged_checkpoint_is_passed_over) {
  const std::vector<std::string> saving = {"pipeline.stages=2", "job.iterations=6", "checkpoint.every=2"};
  for (const std::string kind : {"disk_full", "torn_write", "flip"}) {
    int passed_over = 0;
    for (int operation = 1; operation <= 12; ++operation) {
      const Played p = play(tiny_file(), saving,
                            fmt::format("faults: [{{ id: bad, when: {{ event: saving, iteration: 6 }}, do: {}, on: {{ "
                                        "disk: checkpoints }}, with: {{ operation: {} }} }}]\n",
                                        kind, operation),
                            static_cast<std::uint64_t>(operation));  // an order in which it strikes in time
      EXPECT_EQ(p.record.result.ending, Ending::done) << p.record.result.reason;
      EXPECT_TRUE(p.broken.empty()) << texts(p.broken);
      EXPECT_TRUE(p.record.newest_checkpoint == 4 || p.record.newest_checkpoint == 6) << p.record.newest_checkpoint;
      passed_over += p.record.newest_checkpoint == 4;
    }
    EXPECT_GE(passed_over, 2) << kind;
  }
}

TEST(Faults, every_control_message_may_be_lost_doubled_and_late) {
  std::vector<std::string> tries = {"pipeline.stages=3",     "job.iterations=6",      "recovery.twins=true",
                                    "recovery.attempts=100", "timeouts.operation=1s", "timeouts.iteration=2s",
                                    "timeouts.stage=3s",     "timeouts.node=4s"};
  const Played p = play(tiny_file(), tries,
                        "faults:\n"
                        "  - { id: lost, do: drop, with: { probability: 0.01 } }\n"
                        "  - { id: twice, do: duplicate, with: { probability: 0.3 } }\n"
                        "  - { id: late, do: reorder, with: { probability: 0.3, mean: 1ms } }\n");
  EXPECT_TRUE(p.broken.empty()) << texts(p.broken) << p.record.last_events;
  EXPECT_GT(p.record.result.begun_again, 0U);
}

TEST(Scenario, that_never_ends_stops_at_its_deadline_and_says_who_waits_for_whom) {
  const Played p = play(emulated_file(), four_stages,
                        "faults: [{ id: down, at: { iteration: 2 }, do: link_down, on: { link: [1, 2] } }]\n"
                        "deadline: 20s\n");
  EXPECT_EQ(p.record.result.ending, Ending::no_progress);
  EXPECT_NE(p.record.result.reason.find("did not end within 20 s"), std::string::npos) << p.record.result.reason;
  EXPECT_NE(p.record.result.reason.find("stage 2 of replica 0: idle"), std::string::npos) << p.record.result.reason;
  EXPECT_FALSE(p.broken.empty());
}

TEST(Scenario, progress_after_a_fault_that_never_struck_is_no_progress) {
  const Played p = play(emulated_file(), four_stages,
                        "faults: [{ id: never, at: { time: 500s }, do: slow, on: { stage: 1 }, with: { factor: 2 } }]\n"
                        "expect: [{ progress: { within: 60s, after: never } }]\n");
  EXPECT_NE(texts(p.broken).find("fault 'never' did not strike"), std::string::npos) << texts(p.broken);
}

// The first event of a run is not missed, whoever runs first.
TEST(Scenario, a_fault_of_the_start_strikes_with_the_first_iteration_in_every_order) {
  const Topology topology = load(emulated_file(), four_stages);
  Scenario scenario;
  scenario.deadline = 600s;
  FaultSpec slow;
  slow.id = "slow";
  slow.kind = FaultKind::slow;
  slow.on.kind = FaultTarget::Kind::stage;
  slow.factor = 2;
  scenario.faults = {slow};
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    const ScenarioRecord record = run_scenario(scenario, topology, seed, text_disk());
    ASSERT_EQ(record.moments.size(), 1U) << "seed " << seed;
    ASSERT_EQ(record.moments[0].iteration, Iteration{1}) << "seed " << seed;
  }
}

// Whoever is held when the run is over is let go of with it: nothing of the run outlives it.
TEST(Scenario, that_ends_while_a_partition_holds_messages_leaves_nothing_behind) {
  const std::string devices =
      "devices: [{ kind: emulated, count: 2, memory: 8GiB, costs: { forward: 10ms, "
      "backward_input: 10ms, backward_weight: 10ms } }]";
  const Played p = play(emulated_file(),
                        {"pipeline.stages=4", "job.iterations=6",
                         fmt::format("nodes=[{{ name: a, {} }}, {{ name: b, {} }}]", devices, devices)},
                        "faults: [{ id: cut, at: { iteration: 2 }, do: partition, on: { nodes: [a, b] } }]\n"
                        "deadline: 20s\n");
  EXPECT_EQ(p.record.result.ending, Ending::no_progress);
}

TEST(Scenario, expectations_that_are_not_kept_are_named_with_the_numbers) {
  const Played p = play(emulated_file(), four_stages,
                        "faults: [{ id: down, at: { iteration: 2 }, do: link_down, on: { link: [1, 2] }, for: { time: "
                        "5s } }]\n"
                        "expect:\n"
                        "  - progress: { within: 1s, after: down }\n"
                        "  - iteration_time: { at_most: 450ms }\n"
                        "calm: { iteration: 3, progress: { within: 100ms } }\n");
  const std::string all = texts(p.broken);
  EXPECT_NE(all.find("progress: iteration 2 was committed 5"), std::string::npos) << all;
  EXPECT_NE(all.find("iteration_time: "), std::string::npos) << all;
  EXPECT_NE(all.find("calm: iteration 3 took "), std::string::npos) << all;
}

}  // namespace
}  // namespace stagecraft::test
