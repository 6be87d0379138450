// What people ask of the coordinator while a job runs: pauses, and who waits for whom.
#include <gtest/gtest.h>

#include "actors/coordinator_machine.hpp"
#include "fixture.hpp"

namespace stagecraft::test {
namespace {

using namespace std::chrono_literals;
using Effects = std::vector<CoordinatorEffect>;

template <class Effect>
const Effect* first_of(const Effects& effects) {
  for (const CoordinatorEffect& e : effects)
    if (const auto* found = std::get_if<Effect>(&e)) return found;
  return nullptr;
}

const WishAnswer* answer_among(const Effects& effects) {
  const auto* found = first_of<coordinator_effect::Answer>(effects);
  return found ? &found->answer : nullptr;
}

const Open* open_among(const Effects& effects) {
  const auto* found = first_of<coordinator_effect::Broadcast>(effects);
  return found ? &found->open : nullptr;
}

class PauseTest : public ::testing::Test {
 protected:
  PauseTest()
      : topology(load(emulated_file(), {"pipeline.stages=2", "job.iterations=3"})), machine(topology, places, 0s) {
    machine.step(Joined{places[0]}, 1ms);
    machine.step(Joined{places[1]}, 2ms);
  }
  // Everything of the iteration is there.
  Effects complete(std::uint32_t iteration, Instant now, Epoch epoch = {1}) {
    Effects all;
    for (const Place p : places)
      for (CoordinatorEffect& e : machine.step(IterationReady{{epoch, {iteration}}, p, {}, {}, 5, now}, now))
        all.push_back(std::move(e));
    return all;
  }

  std::vector<Place> places{{{0}, {0}}, {{1}, {0}}};
  Topology topology;
  CoordinatorMachine machine;
};

TEST_F(PauseTest, the_iteration_that_runs_is_finished_and_no_other_one_opens_before_people_say_so) {
  const Effects asked = machine.step(Pause{{1}, "by hand"}, 3ms);
  EXPECT_FALSE(answer_among(asked)) << "it is running yet";
  ASSERT_TRUE(first_of<coordinator_effect::PauseTold>(asked));
  EXPECT_NE(first_of<coordinator_effect::PauseTold>(asked)->text.find("by hand"), std::string::npos);
  const Effects held = complete(1, 10ms);
  ASSERT_TRUE(answer_among(held));
  EXPECT_EQ(answer_among(held)->fate, WishAnswer::Fate::done);
  EXPECT_EQ(answer_among(held)->iteration, Iteration{0}) << "the last one that is decided";
  EXPECT_FALSE(open_among(held));
  EXPECT_FALSE(machine.deadline()) << "its deadlines stand still with it";
  EXPECT_TRUE(machine.step(Tick{}, 10h).empty());

  const Effects gone_on = machine.step(Resume{{2}, "by hand"}, 10h);
  ASSERT_TRUE(open_among(gone_on));
  EXPECT_EQ(open_among(gone_on)->key.iteration, Iteration{2});
  EXPECT_EQ(open_among(gone_on)->due, 10h) << "nothing is due in a pause";
  const auto* commit = first_of<coordinator_effect::Commit>(gone_on);
  ASSERT_TRUE(commit);
  EXPECT_EQ(commit->report.wall, 8ms) << "a pause is not work";
  EXPECT_EQ(machine.deadline(), 10h + std::min(topology.timeouts.iteration, topology.timeouts.operation));
}

TEST_F(PauseTest, whoever_asks_in_a_pause_is_answered_at_once) {
  machine.step(Pause{{1}, "a"}, 3ms);
  complete(1, 10ms);
  const Effects again = machine.step(Pause{{2}, "b"}, 11ms);
  ASSERT_TRUE(answer_among(again));
  EXPECT_EQ(answer_among(again)->wish, WishId{2});
  EXPECT_EQ(answer_among(again)->fate, WishAnswer::Fate::done);
}

TEST_F(PauseTest, without_a_pause_nothing_is_resumed_and_a_resume_before_it_begins_undoes_it) {
  EXPECT_EQ(answer_among(machine.step(Resume{{1}, "a"}, 3ms))->fate, WishAnswer::Fate::refused);
  machine.step(Pause{{2}, "a"}, 4ms);
  const Effects undone = machine.step(Resume{{3}, "a"}, 5ms);
  std::map<std::uint32_t, WishAnswer::Fate> fates;
  for (const CoordinatorEffect& e : undone)
    if (const auto* x = std::get_if<coordinator_effect::Answer>(&e)) fates[x->answer.wish.value] = x->answer.fate;
  EXPECT_EQ(fates,
            (std::map<std::uint32_t, WishAnswer::Fate>{{2, WishAnswer::Fate::given_up}, {3, WishAnswer::Fate::done}}));
  EXPECT_TRUE(open_among(complete(1, 10ms)));
}

TEST_F(PauseTest, after_the_last_iteration_there_is_none_to_hold_back) {
  complete(1, 10ms);
  complete(2, 20ms);
  EXPECT_EQ(answer_among(machine.step(Pause{{1}, "a"}, 21ms))->fate, WishAnswer::Fate::refused);
  EXPECT_TRUE(open_among(complete(3, 30ms))->last);
}

TEST_F(PauseTest, the_wish_to_end_ends_it) {
  machine.step(Pause{{1}, "a"}, 3ms);
  complete(1, 10ms);
  const Effects ends = machine.step(Stop{}, 1s);
  ASSERT_TRUE(open_among(ends));
  EXPECT_TRUE(open_among(ends)->last);
}

TEST_F(PauseTest, a_loss_in_a_pause_is_made_good_and_the_job_pauses_again) {
  topology = load(emulated_file(), {"pipeline.stages=2", "job.iterations=3", "recovery.twins=true"});
  machine = CoordinatorMachine(topology, places, 0s);
  for (const Place p : places) machine.step(Joined{p}, 1ms);
  const auto twins_follow = [&](Epoch epoch, Instant now) {
    for (const Place p : places) machine.step(TwinReady{{epoch, {1}}, p}, now);
  };
  machine.step(Pause{{1}, "a"}, 3ms);
  twins_follow({1}, 9ms);
  ASSERT_TRUE(answer_among(complete(1, 10ms)));
  const Member who{Member::Role::stage, places[1]};
  machine.step(Lost{who, "killed"}, 1h);
  EXPECT_TRUE(machine.deadline()) << "the rebuilding has one";
  const Effects again = machine.step(Replaced{{who}}, 1h + 1ms);
  ASSERT_TRUE(open_among(again));
  EXPECT_EQ(open_among(again)->key, (Key{{2}, {1}}));
  twins_follow({2}, 1h + 2ms);
  EXPECT_FALSE(open_among(complete(1, 1h + 3ms, {2})));
  EXPECT_FALSE(machine.deadline());
  EXPECT_EQ(open_among(machine.step(Resume{{2}, "a"}, 2h))->key.iteration, Iteration{2});
}

// B34
TEST_F(PauseTest, A_hang_names_the_one_who_is_missing) {
  const Effects asked = machine.step(AskWaits{{7}}, 1s);
  EXPECT_TRUE(first_of<coordinator_effect::AskAll>(asked));
  EXPECT_FALSE(first_of<coordinator_effect::AskAll>(machine.step(AskWaits{{8}}, 1s))) << "one question serves both";
  Explanation waits{.place = places[0], .joined = true, .text = "idle; next 0B0 waits for its gradient", .idle = 31s};
  waits.waits_for = {{1}};
  EXPECT_TRUE(machine.step(waits, 1s + 1ms).empty());
  EXPECT_LE(*machine.deadline(), 2s);
  const Effects told = machine.step(Tick{}, 2s);
  std::size_t answers = 0;
  for (const CoordinatorEffect& e : told) {
    const auto* x = std::get_if<coordinator_effect::Answer>(&e);
    if (!x) continue;
    ++answers;
    ASSERT_EQ(x->answer.rows.size(), 2U);
    EXPECT_EQ(x->answer.rows[0].who, "stage 1 of replica 0") << "who says nothing comes first";
    EXPECT_EQ(x->answer.rows[0].what, "does not answer");
    EXPECT_EQ(x->answer.rows[1].age, 31s);
    EXPECT_NE(x->answer.text.find("not ready: stage 0 of replica 0, stage 1 of replica 0"), std::string::npos)
        << x->answer.text;
  }
  EXPECT_EQ(answers, 2U);
}

}  // namespace
}  // namespace stagecraft::test
