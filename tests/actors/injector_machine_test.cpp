#include "actors/faults/injector_machine.hpp"

#include <gtest/gtest.h>

namespace stagecraft::test {
namespace {

using namespace std::chrono_literals;

FaultSpec fault(std::string id, FaultKind kind, Trigger trigger) {
  FaultSpec f;
  f.id = std::move(id);
  f.kind = kind;
  f.trigger = trigger;
  return f;
}
Trigger at_iteration(std::uint32_t i) {
  Trigger t;
  t.kind = Trigger::Kind::iteration;
  t.iteration = Iteration{i};
  return t;
}
Trigger drawn(Duration mtbf, std::uint32_t at_most) {
  Trigger t;
  t.kind = Trigger::Kind::drawn;
  t.time = mtbf;
  t.at_most = at_most;
  return t;
}
Happened opened(std::uint32_t i) { return {RunEvent::opened, Iteration{i}, {}, {}}; }
const std::vector<FaultSwitch> nothing;

TEST(InjectorMachine, strikes_with_an_iteration_and_heals_so_many_iterations_later) {
  FaultSpec slow = fault("slow", FaultKind::slow, at_iteration(3));
  slow.iterations = 2;
  InjectorMachine machine({slow}, {}, 1);
  EXPECT_EQ(machine.step(opened(2), 1s), nothing);
  EXPECT_EQ(machine.step(opened(3), 2s), (std::vector<FaultSwitch>{{0, true}}));
  EXPECT_EQ(machine.step(opened(3), 3s), nothing) << "an iteration that is begun again is no new one";
  EXPECT_EQ(machine.step(opened(4), 4s), nothing);
  EXPECT_EQ(machine.step(opened(5), 5s), (std::vector<FaultSwitch>{{0, false}}));
  EXPECT_EQ(machine.step(opened(6), 6s), nothing) << "it strikes once";
}

TEST(InjectorMachine, counts_time_from_the_first_iteration) {
  Trigger t;
  t.kind = Trigger::Kind::time;
  t.time = 5s;
  FaultSpec pause = fault("pause", FaultKind::pause, t);
  pause.time = 1s;
  InjectorMachine machine({pause}, {}, 1);
  machine.step(opened(1), 100s);
  ASSERT_EQ(machine.deadline(), Instant{105s});
  EXPECT_EQ(machine.tick(104s), nothing);
  EXPECT_EQ(machine.tick(105s), (std::vector<FaultSwitch>{{0, true}}));
  ASSERT_EQ(machine.deadline(), Instant{106s});
  EXPECT_EQ(machine.tick(106s), (std::vector<FaultSwitch>{{0, false}}));
  EXPECT_EQ(machine.deadline(), std::nullopt);
}

TEST(InjectorMachine, waits_for_an_event_with_all_its_conditions) {
  Trigger t;
  t.kind = Trigger::Kind::event;
  t.event.event = RunEvent::backward_started;
  t.event.stage = StageId{2};
  t.event.micro_batch = MicroBatch{3};
  InjectorMachine machine({fault("crash", FaultKind::kill, t)}, {}, 1);
  EXPECT_TRUE(machine.wants(RunEvent::backward_started));
  EXPECT_FALSE(machine.wants(RunEvent::forward_started));
  const auto event = [](std::uint32_t stage, std::uint32_t micro_batch) {
    return Happened{RunEvent::backward_started, Iteration{1}, Place{{stage}, {0}}, MicroBatch{micro_batch}};
  };
  EXPECT_EQ(machine.step(event(1, 3), 1s), nothing);
  EXPECT_EQ(machine.step(event(2, 2), 1s), nothing);
  EXPECT_EQ(machine.step(event(2, 3), 1s), (std::vector<FaultSwitch>{{0, true}}));
  EXPECT_EQ(machine.step(event(2, 3), 2s), nothing);
}

TEST(InjectorMachine, draws_its_waits_from_the_seed_and_stops_at_the_calm) {
  const auto strikes = [](std::uint64_t seed, std::optional<Calm> calm) {
    InjectorMachine machine({fault("chaos", FaultKind::kill, drawn(1s, 50))}, calm, seed);
    machine.step(opened(1), 0s);
    std::vector<Instant> all;
    while (const auto next = machine.deadline()) {
      if (calm && *next > 10s) {
        EXPECT_EQ(machine.step(opened(9), 10s), nothing);
        break;
      }
      if (!machine.tick(*next).empty()) all.push_back(*next);
    }
    return all;
  };
  const auto one = strikes(7, {});
  ASSERT_EQ(one.size(), 50U);
  EXPECT_EQ(one, strikes(7, {}));
  EXPECT_NE(one, strikes(8, {}));
  EXPECT_GT(one.back(), 25s) << "a mean of one second";
  EXPECT_LT(one.back(), 100s);
  EXPECT_LT(strikes(7, Calm{{9}, 1s, {}}).size(), 50U);
}

TEST(InjectorMachine, heals_everything_at_the_calm) {
  InjectorMachine machine({fault("down", FaultKind::link_down, {}), fault("late", FaultKind::delay, at_iteration(4))},
                          Calm{{4}, 1s, {}}, 1);
  EXPECT_EQ(machine.step(opened(1), 0s), (std::vector<FaultSwitch>{{0, true}}));
  EXPECT_EQ(machine.step(opened(4), 1s), (std::vector<FaultSwitch>{{0, false}}));
  EXPECT_EQ(machine.step(opened(5), 2s), nothing);
  EXPECT_EQ(machine.deadline(), std::nullopt);
}

}  // namespace
}  // namespace stagecraft::test
