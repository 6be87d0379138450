#include "actors/checkpointer_machine.hpp"

#include <gtest/gtest.h>

#include "planning/bug.hpp"

namespace stagecraft {
namespace {

using checkpointer_effect::Finish;
using checkpointer_effect::Write;
using checkpointer_event::Begun;
using checkpointer_event::Lent;
using checkpointer_event::Written;

Key key(std::uint32_t iteration) { return {Epoch{1}, Iteration{iteration}}; }
Begun begun(std::uint32_t iteration) { return {BeginCheckpoint{key(iteration), iteration - 1, 0, 0}}; }
Lent lent(std::uint32_t iteration, std::uint32_t stage) { return {key(iteration), Place{{stage}, {0}}}; }

// The iteration whose write starts with these effects; empty when none does.
std::optional<std::uint32_t> started(const std::vector<CheckpointerEffect>& effects) {
  for (const CheckpointerEffect& e : effects)
    if (const auto* write = std::get_if<Write>(&e)) return write->begin.iteration;
  return std::nullopt;
}

TEST(CheckpointerMachine, writes_when_every_stage_has_lent_its_state_in_whatever_order) {
  CheckpointerMachine machine(2);
  EXPECT_TRUE(machine.step(lent(5, 1)).empty());
  EXPECT_TRUE(machine.step(begun(5)).empty());
  EXPECT_EQ(started(machine.step(lent(5, 0))), 4U);
  CheckpointerMachine other(2);
  EXPECT_TRUE(other.step(begun(5)).empty());
  EXPECT_TRUE(other.step(lent(5, 0)).empty());
  EXPECT_EQ(started(other.step(lent(5, 1))), 4U);
}
TEST(CheckpointerMachine, writes_one_at_a_time_and_the_oldest_first) {
  CheckpointerMachine machine(1);
  machine.step(begun(5));
  EXPECT_EQ(started(machine.step(lent(5, 0))), 4U);
  EXPECT_TRUE(machine.step(begun(7)).empty());
  EXPECT_TRUE(machine.step(lent(7, 0)).empty()) << "the first is still being written";
  const auto effects = machine.step(Written{""});
  ASSERT_EQ(effects.size(), 2U);
  EXPECT_EQ(std::get<Finish>(effects[0]).begin.iteration, 4U);
  EXPECT_EQ(started(effects), 6U);
}
TEST(CheckpointerMachine, hands_on_what_went_wrong_and_goes_on) {
  CheckpointerMachine machine(1);
  machine.step(begun(5));
  machine.step(lent(5, 0));
  const auto effects = machine.step(Written{"the disk is full"});
  ASSERT_EQ(effects.size(), 1U);
  EXPECT_EQ(std::get<Finish>(effects[0]).error, "the disk is full");
  machine.step(begun(9));
  EXPECT_EQ(started(machine.step(lent(9, 0))), 8U);
}
TEST(CheckpointerMachine, a_state_that_is_lent_twice_is_a_bug) {
  CheckpointerMachine machine(2);
  machine.step(lent(5, 0));
  EXPECT_THROW(machine.step(lent(5, 0)), Bug);
  EXPECT_THROW(CheckpointerMachine(1).step(Written{""}), Bug);
}

TEST(CheckpointerMachine, gives_back_what_an_aborted_iteration_has_lent) {
  CheckpointerMachine machine(2);
  machine.step(begun(5));
  machine.step(lent(5, 0));
  const BeginCheckpoint again{{Epoch{2}, Iteration{5}}, 4, 0, 0};
  const auto effects = machine.step(Begun{again});
  ASSERT_EQ(effects.size(), 1U);
  EXPECT_EQ(std::get<checkpointer_effect::Drop>(effects[0]).key, key(5));
  machine.step(Lent{again.key, Place{{0}, {0}}});
  EXPECT_EQ(started(machine.step(Lent{again.key, Place{{1}, {0}}})), 4U);
}
TEST(CheckpointerMachine, a_save_that_lost_its_beginning_blocks_no_later_one) {
  CheckpointerMachine machine(1);
  machine.step(lent(5, 0));
  machine.step(begun(9));
  const auto effects = machine.step(lent(9, 0));
  EXPECT_EQ(started(effects), 8U);
  EXPECT_EQ(std::get<checkpointer_effect::Drop>(effects[0]).key, key(5));
}

}  // namespace
}  // namespace stagecraft
