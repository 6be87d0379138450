#include <algorithm>
#include <atomic>
#include <chrono>
#include <map>
#include <stdexcept>
#include <thread>

#include <gtest/gtest.h>

#include "gpu/cpu/threaded_stream.hpp"
#include "gpu/timed/timed_stream.hpp"
#include "planning/random.hpp"
#include "tests/gpu/fakes.hpp"

namespace stagecraft {
namespace {

using namespace std::chrono_literals;
using test::CompletionLog;
using test::FakeClock;

// -- the cpu device of the real world

struct ThreadedStreamTest : testing::Test {
  FakeClock clock;
  CompletionLog log;
  std::unique_ptr<Stream> stream = make_threaded_stream("a device with a long name", Urgency::compute, clock, log);
};

TEST_F(ThreadedStreamTest, bodies_run_in_order_one_at_a_time_on_another_thread) {
  std::vector<std::uint64_t> ran;
  std::atomic<int> inside = 0;
  int overlaps = 0;
  std::thread::id runner;
  for (std::uint64_t t = 1; t <= 1000; ++t)
    stream->submit({t, {}, {}, [&, t] {
                      if (++inside != 1) ++overlaps;
                      runner = std::this_thread::get_id();
                      ran.push_back(t);
                      --inside;
                    }});
  const auto entries = log.wait_for(1000);
  ASSERT_EQ(ran.size(), 1000U);
  for (std::uint64_t t = 1; t <= 1000; ++t) {
    EXPECT_EQ(ran[t - 1], t);
    EXPECT_EQ(entries[t - 1].completion.ticket, t);
    EXPECT_EQ(entries[t - 1].delay, 0ns);
    EXPECT_EQ(entries[t - 1].completion.error, "");
  }
  EXPECT_EQ(overlaps, 0);
  EXPECT_NE(runner, std::this_thread::get_id());
}

TEST_F(ThreadedStreamTest, completions_carry_the_time_of_the_clock_not_the_cost) {
  clock.set(5ms);
  stream->submit({1, 80ms, 700ms, [&] { clock.advance(10ms); }});
  stream->submit({2, {}, {}, [&] { clock.advance(3ms); }});
  const auto entries = log.wait_for(2);
  EXPECT_EQ(entries[0].completion.started, 5ms);
  EXPECT_EQ(entries[0].completion.ended, 15ms);
  EXPECT_EQ(entries[1].completion.started, 15ms);
  EXPECT_EQ(entries[1].completion.ended, 18ms);
}

TEST_F(ThreadedStreamTest, what_a_body_throws_comes_back_and_the_next_one_runs) {
  bool ran = false;
  stream->submit({1, {}, {}, [] { throw std::runtime_error("shape 3 against 4"); }});
  stream->submit({2, {}, {}, [] { throw std::runtime_error(""); }});
  stream->submit({3, {}, {}, [] { throw 7; }});
  stream->submit({4, {}, {}, {}});  // no body at all
  stream->submit({5, {}, {}, [&] { ran = true; }});
  const auto entries = log.wait_for(5);
  EXPECT_EQ(entries[0].completion.error, "shape 3 against 4");
  for (std::size_t i = 1; i < 4; ++i) EXPECT_NE(entries[i].completion.error, "") << "an empty error means none";
  EXPECT_EQ(entries[4].completion.error, "");
  EXPECT_TRUE(ran);
}

// Notes, at each report, whether something is still alive.
struct Watch final : Completions {
  std::weak_ptr<int> watched;
  std::atomic<int> reports = 0, alive = 0;
  void report(const Completion&, Duration) override {
    if (!watched.expired()) ++alive;
    ++reports;
  }
};

TEST(ThreadedStream, what_a_body_holds_is_released_before_its_completion_is_told) {
  const FakeClock clock;
  Watch watch;
  auto held = std::make_shared<int>(1);
  watch.watched = held;
  const auto stream = make_threaded_stream("s", Urgency::compute, clock, watch);
  stream->submit({1, {}, {}, [held = std::move(held)] {}});
  while (watch.reports == 0) std::this_thread::yield();
  EXPECT_EQ(watch.alive, 0);
}

TEST(ThreadedStream, its_end_waits_for_the_body_in_flight_and_drops_the_rest) {
  const FakeClock clock;
  CompletionLog log;
  std::atomic<bool> running = false, closing = false, finished = false;
  std::atomic<int> queued_ran = 0;
  const auto kept = std::make_shared<int>(1);
  auto stream = make_threaded_stream("s", Urgency::compute, clock, log);
  stream->submit({1, {}, {}, [&] {
                    running = true;
                    while (!closing) std::this_thread::yield();
                    std::this_thread::sleep_for(50ms);  // well into the destructor
                    finished = true;
                  }});
  for (std::uint64_t t = 2; t < 6; ++t) stream->submit({t, {}, {}, [&queued_ran, kept] { ++queued_ran; }});
  while (!running) std::this_thread::yield();
  closing = true;
  stream.reset();
  EXPECT_TRUE(finished);
  EXPECT_EQ(queued_ran, 0);
  EXPECT_EQ(kept.use_count(), 1) << "a dropped body is released";
  EXPECT_EQ(log.size(), 1U) << "the body in flight still reports";
}

TEST(ThreadedStream, an_idle_one_ends_at_once) {
  const FakeClock clock;
  CompletionLog log;
  for (int i = 0; i < 50; ++i) make_threaded_stream("s", Urgency::compute, clock, log).reset();
  EXPECT_EQ(log.size(), 0U);
}

// -- devices that charge costs

struct TimedStreamTest : testing::Test {
  FakeClock clock;
  CompletionLog log;
  std::uint64_t tickets = 0;

  CompletionLog::Entry run(Stream& stream, Instant not_before, Duration cost) {
    stream.submit({++tickets, not_before, cost, [] {}});
    stream.retire(tickets);
    return log.last();
  }
};

TEST_F(TimedStreamTest, exact_work_starts_at_the_latest_of_now_its_inputs_and_the_work_before) {
  const auto stream = make_timed_stream(TimerKind::exact, 1, clock, log);
  const auto expect = [&](const CompletionLog::Entry& e, Instant start, Instant end, Duration delay) {
    EXPECT_EQ(e.completion.ticket, tickets);
    EXPECT_EQ(e.completion.started, start);
    EXPECT_EQ(e.completion.ended, end);
    EXPECT_EQ(e.delay, delay);
    EXPECT_EQ(e.completion.error, "");
  };
  clock.set(2ms);
  expect(run(*stream, 0ms, 10ms), 2ms, 12ms, 10ms);   // now
  expect(run(*stream, 5ms, 10ms), 12ms, 22ms, 20ms);  // the work before
  clock.set(3ms);
  expect(run(*stream, 25ms, 5ms), 25ms, 30ms, 27ms);  // its inputs
  clock.set(50ms);
  expect(run(*stream, 0ms, 0ms), 50ms, 50ms, 0ms);
  expect(run(*stream, 50ms, 7ns), 50ms, 50ms + 7ns, 7ns);
}

// Which tickets of 1 .. count ran their body when submitted; all must have run once when retired.
std::vector<bool> inline_bodies(TimerKind timers, std::uint64_t seed, std::uint64_t count) {
  const FakeClock clock;
  CompletionLog log;
  const auto stream = make_timed_stream(timers, seed, clock, log);
  std::vector<bool> at_start;
  for (std::uint64_t t = 1; t <= count; ++t) {
    int runs = 0;
    stream->submit({t, {}, 1ms, [&runs] { ++runs; }});
    at_start.push_back(runs == 1);
    stream->retire(t);
    EXPECT_EQ(runs, 1) << t;
    stream->retire(t);
    EXPECT_EQ(runs, 1) << t;
  }
  return at_start;
}

TEST(TimedStream, the_seed_decides_whether_a_body_runs_at_the_start_or_when_it_is_retired) {
  const auto choices = inline_bodies(TimerKind::exact, 1, 400);
  const auto at_start = std::count(choices.begin(), choices.end(), true);
  EXPECT_GT(at_start, 120);
  EXPECT_LT(at_start, 280);
  EXPECT_EQ(inline_bodies(TimerKind::exact, 1, 400), choices) << "a seed is a whole run";
  EXPECT_NE(inline_bodies(TimerKind::exact, 2, 400), choices);
}

TEST(TimedStream, with_late_timers_every_body_runs_at_the_start) {
  EXPECT_EQ(inline_bodies(TimerKind::late, 1, 100), std::vector<bool>(100, true));
}

TEST(TimedStream, several_bodies_may_wait_for_their_retirement_and_none_runs_before_the_one_ahead_of_it) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    const FakeClock clock;
    CompletionLog log;
    const auto stream = make_timed_stream(TimerKind::exact, seed, clock, log);
    std::vector<std::uint64_t> ran;
    for (std::uint64_t t = 1; t <= 50; ++t) stream->submit({t, {}, 1ms, [&ran, t] { ran.push_back(t); }});
    EXPECT_LT(ran.size(), 50U);
    for (std::uint64_t t = 1; t <= 50; ++t) stream->retire(t);
    ASSERT_EQ(ran.size(), 50U);
    EXPECT_TRUE(std::is_sorted(ran.begin(), ran.end())) << "seed " << seed;
  }
}

TEST(TimedStream, what_a_body_throws_passes_through_the_call_that_ran_it) {
  const FakeClock clock;
  CompletionLog log;
  const auto stream = make_timed_stream(TimerKind::exact, 1, clock, log);
  int caught = 0;
  for (std::uint64_t t = 1; t <= 20; ++t) {
    try {
      stream->submit({t, {}, 1ms, [] { throw std::runtime_error("no"); }});
      stream->retire(t);
    } catch (const std::runtime_error&) {
      ++caught;
    }
  }
  EXPECT_EQ(caught, 20);
}

// Runs 100 works of 10 ms, each submitted when the completion before it came, every completion 3 ms late. The end.
Instant run_late(TimerKind timers) {
  FakeClock clock;
  CompletionLog log;
  const auto stream = make_timed_stream(timers, 1, clock, log);
  clock.set(1ms);
  Instant inputs{};
  for (std::uint64_t t = 1; t <= 100; ++t) {
    stream->submit({t, inputs, 10ms, [] {}});
    const auto entry = log.last();
    clock.advance(entry.delay + 3ms);
    inputs = entry.completion.ended;
  }
  return inputs;
}

TEST(TimedStream, lateness_of_timers_does_not_add_up_in_due_times) {
  EXPECT_EQ(run_late(TimerKind::late), 1ms + 100 * 10ms);
  EXPECT_EQ(run_late(TimerKind::exact), 1ms + 100 * 10ms + 99 * 3ms) << "or this test would prove nothing";
}

TEST_F(TimedStreamTest, late_work_starts_at_the_later_of_its_inputs_and_the_work_before) {
  const auto stream = make_timed_stream(TimerKind::late, 1, clock, log);
  clock.set(4ms);
  EXPECT_EQ(run(*stream, 0ms, 10ms).completion.started, 4ms) << "the first of all starts now";
  clock.set(17ms);  // three late
  const auto second = run(*stream, 14ms, 10ms);
  EXPECT_EQ(second.completion.started, 14ms);
  EXPECT_EQ(second.completion.ended, 24ms);
  EXPECT_EQ(second.delay, 7ms) << "the delay makes up for it";
  clock.set(60ms);
  const auto third = run(*stream, 30ms, 10ms);
  EXPECT_EQ(third.completion.ended, 40ms);
  EXPECT_EQ(third.delay, 0ms) << "never negative";
  EXPECT_EQ(run(*stream, 35ms, 1ms).completion.started, 40ms);
}

}  // namespace
}  // namespace stagecraft
