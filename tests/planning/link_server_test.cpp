// The servers of a link: who is served when, and when a send finds a place.
#include "planning/link_server.hpp"

#include <gtest/gtest.h>

namespace stagecraft {
namespace {

using namespace std::chrono_literals;

TEST(LinkServer, one_lane_serves_one_message_after_the_other) {
  LinkServer server(1, std::nullopt);
  EXPECT_EQ(server.serve(10ms, 4ms), 14ms);
  EXPECT_EQ(server.serve(11ms, 4ms), 18ms) << "waits for the one before";
  EXPECT_EQ(server.serve(30ms, 4ms), 34ms) << "idle in between";
}

TEST(LinkServer, each_message_takes_the_lane_that_is_free_first) {
  LinkServer server(2, std::nullopt);
  EXPECT_EQ(server.serve(0ms, 10ms), 10ms);
  EXPECT_EQ(server.serve(0ms, 3ms), 3ms);
  EXPECT_EQ(server.serve(1ms, 3ms), 6ms) << "behind the short one";
  EXPECT_EQ(server.serve(1ms, 3ms), 9ms);
  EXPECT_EQ(server.serve(1ms, 3ms), 12ms);
  EXPECT_EQ(server.serve(1ms, 3ms), 13ms);
}

TEST(LinkServer, messages_without_service_time_pass_at_once) {
  LinkServer server(1, std::nullopt);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(server.serve(5ms, 0ms), 5ms);
  LinkServer none(0, std::nullopt);
  EXPECT_EQ(none.serve(5ms, 2ms), 7ms) << "there is always one lane";
}

TEST(LinkServer, a_send_finds_a_place_when_one_of_those_before_has_left) {
  LinkServer server(1, 2);
  EXPECT_EQ(server.admits(0ms), 0ms);
  server.serve(0ms, 10ms);
  EXPECT_EQ(server.admits(1ms), 1ms) << "one waits behind the one on the server";
  server.serve(1ms, 10ms);
  EXPECT_EQ(server.admits(2ms), 10ms);
  EXPECT_EQ(server.admits(10ms), 10ms) << "it leaves now";
  server.serve(10ms, 10ms);
  EXPECT_EQ(server.admits(11ms), 20ms);
  EXPECT_EQ(server.admits(40ms), 40ms) << "all have left";
}

TEST(LinkServer, several_lanes_share_one_queue) {
  LinkServer server(2, 3);
  server.serve(0ms, 10ms);
  server.serve(0ms, 4ms);
  EXPECT_EQ(server.admits(0ms), 0ms);
  server.serve(0ms, 10ms);  // from 4 to 14
  EXPECT_EQ(server.admits(0ms), 4ms);
  EXPECT_EQ(server.admits(4ms), 4ms);
  EXPECT_EQ(server.admits(5ms), 5ms) << "the short one has left, two remain";
}

TEST(LinkServer, without_a_queue_every_send_finds_a_place) {
  LinkServer server(1, std::nullopt);
  for (int i = 0; i < 5; ++i) server.serve(0ms, 10ms);
  EXPECT_EQ(server.admits(1ms), 1ms);
}

TEST(LinkServer, a_queue_of_none_has_the_place_on_the_server) {
  LinkServer server(1, 0);
  EXPECT_EQ(server.admits(0ms), 0ms);
  server.serve(0ms, 10ms);
  EXPECT_EQ(server.admits(3ms), 10ms);
}

}  // namespace
}  // namespace stagecraft
