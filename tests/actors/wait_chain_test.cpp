#include "actors/wait_chain.hpp"

#include <gtest/gtest.h>

#include "actors/event_ring.hpp"

namespace stagecraft {
namespace {

using namespace std::chrono_literals;

std::vector<Place> pipeline(std::uint32_t stages) {
  std::vector<Place> places;
  for (std::uint32_t s = 0; s < stages; ++s) places.push_back({{s}, {0}});
  return places;
}

Explanation waits(std::uint32_t stage, std::uint32_t for_stage) {
  Explanation x{.place = {{stage}, {0}}, .joined = true, .text = "idle; next waits", .idle = 30s};
  x.waits_for = {{for_stage}};
  return x;
}

std::vector<std::uint32_t> order_of(const WaitChain& chain) {
  std::vector<std::uint32_t> stages;
  for (const AnswerRow& row : chain.rows)
    stages.push_back(static_cast<std::uint32_t>(std::stoul(row.who.substr(std::string("stage ").size()))));
  return stages;
}

TEST(WaitChain, ends_at_the_device_that_is_busy) {
  const auto places = pipeline(5);
  std::map<Place, Explanation> answers;
  for (const std::uint32_t s : {0U, 1U}) answers[places[s]] = waits(s, s + 1);
  for (const std::uint32_t s : {3U, 4U}) answers[places[s]] = waits(s, s - 1);
  answers[places[2]] = {.place = places[2], .joined = true, .text = "its device is busy with 2F5", .busy = 31s};
  const WaitChain chain = wait_chain(places, answers);
  EXPECT_EQ(order_of(chain), (std::vector<std::uint32_t>{2, 1, 3, 0, 4})) << "the nearest first";
  EXPECT_EQ(chain.text, "stage 2 of replica 0: its device is busy with 2F5; 4 wait for it");
  EXPECT_EQ(chain.rows[0].age, 31s);
  EXPECT_EQ(chain.rows[1].what, "idle; next waits, which stage 2 is to give");
}

TEST(WaitChain, puts_the_silent_before_the_busy) {
  const auto places = pipeline(3);
  std::map<Place, Explanation> answers;
  answers[places[0]] = {.place = places[0], .joined = true, .text = "busy", .busy = 1s};
  answers[places[1]] = waits(1, 0);
  EXPECT_EQ(order_of(wait_chain(places, answers)), (std::vector<std::uint32_t>{2, 0, 1}));
}

// Which is what a lost message leaves behind.
TEST(WaitChain, knows_a_ring) {
  const auto places = pipeline(3);
  std::map<Place, Explanation> answers;
  answers[places[0]] = waits(0, 1);
  answers[places[1]] = waits(1, 0);
  answers[places[2]] = waits(2, 1);
  const WaitChain chain = wait_chain(places, answers);
  EXPECT_EQ(chain.rows.size(), 3U);
  EXPECT_EQ(order_of(chain).front(), 0U);
  EXPECT_EQ(chain.text,
            "stage 0 of replica 0 and stage 1 wait for each other: what one of them gave is held by the link between "
            "them, or lost");
}

Event ran(std::uint32_t stage, std::uint32_t iteration, Instant at) {
  Event event{.kind = EventKind::ran, .at = at, .start = at - 10ms, .key = {{1}, {iteration}}};
  event.place = Place{{stage}, {0}};
  event.op = Operator{OperatorKind::forward, {stage}, {iteration}};
  return event;
}

TEST(EventRing, keeps_the_newest_and_finds_those_that_are_asked_for) {
  EventRing ring(4);
  for (std::uint32_t n = 1; n <= 7; ++n) ring.push(n, ran(n % 2, n, n * 1s));
  ASSERT_EQ(ring.all().size(), 4U);
  EXPECT_EQ(ring.all().front().key.iteration, Iteration{4});
  const WishAnswer all = ring.find({.wish = {3}, .most = 10}, 10s);
  EXPECT_EQ(all.wish, WishId{3});
  ASSERT_EQ(all.rows.size(), 4U);
  EXPECT_EQ(all.rows.back().number, 7U);
  EXPECT_EQ(all.rows.back().age, 3s);
  EXPECT_EQ(all.rows.back().who, "stage 1 of replica 0");
  EXPECT_EQ(all.rows.back().what, "ran 1F7 for 10 ms");
  const WishAnswer of_stage = ring.find({.wish = {}, .most = 10, .of = {{{0}, {0}}}}, 10s);
  ASSERT_EQ(of_stage.rows.size(), 2U);
  EXPECT_EQ(of_stage.rows[0].iteration, Iteration{4});
  EXPECT_EQ(ring.find({.wish = {}, .after = 6, .most = 10}, 10s).rows.size(), 1U);
  EXPECT_EQ(ring.find({.wish = {}, .most = 1}, 10s).rows.front().number, 7U);
}

TEST(EventRing, tells_decisions_from_work) {
  EXPECT_FALSE(is_decision(ran(0, 1, 1s)));
  EXPECT_TRUE(is_decision({.kind = EventKind::planned, .text = "why"}));
}

TEST(EventRing, many_findings_do_not_crowd_out_the_decisions) {
  EventRing decisions(9), findings(9);
  for (std::uint64_t n = 1; n <= 9; ++n) {
    decisions.push(2 * n, {.kind = EventKind::planned, .text = "d"});
    findings.push(100 + n, {.kind = EventKind::straggler, .text = "f"});
  }
  const WishAnswer both = find_decisions(decisions, findings, {.wish = {}, .most = 6}, 1s);
  std::vector<std::uint64_t> numbers;
  for (const AnswerRow& row : both.rows) numbers.push_back(row.number);
  EXPECT_EQ(numbers, (std::vector<std::uint64_t>{14, 16, 18, 107, 108, 109}));
  EXPECT_EQ(find_decisions(decisions, EventRing(9), {.wish = {}, .most = 6}, 1s).rows.size(), 6U);
}

}  // namespace
}  // namespace stagecraft
