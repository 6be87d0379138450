#include "transport/lane.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <thread>

#include <gmock/gmock-matchers.h>
#include <gtest/gtest.h>

#include "planning/random.hpp"
#include "tests/transport/lane_fixture.hpp"
#include "transport/socket_address.hpp"

namespace stagecraft {
namespace {

using namespace std::chrono_literals;
using test::LaneLog;
using test::LanePair;
using testing::HasSubstr;

// Bits of every kind, among them such as are no numbers.
Tensor tensor(Arena& arena, std::size_t elements, std::uint64_t seed) {
  if (elements == 0) return {};
  Tensor made(arena, elements);
  for (std::size_t i = 0; i < elements; ++i) {
    const auto bits = static_cast<std::uint32_t>(keyed(seed, i));
    std::memcpy(made.data() + i, &bits, sizeof bits);
  }
  return made;
}

LaneParcel parcel(Arena& arena, std::size_t header, const std::vector<std::size_t>& sizes, std::uint64_t seed) {
  LaneParcel made;
  for (std::size_t i = 0; i < header; ++i) made.header.push_back(static_cast<char>(keyed(seed, 99, i)));
  for (const std::size_t size : sizes) made.payloads.push_back(tensor(arena, size, seed + size));
  return made;
}

bool same(const LaneParcel& a, const LaneParcel& b) {
  const auto same_tensor = [](const Tensor& x, const Tensor& y) {
    return x.size() == y.size() && (x.size() == 0 || std::memcmp(x.data(), y.data(), x.size() * sizeof(float)) == 0);
  };
  return a.header == b.header &&
         std::equal(a.payloads.begin(), a.payloads.end(), b.payloads.begin(), b.payloads.end(), same_tensor);
}

// Headers that have room in a frame and not, payloads of no byte, one, tails, and 16 MiB.
std::vector<LaneParcel> parcels_of_all_kinds(Arena& arena, std::uint64_t seed) {
  Entropy chance(seed, "lane test");
  std::vector<LaneParcel> all{parcel(arena, 0, {}, 1),
                              parcel(arena, 0, {0}, 2),
                              parcel(arena, 1, {1}, 3),
                              parcel(arena, 1024, {0, 1, 0, 17, 1007}, 4),
                              parcel(arena, 1025, {1024, 3, 1280}, 5),
                              parcel(arena, 64 << 10, {4 << 20}, 6),
                              parcel(arena, 5120, {}, 7),
                              parcel(arena, 5121, {1280}, 8)};
  for (int i = 0; i < 40; ++i) {
    std::vector<std::size_t> sizes(chance.below(7));
    for (std::size_t& size : sizes) size = chance.below(std::size_t{1} << chance.between(1, 16));
    all.push_back(parcel(arena, chance.below(3000), sizes, seed + static_cast<std::uint64_t>(i)));
  }
  return all;
}

void send_all(Lane& lane, const std::vector<LaneParcel>& parcels) {
  for (const LaneParcel& p : parcels) EXPECT_EQ(lane.send(p), std::nullopt);
}

TEST(Lane, parcels_of_all_kinds_arrive_in_order_in_both_directions_at_once) {
  LanePair ends;
  const auto arena = Arena::make("test", Bytes{});
  const auto to_right = parcels_of_all_kinds(*arena, 10), to_left = parcels_of_all_kinds(*arena, 20);
  send_all(*ends.left, to_right);  // before it is connected, too
  ASSERT_TRUE(ends.open());
  send_all(*ends.right, to_left);
  ASSERT_TRUE(ends.right_log.wait_parcels(to_right.size()));
  ASSERT_TRUE(ends.left_log.wait_parcels(to_left.size()));
  const auto at_right = ends.right_log.parcels(), at_left = ends.left_log.parcels();
  EXPECT_TRUE(std::equal(at_right.begin(), at_right.end(), to_right.begin(), to_right.end(), same));
  EXPECT_TRUE(std::equal(at_left.begin(), at_left.end(), to_left.begin(), to_left.end(), same));
  EXPECT_EQ(ends.left_log.failures() + ends.right_log.failures(), 0U);
}

TEST(Lane, only_small_pieces_are_copied_and_all_arrive_in_the_receivers_arena_charged_as_they_were) {
  auto left = test::lane_options(0), right = test::lane_options(1);
  const auto arena = Arena::make("sender", Bytes{}), memory = Arena::make("receiver", Bytes{});
  right.memory = memory;
  LanePair ends(left, right);
  ASSERT_TRUE(ends.open());
  {
    LaneParcel sent{std::vector<char>(100), {tensor(*arena, 2000, 1)}};
    sent.payloads.emplace_back(arena->allocate(8, Bytes{1 << 20}), 2);
    ASSERT_EQ(ends.left->send(std::move(sent)), std::nullopt);
  }
  ASSERT_TRUE(ends.right_log.wait_parcels(1));
  EXPECT_EQ(memory->used(), Bytes{8000 + (1 << 20)});
  const LaneFigures there = ends.right->figures();
  EXPECT_EQ(there.parcels_arrived, 1U);
  EXPECT_EQ(there.bytes_arrived, 100U + 8000U + 8U);
  ends.left->close();
  EXPECT_EQ(arena->used(), Bytes{0});
  const LaneFigures here = ends.left->figures();
  EXPECT_EQ(here.bytes_sent, 8108U);
  EXPECT_EQ(here.bytes_copied, 108U);
  ends.right_log.clear();
  EXPECT_EQ(memory->used(), Bytes{0});
}

TEST(Lane, no_more_than_the_window_is_on_its_way) {
  LanePair ends;
  ASSERT_TRUE(ends.open());
  const auto arena = Arena::make("test", Bytes{});
  ends.right_log.hold();
  for (std::uint64_t i = 0; i < 10; ++i) ASSERT_EQ(ends.left->send(parcel(*arena, 10, {100}, i)), std::nullopt);
  ASSERT_TRUE(ends.right_log.wait_parcels(1));
  std::this_thread::sleep_for(100ms);
  const LaneFigures held = ends.left->figures();
  EXPECT_EQ(held.parcels_sent, 4U);
  EXPECT_EQ(held.parcels_acknowledged, 0U);
  EXPECT_EQ(held.queued, 6U);
  EXPECT_EQ(ends.right_log.count(), 1U);
  ends.right_log.let_go();
  ASSERT_TRUE(ends.right_log.wait_parcels(10));
  EXPECT_EQ(ends.left->figures().queued, 0U);
}

TEST(Lane, a_window_of_one_moves_everything_too) {
  auto left = test::lane_options(0), right = test::lane_options(1);
  left.limits.window = right.limits.window = 1;
  LanePair ends(left, right);
  ASSERT_TRUE(ends.open());
  const auto arena = Arena::make("test", Bytes{});
  const auto parcels = parcels_of_all_kinds(*arena, 30);
  send_all(*ends.left, parcels);
  ASSERT_TRUE(ends.right_log.wait_parcels(parcels.size()));
  const auto there = ends.right_log.parcels();
  EXPECT_TRUE(std::equal(there.begin(), there.end(), parcels.begin(), parcels.end(), same));
}

TEST(Lane, a_parcel_over_a_limit_is_refused_with_numbers_and_the_lane_goes_on) {
  LanePair ends;
  ASSERT_TRUE(ends.open());
  const auto arena = Arena::make("test", Bytes{});
  const auto refused = [&](const LaneParcel& p) { return ends.left->send(p).value_or("it is not refused"); };
  EXPECT_EQ(refused({std::vector<char>(65537), {}}), "lane 'left': a header of 65537 bytes is over the limit of 65536");
  EXPECT_EQ(refused({{}, std::vector<Tensor>(7)}), "lane 'left': 7 payloads are over the limit of 6");
  const Tensor half(*arena, 4 << 20);
  EXPECT_EQ(refused({{}, {half, half, Tensor(*arena, 1)}}),
            "lane 'left': payloads of 33554436 bytes are over the limit of 33554432");
  ASSERT_EQ(ends.left->send({{'x'}, {half, half}}), std::nullopt);
  ASSERT_TRUE(ends.right_log.wait_parcels(1));
  EXPECT_EQ(ends.right_log.parcels()[0].header, std::vector<char>{'x'});
  EXPECT_EQ(ends.right_log.failures() + ends.left_log.failures(), 0U);
}

TEST(Lane, a_wrong_token_is_refused_at_both_ends) {
  auto left = test::lane_options(0), right = test::lane_options(1);
  right.token = test::token_of(8);
  LanePair ends(left, right);
  ASSERT_EQ(ends.left->send({{'x'}, {}}), std::nullopt);
  const double took = test::seconds_of([&] {
    ends.connect();
    const std::string why = "the peer does not know this lane's token: it belongs to another lane, run or incarnation";
    EXPECT_EQ(ends.left_log.wait_failure(), "lane 'left': " + why);
    EXPECT_EQ(ends.right_log.wait_failure(), "lane 'right': " + why);
  });
  EXPECT_LT(took, test::soon);
  EXPECT_EQ(ends.right_log.count(), 0U);
  EXPECT_THAT(ends.left->send({}).value_or(""), HasSubstr("token"));
}

TEST(Lane, ends_that_disagree_on_limits_say_so) {
  auto left = test::lane_options(0), right = test::lane_options(1);
  right.limits.window = 9;
  LanePair ends(left, right);
  ends.connect();
  EXPECT_EQ(ends.left_log.wait_failure(), "lane 'left': the ends disagree on the window: 9 at the peer, 4 here");
  EXPECT_EQ(ends.right_log.wait_failure(), "lane 'right': the ends disagree on the window: 4 at the peer, 9 here");
}

TEST(Lane, a_lane_that_is_not_connected_in_time_says_what_is_missing) {
  auto options = test::lane_options(0);
  options.connect_within = 500ms;
  LaneLog alone_log, waiting_log, malformed_log;
  const auto alone = test::make_lane(options, alone_log);
  EXPECT_EQ(alone_log.wait_failure(), "lane 'left': not connected within 500 ms: the peer's address never came");

  options.listen = "127.0.0.2";  // which listens, as the greater of two addresses connects
  const auto waiting = test::make_lane(options, waiting_log);
  waiting->connect("127.0.0.3:9");
  EXPECT_EQ(waiting_log.wait_failure(), "lane 'left': not connected within 500 ms: no answer from 127.0.0.3:9");

  const auto malformed = test::make_lane(options, malformed_log);
  malformed->connect("somewhere");
  EXPECT_EQ(malformed_log.wait_failure(), "lane 'left': 'somewhere' is no address of a lane, such as 10.0.0.1:4000");
}

TEST(Lane, a_peer_that_is_not_there_is_noticed_at_once) {
  auto options = test::lane_options(0);
  options.listen = "127.0.0.2";
  LaneLog log;
  const auto lane = test::make_lane(options, log);
  lane->connect("127.0.0.1:1");
  EXPECT_THAT(log.wait_failure(), HasSubstr("Connection refused"));
}

TEST(Lane, it_listens_on_one_address_only) {
  LaneLog log;
  const auto why = [&](const std::string& listen) {
    auto options = test::lane_options(0);
    options.listen = listen;
    LaneResult made = make_gloo_lane(options, log);
    const auto* text = std::get_if<std::string>(&made);
    return text == nullptr ? "it listens" : *text;
  };
  EXPECT_EQ(why("127.0.0.1"), "it listens");
  EXPECT_EQ(why("0.0.0.0"), "lane 'left' can't listen on '0.0.0.0': it stands for all interfaces; name one");
  EXPECT_EQ(why("::"), "lane 'left' can't listen on '::': it stands for all interfaces; name one");
  EXPECT_EQ(why(""), "lane 'left' can't listen on '': an address is needed");
  EXPECT_THAT(why("203.0.113.7"), HasSubstr("lane 'left' can't listen on '203.0.113.7'"));
  EXPECT_THAT(why("no.such.host.invalid"), HasSubstr("lane 'left' can't listen on 'no.such.host.invalid'"));
}

TEST(Lane, ipv6_will_do_as_well) {
  if (std::holds_alternative<std::string>(own_address("::1"))) GTEST_SKIP() << "this machine has no IPv6";
  auto left = test::lane_options(0), right = test::lane_options(1);
  left.listen = right.listen = "::1";
  LanePair ends(left, right);
  EXPECT_EQ(ends.left->address().substr(0, 6), "[::1]:");
  ASSERT_EQ(ends.left->send({{'6'}, {}}), std::nullopt);
  ASSERT_TRUE(ends.open());
  EXPECT_TRUE(ends.right_log.wait_parcels(1));
}

TEST(Lane, the_other_end_hears_of_a_close) {
  LanePair ends;
  ASSERT_TRUE(ends.open());
  ends.left->close();
  EXPECT_THAT(ends.right_log.wait_failure(), HasSubstr("lane 'right': "));
  ends.right->close();
  EXPECT_EQ(ends.left_log.failures(), 0U);  // it was asked to
  EXPECT_EQ(ends.right_log.failures(), 1U);
  ends.right->close();
  EXPECT_THAT(ends.left->send({}).value_or(""), HasSubstr("closed"));
}

TEST(Lane, closing_takes_no_time_whatever_is_under_way) {
  const auto arena = Arena::make("test", Bytes{});
  const auto quick = [](Lane& lane, const char* when) {
    EXPECT_LT(test::seconds_of([&] { lane.close(); }), test::soon) << when;
  };
  {
    LanePair ends;
    quick(*ends.left, "before the address of the peer is known");
    ends.right->connect(ends.left->address());
    quick(*ends.right, "while it connects");
  }
  for (const bool busy_end_first : {true, false}) {
    LanePair ends;
    ASSERT_TRUE(ends.open());
    const Tensor payload(*arena, 4 << 20);
    for (int i = 0; i < 20; ++i) ASSERT_EQ(ends.left->send({{}, {payload}}), std::nullopt);
    ASSERT_TRUE(ends.right_log.wait_parcels(2));
    quick(busy_end_first ? *ends.left : *ends.right, "in a stream");
    quick(busy_end_first ? *ends.right : *ends.left, "after the peer has gone");
    EXPECT_LE(ends.left_log.failures(), 1U);
  }
  EXPECT_EQ(arena->used(), Bytes{0});
}

TEST(Lane, fifty_lanes_come_and_go_beside_one_that_streams) {
  LanePair stream;
  ASSERT_TRUE(stream.open());
  const auto arena = Arena::make("test", Bytes{});
  const LaneParcel bulk = parcel(*arena, 8, {1 << 18}, 1);
  std::atomic<bool> done = false;
  std::size_t sent = 0;
  std::thread sender([&] {
    for (; !done; ++sent) {
      EXPECT_EQ(stream.left->send(bulk), std::nullopt);
      if (!stream.right_log.wait_parcels(sent + 1)) return;
    }
  });
  const auto churn = [&](std::uint64_t seed) {
    for (std::uint64_t i = 0; i < 25; ++i) {
      LanePair ends;
      const LaneParcel p = parcel(*arena, i, {100 * i}, seed + i);
      EXPECT_EQ(ends.left->send(p), std::nullopt);
      ends.connect();
      EXPECT_TRUE(ends.right_log.wait_parcels(1));
      EXPECT_TRUE(same(ends.right_log.parcels().at(0), p));
    }
  };
  std::thread other([&] { churn(100); });
  churn(200);
  other.join();
  done = true;
  sender.join();
  EXPECT_GT(sent, 10U);
  EXPECT_EQ(stream.right_log.count(), sent);
  EXPECT_TRUE(same(stream.right_log.parcels().back(), bulk));
  EXPECT_EQ(stream.left_log.failures() + stream.right_log.failures(), 0U);
}

}  // namespace
}  // namespace stagecraft
