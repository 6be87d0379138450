#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "actors/chrome_trace.hpp"
#include "actors/event.hpp"
#include "actors/stage_inbox.hpp"
#include "planning/bug.hpp"

namespace stagecraft::test {
namespace {

using namespace std::chrono_literals;

Tokens tokens(std::uint32_t chunk, std::uint32_t micro_batch) {
  auto batch = std::make_shared<TokenBatch>();
  batch->micro_batch = {micro_batch};
  batch->packing = std::make_shared<Packing>();
  return {{{1}, {1}}, {chunk}, batch, 3ms};
}
TensorMessage tensor(std::uint32_t chunk, std::uint32_t micro_batch, Direction direction = Direction::forward) {
  return {{{1}, {1}}, {chunk}, direction, {micro_batch}, std::make_shared<Packing>(), {}, 5ms};
}

// B08
TEST(StageInbox, Outputs_are_compared_with_the_labels_of_the_same_micro_batch) {
  StageInbox inbox(ChunkId{3});
  EXPECT_FALSE(inbox.add(tokens(3, 1))) << "targets alone are no input";
  EXPECT_FALSE(inbox.add(tensor(3, 0))) << "a tensor of another micro-batch does not complete them";
  EXPECT_TRUE(inbox.add(tensor(3, 1)));
  EXPECT_TRUE(inbox.add(tokens(3, 0)));
  for (const std::uint32_t m : {0U, 1U})
    EXPECT_EQ(inbox.take({3}, Direction::forward, {m}).batch->micro_batch, MicroBatch{m});
}

TEST(StageInbox, the_first_chunk_needs_tokens_and_the_middle_a_tensor) {
  StageInbox inbox(ChunkId{3});
  EXPECT_TRUE(inbox.add(tokens(0, 0)));
  EXPECT_TRUE(inbox.add(tensor(1, 0)));
  EXPECT_EQ(inbox.take({1}, Direction::forward, {0}).batch->iteration, Iteration{1});
  EXPECT_TRUE(inbox.add(tensor(2, 0, Direction::backward)));
}

TEST(StageInbox, an_input_is_due_when_its_last_part_is) {
  StageInbox inbox(ChunkId{1});
  inbox.add(tensor(1, 0));
  inbox.add(tokens(1, 0));
  EXPECT_EQ(inbox.take({1}, Direction::forward, {0}).due, 5ms);
}

TEST(StageInbox, what_comes_twice_or_is_not_there_is_a_bug) {
  StageInbox inbox(ChunkId{3});
  inbox.add(tensor(1, 0));
  EXPECT_THROW(inbox.add(tensor(1, 0)), Bug);
  EXPECT_THROW(inbox.take({2}, Direction::forward, {0}), Bug);
}

TEST(HeldMessages, newer_keys_wait_older_ones_are_dropped) {
  HeldMessages held;
  held.hold({{1}, {2}}, tensor(1, 0));
  held.hold({{1}, {3}}, tensor(1, 1));
  held.hold({{1}, {1}}, tensor(1, 2));
  const auto now = held.take({{1}, {2}});
  ASSERT_EQ(now.size(), 1U);
  EXPECT_EQ(std::get<TensorMessage>(now[0]).micro_batch, MicroBatch{0});
  EXPECT_EQ(held.take({{1}, {3}}).size(), 1U);
  EXPECT_TRUE(held.take({{1}, {1}}).empty());
}

TEST(Event, is_one_line_of_json_with_fixed_keys) {
  const Event event{EventKind::ran, 30ms, 20ms, Place{{2}, {1}}, {{1}, {7}}, parse_operator("2F3"), {}, {}};
  std::string line;
  append_json_line(line, event);
  EXPECT_EQ(line,
            "{\"t_us\":30000,\"event\":\"ran\",\"epoch\":1,\"iteration\":7,\"stage\":2,\"replica\":1,\"op\":\"2F3\","
            "\"micro_batch\":3,"
            "\"start_us\":20000}\n");
}

TEST(Event, its_hash_depends_on_every_field) {
  const Event base{EventKind::ran,     30ms, 20ms, Place{{2}, {1}}, {{1}, {7}}, parse_operator("2F3"),
                   Direction::forward, "x"};
  std::vector<Event> others(9, base);
  others[0].kind = EventKind::sent;
  others[1].at = 31ms;
  others[2].start = 21ms;
  others[3].place = Place{{2}, {0}};
  others[4].key = {{1}, {8}};
  others[5].op = parse_operator("2B3");
  others[6].direction = Direction::backward;
  others[7].text = "y";
  others[8].place.reset();
  for (const Event& other : others) EXPECT_NE(hash_of(base), hash_of(other));
}

TEST(ChromeTrace, names_operators_as_the_plan_does_and_joins_sent_to_arrived) {
  const Place lower{{0}, {0}}, upper{{1}, {0}};
  const Operator op{OperatorKind::forward, {1}, {4}};
  const std::vector<Event> events = {{EventKind::ran, 2ms, 1ms, lower, {{1}, {1}}, parse_operator("0F4"), {}, {}},
                                     {EventKind::sent, 2ms, {}, lower, {{1}, {1}}, op, Direction::forward, {}},
                                     {EventKind::arrived, 3ms, {}, upper, {{1}, {1}}, op, Direction::forward, {}},
                                     {EventKind::committed, 3ms, {}, {}, {{1}, {1}}, {}, {}, "loss"}};
  const auto trace = nlohmann::json::parse(to_chrome_trace(events))["traceEvents"];
  EXPECT_EQ(trace[0]["name"], "0F4");
  EXPECT_EQ(trace[0]["ts"], 1000.0);
  EXPECT_EQ(trace[0]["dur"], 1000.0);
  EXPECT_EQ(trace[1]["ph"], "s");
  EXPECT_EQ(trace[2]["ph"], "f");
  EXPECT_EQ(trace[1]["id"], trace[2]["id"]);
  EXPECT_EQ(trace[2]["tid"], 1);
}

}  // namespace
}  // namespace stagecraft::test
