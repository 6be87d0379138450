// A move of layers, event by event: when it waits, when it is made, and when it is given up.
#include "planning/migration_machine.hpp"

#include <gtest/gtest.h>

namespace stagecraft {
namespace {

using namespace move_event;  // NOLINT(google-build-using-namespace): whose names this file is about
using Kind = MoveVote::Kind;

class MigrationMachineTest : public ::testing::Test {
 protected:
  static constexpr Key second{{1}, {2}}, third{{1}, {3}};

  std::vector<std::string> step(const MoveEvent& event) {
    std::vector<std::string> texts;
    for (const MoveEffect& e : machine.step(event)) texts.push_back(to_text(e));
    return texts;
  }
  void begin() { step(Begin{{MoveId{1}, {{{0}, {1}, {1, 2}}}, 1}, second}); }
  void vote(Kind kind, Key key, std::uint64_t digest = 7) {
    EXPECT_TRUE(step(MoveVote{kind, MoveId{1}, key, lane, digest}).empty());
  }
  void until_voting() {
    begin();
    vote(Kind::follows, second);
    step(Opened{third});
  }
  using Texts = std::vector<std::string>;

  MigrationMachine machine;
  const MoveLane lane{{0}, {1}, {1, 2}, {0}};
};

TEST_F(MigrationMachineTest, a_move_follows_in_one_iteration_votes_in_the_next_and_is_made_with_its_end) {
  EXPECT_EQ(step(Begin{{MoveId{1}, {{{0}, {1}, {1, 2}}}, 1}, second}),
            Texts{"lead layer 1 from stage 0 to stage 1 of replica 0, epoch 1 iteration 2"});
  EXPECT_EQ(step(Boundary{}), Texts{}) << "nothing waits for a copy that does not follow yet";
  vote(Kind::follows, second);
  EXPECT_EQ(step(Boundary{}), Texts{});
  EXPECT_EQ(step(Opened{third}), Texts{"ask layer 1 from stage 0 to stage 1 of replica 0, epoch 1 iteration 3"});
  vote(Kind::owner, third);
  vote(Kind::copy, third);
  EXPECT_EQ(step(Boundary{}), Texts{"wait"});
  vote(Kind::holds, third);
  EXPECT_EQ(machine.under_way(), MoveId{1});
  EXPECT_EQ(step(Boundary{}), Texts{"flip move 1"});
  EXPECT_EQ(machine.under_way(), MoveId{}) << "it is decided";
  EXPECT_EQ(step(Boundary{}), Texts{"close move 1"});
  EXPECT_EQ(machine.phase(), MigrationMachine::Phase::idle);
}
TEST_F(MigrationMachineTest, a_copy_that_differs_is_never_taken) {
  until_voting();
  vote(Kind::owner, third, 7);
  vote(Kind::holds, third);
  vote(Kind::copy, third, 8);
  const Texts given_up = step(Boundary{});
  ASSERT_EQ(given_up.size(), 1U);
  EXPECT_NE(given_up[0].find("give up move 1: the copy differs"), std::string::npos) << given_up[0];
}
TEST_F(MigrationMachineTest, votes_of_another_iteration_or_another_move_do_not_count) {
  until_voting();
  for (const Kind kind : {Kind::owner, Kind::copy, Kind::holds}) {
    vote(kind, second);
    EXPECT_TRUE(step(MoveVote{kind, MoveId{2}, third, lane, 7}).empty());
  }
  EXPECT_EQ(step(Boundary{}), Texts{"wait"});
}
TEST_F(MigrationMachineTest, a_loss_before_the_decision_ends_it_and_one_after_it_does_not) {
  until_voting();
  EXPECT_EQ(step(Disturbed{"stage 0 is lost"}), Texts{"give up move 1: stage 0 is lost"});
  EXPECT_EQ(step(Boundary{}), Texts{});
  EXPECT_EQ(step(Disturbed{"again"}), Texts{});
  until_voting();
  for (const Kind kind : {Kind::owner, Kind::copy, Kind::holds}) vote(kind, third);
  EXPECT_EQ(step(Boundary{}), Texts{"flip move 1"});
  EXPECT_EQ(step(Disturbed{"stage 0 is lost"}), Texts{});
  EXPECT_EQ(step(Boundary{}), Texts{"close move 1"});
}
TEST_F(MigrationMachineTest, whose_vote_is_missing_when_its_time_is_up_is_said) {
  until_voting();
  vote(Kind::owner, third);
  const Texts given_up = step(TimeUp{});
  ASSERT_EQ(given_up.size(), 1U);
  EXPECT_NE(given_up[0].find("lacks the copy's digest, the word of the stage that is to have them"), std::string::npos)
      << given_up[0];
}

}  // namespace
}  // namespace stagecraft
