#include "actors/coordinator_machine.hpp"

#include <gtest/gtest.h>

#include <limits>

#include "fixture.hpp"

namespace stagecraft::test {
namespace {

using namespace std::chrono_literals;
using coordinator_effect::AskAll;
using coordinator_effect::Broadcast;
using coordinator_effect::Commit;
using coordinator_effect::End;

class CoordinatorTest : public ::testing::Test {
 protected:
  CoordinatorTest()
      : topology(load(emulated_file(), {"pipeline.stages=2", "job.iterations=3"})), machine(topology, places, 0s) {}

  std::vector<CoordinatorEffect> join_all() {
    machine.step(Joined{places[0]}, 1ms);
    return machine.step(Joined{places[1]}, 2ms);
  }
  IterationReady ready(std::uint32_t stage, std::uint32_t iteration, double square = 4.0) {
    IterationReady r;
    r.key = {{1}, {iteration}};
    r.place = places[stage];
    r.square_sum.add(square);
    r.loss.add(3.0);
    r.tokens = 5;
    r.due = 10ms * iteration;
    return r;
  }
  template <class Effect>
  static const Effect* find(const std::vector<CoordinatorEffect>& effects) {
    for (const CoordinatorEffect& e : effects)
      if (const auto* found = std::get_if<Effect>(&e)) return found;
    return nullptr;
  }

  std::vector<Place> places{{{0}, {0}}, {{1}, {0}}};
  Topology topology;
  CoordinatorMachine machine;
};

// B17
TEST_F(CoordinatorTest, Connections_are_made_before_the_first_step_in_one_agreed_order) {
  EXPECT_EQ(find<Broadcast>(machine.step(Joined{places[1]}, 1ms)), nullptr) << "one stage is missing";
  const auto effects = machine.step(Joined{places[0]}, 2ms);
  ASSERT_NE(find<Broadcast>(effects), nullptr);
  EXPECT_EQ(find<Broadcast>(effects)->open.key.iteration, Iteration{1});
  EXPECT_EQ(find<Broadcast>(effects)->open.decision.kind, Decision::Kind::none);
}

TEST_F(CoordinatorTest, a_stage_that_does_not_join_is_named) {
  machine.step(Joined{places[0]}, 1ms);
  const Instant late = topology.timeouts.stage + 1ns;
  ASSERT_NE(find<AskAll>(machine.step(Tick{}, late)), nullptr);
  const auto effects = machine.step(Tick{}, *machine.deadline() + 1ns);
  ASSERT_NE(find<End>(effects), nullptr);
  EXPECT_EQ(find<End>(effects)->ended.ending, Ending::no_progress);
  EXPECT_NE(find<End>(effects)->ended.reason.find("missing: stage 1 of replica 0"), std::string::npos);
  EXPECT_EQ(machine.deadline(), std::nullopt);
}

TEST_F(CoordinatorTest, commits_when_all_are_ready_and_opens_the_next_in_the_same_message) {
  join_all();
  EXPECT_TRUE(machine.step(ready(0, 1), 20ms).empty());
  const auto effects = machine.step(ready(1, 1), 30ms);
  ASSERT_EQ(effects.size(), 2U);
  const auto* commit = std::get_if<Commit>(&effects[0]);
  ASSERT_NE(commit, nullptr) << "the record comes before anyone is told";
  EXPECT_EQ(commit->report.tokens, 10U);
  EXPECT_DOUBLE_EQ(commit->report.loss, 0.6);
  EXPECT_DOUBLE_EQ(commit->report.gradient_norm, std::sqrt(8.0) / 10);
  const Open& open = std::get<Broadcast>(effects[1]).open;
  EXPECT_EQ(open.key.iteration, Iteration{2});
  EXPECT_EQ(open.decision.kind, Decision::Kind::step);
  EXPECT_EQ(open.decision.step, 1U);
}

TEST_F(CoordinatorTest, a_gradient_that_is_not_finite_skips_the_step_and_does_not_count_it) {
  join_all();
  machine.step(ready(0, 1), 20ms);
  auto effects = machine.step(ready(1, 1, std::numeric_limits<double>::infinity()), 30ms);
  EXPECT_TRUE(find<Commit>(effects)->report.skipped);
  EXPECT_EQ(find<Broadcast>(effects)->open.decision.kind, Decision::Kind::skip);
  machine.step(ready(0, 2), 40ms);
  effects = machine.step(ready(1, 2), 50ms);
  EXPECT_EQ(find<Broadcast>(effects)->open.decision.step, 1U) << "the first step that is taken is number 1";
}

TEST_F(CoordinatorTest, messages_of_another_key_change_nothing) {
  join_all();
  machine.step(ready(0, 1), 20ms);
  EXPECT_TRUE(machine.step(ready(1, 2), 30ms).empty());
  EXPECT_FALSE(machine.step(ready(1, 1), 30ms).empty());
}

TEST_F(CoordinatorTest, a_wish_to_stop_lets_the_iteration_end) {
  join_all();
  machine.step(ready(0, 1), 20ms);
  EXPECT_TRUE(machine.step(Stop{}, 21ms).empty());
  const auto effects = machine.step(ready(1, 1), 30ms);
  ASSERT_NE(find<Broadcast>(effects), nullptr);
  EXPECT_TRUE(find<Broadcast>(effects)->open.last);
  EXPECT_EQ(find<Broadcast>(effects)->open.decision.kind, Decision::Kind::step) << "the committed step is taken";
  machine.step(StageReport{{{1}, {2}}, {places[0], {}, {}, {}, {}, 0}}, 40ms);
  const auto end = machine.step(StageReport{{{1}, {2}}, {places[1], {}, {}, {}, {}, 0}}, 41ms);
  ASSERT_NE(find<End>(end), nullptr);
  EXPECT_EQ(find<End>(end)->ended.ending, Ending::stopped);
}

TEST_F(CoordinatorTest, an_early_tick_only_looks) {
  join_all();
  EXPECT_TRUE(machine.step(Tick{}, 3ms).empty());
  EXPECT_GT(*machine.deadline(), 3ms);
}

TEST_F(CoordinatorTest, a_long_iteration_is_probed_and_goes_on_when_no_operator_is_late) {
  join_all();
  const Instant probe = *machine.deadline();
  ASSERT_NE(find<AskAll>(machine.step(Tick{}, probe)), nullptr);
  EXPECT_TRUE(machine.step(Explanation{places[0], true, "busy", 1s}, probe + 1ms).empty());
  EXPECT_TRUE(machine.step(Explanation{places[1], true, "idle", {}}, probe + 1ms).empty());
  EXPECT_EQ(*machine.deadline(), probe + topology.timeouts.operation);
}

TEST_F(CoordinatorTest, a_message_that_comes_twice_changes_nothing) {
  join_all();
  machine.step(ready(0, 1), 20ms);
  EXPECT_TRUE(machine.step(ready(0, 1), 21ms).empty());
  EXPECT_NE(find<Commit>(machine.step(ready(1, 1), 22ms)), nullptr);
}

// -- losses
using coordinator_effect::BeginAgain;

class LossTest : public CoordinatorTest {
 protected:
  explicit LossTest() { start({"recovery.twins=true"}); }
  void start(const std::vector<std::string>& more) {
    std::vector<std::string> overrides = {"pipeline.stages=2", "job.iterations=3"};
    overrides.insert(overrides.end(), more.begin(), more.end());
    topology = load(emulated_file(), overrides);
    machine = CoordinatorMachine(topology, places, 0s);
    join_all();
  }
  static Lost killed(Member::Role role, Place place) { return {{role, place}, "it was killed"}; }
  std::vector<CoordinatorEffect> lose(Member::Role role, std::uint32_t stage, Instant now) {
    const Lost lost = killed(role, places[stage]);
    EXPECT_NE(find<Replace>(machine.step(lost, now)), nullptr);
    return machine.step(Replaced{{lost.who}}, now + 1ms);
  }
  TwinReady twin_ready(std::uint32_t stage, Key key) { return {key, places[stage]}; }
};

TEST_F(LossTest, an_iteration_is_begun_again_under_the_next_epoch_with_the_same_decision) {
  machine.step(ready(0, 1), 10ms);
  machine.step(ready(1, 1), 11ms);
  machine.step(twin_ready(0, {{1}, {1}}), 12ms);
  const auto committed = machine.step(twin_ready(1, {{1}, {1}}), 13ms);
  ASSERT_NE(find<Commit>(committed), nullptr);
  const Open first = find<Broadcast>(committed)->open;
  const auto again = lose(Member::Role::stage, 1, 20ms);
  ASSERT_NE(find<BeginAgain>(again), nullptr);
  EXPECT_NE(find<BeginAgain>(again)->why.find("stage 1 of replica 0 (it was killed)"), std::string::npos);
  const Open second = find<Broadcast>(again)->open;
  EXPECT_EQ(second.key, (Key{{2}, {2}}));
  EXPECT_EQ(second.decision, first.decision) << "who has not stepped yet can step now";
  EXPECT_FALSE(second.restores);
}

TEST_F(LossTest, nothing_is_decided_before_the_twins_hold_the_gradient) {
  machine.step(ready(0, 1), 10ms);
  EXPECT_TRUE(machine.step(ready(1, 1), 11ms).empty());
  EXPECT_TRUE(machine.step(twin_ready(0, {{1}, {1}}), 12ms).empty());
  EXPECT_TRUE(machine.step(twin_ready(0, {{1}, {1}}), 13ms).empty()) << "that came twice";
  EXPECT_NE(find<Commit>(machine.step(twin_ready(1, {{1}, {1}}), 14ms)), nullptr);
}

TEST_F(LossTest, a_stage_that_is_lost_with_its_twin_sends_everyone_back) {
  lose(Member::Role::twin, 1, 10ms);
  const auto again = lose(Member::Role::stage, 1, 20ms);
  ASSERT_NE(find<Restore>(again), nullptr);
  EXPECT_EQ(find<Restore>(again)->from, nullptr) << "the job keeps no checkpoints: the first parameters";
  EXPECT_TRUE(find<Broadcast>(again)->open.restores);
  EXPECT_EQ(find<Broadcast>(again)->open.decision.kind, Decision::Kind::none);
}

TEST_F(LossTest, a_twin_that_follows_again_is_as_good_as_the_one_before) {
  lose(Member::Role::twin, 1, 10ms);
  machine.step(TwinReady{{{2}, {1}}, places[1]}, 15ms);
  EXPECT_EQ(find<Restore>(lose(Member::Role::stage, 1, 20ms)), nullptr);
}

TEST_F(LossTest, without_twins_the_newest_checkpoint_is_looked_for) {
  start({"recovery.twins=false", "checkpoint.every=1"});
  machine = CoordinatorMachine(topology, places, 0s, CoordinatorMachine::Checkpoints{1});
  join_all();
  const auto looking = lose(Member::Role::stage, 0, 20ms);
  ASSERT_NE(find<FindCheckpoint>(looking), nullptr);
  EXPECT_EQ(find<Broadcast>(looking), nullptr);
  const auto found = machine.step(CheckpointFound{find<FindCheckpoint>(looking)->key, nullptr, {}}, 30ms);
  ASSERT_NE(find<Restore>(found), nullptr);
  EXPECT_TRUE(find<Broadcast>(found)->open.restores);
}

TEST_F(LossTest, an_iteration_that_is_begun_again_too_often_ends_the_run) {
  start({"recovery.twins=true", "recovery.attempts=2"});
  lose(Member::Role::stage, 0, 10ms);
  lose(Member::Role::stage, 1, 20ms);
  const auto effects = lose(Member::Role::stage, 0, 30ms);
  ASSERT_NE(find<End>(effects), nullptr);
  EXPECT_EQ(find<End>(effects)->ended.ending, Ending::fault);
  EXPECT_NE(find<End>(effects)->ended.reason.find("begun 3 times"), std::string::npos)
      << find<End>(effects)->ended.reason;
}

TEST_F(LossTest, who_does_not_answer_in_time_is_as_good_as_lost) {
  machine.step(Tick{}, 2ms + topology.timeouts.iteration);
  machine.step(Explanation{places[0], true, "idle", {}}, 3ms + topology.timeouts.iteration);
  const auto effects = machine.step(Tick{}, 10s + topology.timeouts.iteration);
  ASSERT_NE(find<Replace>(effects), nullptr);
  EXPECT_EQ(find<Replace>(effects)->who, (std::vector<Member>{{Member::Role::stage, places[1]}}));
}

TEST_F(LossTest, when_everyone_is_well_a_message_was_lost) {
  machine.step(Tick{}, 2ms + topology.timeouts.iteration);
  machine.step(Explanation{places[0], true, "idle", {}}, 3ms + topology.timeouts.iteration);
  const auto effects = machine.step(Explanation{places[1], true, "idle", {}}, 3ms + topology.timeouts.iteration);
  EXPECT_EQ(find<Replace>(effects), nullptr);
  ASSERT_NE(find<Broadcast>(effects), nullptr);
  EXPECT_EQ(find<Broadcast>(effects)->open.key, (Key{{2}, {1}}));
}

}  // namespace
}  // namespace stagecraft::test
