#include "actors/world/real_scheduler.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <set>

namespace stagecraft {
namespace {

using namespace std::chrono_literals;

struct Config : caf::actor_system_config {
  Config() {
    set("logger.verbosity", caf::atom("quiet"));
    set("scheduler.max-threads", std::size_t{1});
    set("scheduler.max-throughput", std::size_t{50});
    load<RealScheduler>();
  }
};

class RealSchedulerTest : public ::testing::Test {
 protected:
  // An actor that adds what it gets and remembers on which threads.
  caf::actor spawn_adder() {
    // An argument, because CAF binds a reference to null where there is none.
    const auto adder = [](caf::event_based_actor*, RealSchedulerTest* test) -> caf::behavior {
      return {[test](int x) {
        test->threads.insert(std::this_thread::get_id());
        test->sum += x;
      }};
    };
    return system.spawn(adder, this);
  }
  void wait_for_sum(int expected) const {
    const auto deadline = std::chrono::steady_clock::now() + 20s;
    while (sum != expected && std::chrono::steady_clock::now() < deadline) std::this_thread::sleep_for(1ms);
    EXPECT_EQ(sum, expected);
  }

  std::set<std::thread::id> threads;  // written by one actor
  std::atomic<int> sum = 0;
  Config config;
  caf::actor_system system{config};
};

TEST_F(RealSchedulerTest, a_thread_that_helps_runs_what_it_sent_and_wakes_nobody) {
  const caf::actor adder = spawn_adder();
  std::this_thread::sleep_for(100ms);  // the worker that started the actor sleeps again
  std::thread device([&] {
    auto& scheduler = RealScheduler::of(system);
    scheduler.help([] { return false; });  // from now on it helps after whatever it sends
    caf::anon_send(adder, 7);
    scheduler.help([] { return false; });
    EXPECT_EQ(sum, 7) << "it was done when help() returned";
    EXPECT_EQ(threads, std::set<std::thread::id>{std::this_thread::get_id()});
  });
  device.join();
  caf::anon_send_exit(adder, caf::exit_reason::kill);
}

TEST_F(RealSchedulerTest, what_comes_from_elsewhere_wakes_a_worker) {
  const caf::actor adder = spawn_adder();
  for (int i = 0; i < 100; ++i) caf::anon_send(adder, 1);
  wait_for_sum(100);
  EXPECT_FALSE(threads.contains(std::this_thread::get_id()));
  caf::anon_send_exit(adder, caf::exit_reason::kill);
}

TEST_F(RealSchedulerTest, a_helper_that_is_wanted_back_leaves_the_rest_to_a_worker) {
  std::vector<caf::actor> adders;
  std::atomic<int> total = 0;
  for (int i = 0; i < 200; ++i)
    adders.push_back(
        system.spawn([](caf::event_based_actor*,
                        std::atomic<int>* of_all) -> caf::behavior { return {[of_all](int x) { *of_all += x; }}; },
                     &total));
  std::thread device([&] {
    auto& scheduler = RealScheduler::of(system);
    scheduler.help([] { return false; });
    for (const caf::actor& adder : adders) caf::anon_send(adder, 1);
    scheduler.help([] { return true; });
  });
  device.join();
  const auto deadline = std::chrono::steady_clock::now() + 20s;
  while (total < 200 && std::chrono::steady_clock::now() < deadline) std::this_thread::sleep_for(1ms);
  EXPECT_EQ(total, 200);
  for (const caf::actor& adder : adders) caf::anon_send_exit(adder, caf::exit_reason::kill);
}

TEST_F(RealSchedulerTest, nothing_is_lost_when_helpers_and_others_send_at_once) {
  constexpr int senders = 4, messages = 2000;
  const caf::actor adder = spawn_adder();
  std::vector<std::thread> all;
  for (int s = 0; s < senders; ++s)
    all.emplace_back([&, helps = s % 2 == 0] {
      for (int i = 0; i < messages; ++i) {
        caf::anon_send(adder, 1);
        if (helps) RealScheduler::of(system).help([&] { return i % 3 == 0; });
      }
    });
  for (std::thread& t : all) t.join();
  wait_for_sum(senders * messages);
  caf::anon_send_exit(adder, caf::exit_reason::kill);
}

TEST_F(RealSchedulerTest, delayed_messages_come_when_they_are_due) {
  const caf::actor adder = spawn_adder();
  caf::delayed_anon_send(adder, 50ms, 5);
  std::this_thread::sleep_for(10ms);
  EXPECT_EQ(sum, 0);
  wait_for_sum(5);
  caf::anon_send_exit(adder, caf::exit_reason::kill);
}

}  // namespace
}  // namespace stagecraft
