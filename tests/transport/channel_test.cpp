#include "transport/channel.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string_view>

#include <gtest/gtest.h>

#include "planning/bug.hpp"
#include "planning/random.hpp"
#include "tests/gpu/fakes.hpp"

namespace stagecraft {
namespace {

using namespace std::chrono_literals;

struct ArrivalLog final : Arrivals {
  struct Entry {
    Parcel parcel;
    Duration delay{};
  };
  std::vector<Entry> entries;
  void arrived(Parcel parcel, Duration delay) override { entries.push_back({std::move(parcel), delay}); }
};

struct ChannelTest : testing::Test {
  test::FakeClock clock;
  ArrivalLog log;
  std::shared_ptr<Arena> arena = Arena::make("sender", Bytes{});

  std::unique_ptr<Channel> open(const LinkCost& cost, bool copies = false) {
    return make_inproc_channel(cost, copies, clock, log);
  }
  Tensor tensor(Bytes charged) { return Tensor(arena->allocate(8, charged), 2); }
  Instant last_due() const { return log.entries.back().parcel.due; }
  Duration last_delay() const { return log.entries.back().delay; }
};

TEST_F(ChannelTest, a_free_link_hands_the_very_tensor_over_at_once) {
  const auto channel = open({});
  clock.set(9ms);
  const Tensor payload = tensor(Bytes{1 << 30});
  channel->send({{'a', 'b'}, payload, 4ms});
  ASSERT_EQ(log.entries.size(), 1U);
  const Parcel& parcel = log.entries[0].parcel;
  EXPECT_EQ(parcel.header, (std::vector<char>{'a', 'b'}));
  EXPECT_EQ(parcel.payload.buffer(), payload.buffer());
  EXPECT_EQ(parcel.due, 4ms);
  EXPECT_EQ(last_delay(), 0ms);
}

TEST_F(ChannelTest, latency_counts_from_the_hand_over_and_holds_nobody_up) {
  const auto channel = open({20ms, {}, {}});
  channel->send({{}, tensor(Bytes{1 << 30}), 0ms});
  EXPECT_EQ(last_due(), 20ms);
  EXPECT_EQ(last_delay(), 20ms);
  clock.set(1ms);
  channel->send({{}, {}, 1ms});
  EXPECT_EQ(last_due(), 21ms);
  EXPECT_EQ(last_delay(), 20ms);
}

TEST_F(ChannelTest, occupancy_makes_parcels_queue_but_not_an_idle_link) {
  const auto channel = open({1ms, 10ms, {}});
  channel->send({{}, {}, 0ms});
  EXPECT_EQ(last_due(), 11ms);
  channel->send({{}, {}, 0ms});
  EXPECT_EQ(last_due(), 21ms);
  channel->send({{}, {}, 15ms});  // the link is busy until 20
  EXPECT_EQ(last_due(), 31ms);
  channel->send({{}, {}, 100ms});
  EXPECT_EQ(last_due(), 111ms);
}

TEST_F(ChannelTest, what_is_told_takes_the_latency_alone_and_waits_for_nobody) {
  const auto channel = open({5ms, 10ms, {1e3}});
  channel->send({{}, tensor(Bytes{1'000'000}), 0ms});
  const Instant tensor_due = last_due();
  channel->tell({{'a'}, {}, 1ms});
  EXPECT_EQ(last_due(), 6ms);
  EXPECT_EQ(last_delay(), 6ms);
  channel->send({{}, tensor(Bytes{1'000'000}), 0ms});
  EXPECT_EQ(last_due() - tensor_due, 10ms + 1000s) << "nor did it hold up what came after";
  EXPECT_THROW(channel->tell({{}, tensor(Bytes{1}), 0ms}), Bug);
}

TEST_F(ChannelTest, bandwidth_counts_the_charged_bytes_of_the_payload) {
  const auto channel = open({0ms, 2ms, {1e9}});
  channel->send({std::vector<char>(1000), tensor(Bytes{5'000'000}), 0ms});
  EXPECT_EQ(last_due(), 7ms) << "eight bytes that stand for five million";
  channel->send({std::vector<char>(1000), {}, 0ms});
  EXPECT_EQ(last_due(), 9ms) << "a header takes no time, an empty payload only the occupancy";
}

TEST_F(ChannelTest, a_late_hand_over_keeps_its_due_time_and_is_delivered_sooner) {
  const auto channel = open({20ms, {}, {}});
  clock.set(13ms);
  channel->send({{}, {}, 10ms});
  EXPECT_EQ(last_due(), 30ms);
  EXPECT_EQ(last_delay(), 17ms);
  clock.set(99ms);
  channel->send({{}, {}, 11ms});
  EXPECT_EQ(last_due(), 31ms);
  EXPECT_EQ(last_delay(), 0ms);
}

// Lets nothing pass until it is told to.
struct Barrier final : LinkWeather {
  std::vector<std::function<void()>> held;
  bool down = true;
  LinkCost cost(const LinkCost& healthy, Bytes) override { return healthy; }
  bool holds(std::function<void()> again) override {
    if (down) held.push_back(std::move(again));
    return down;
  }
  void lift() {
    down = false;
    for (const auto& again : std::exchange(held, {})) again();
  }
};

TEST_F(ChannelTest, what_a_link_does_not_let_pass_can_be_taken_back_and_is_not_sent_again) {
  Barrier barrier;
  const auto channel = make_inproc_channel({1ms, {}, {}}, false, clock, log, &barrier);
  EXPECT_FALSE(channel->held_since());
  clock.set(3ms);
  channel->send({{'a'}, {}, 3ms});
  clock.set(5ms);
  channel->send({{'b'}, {}, 5ms});
  EXPECT_EQ(channel->held_since(), 3ms);
  const std::vector<Parcel> back = channel->take_back();
  ASSERT_EQ(back.size(), 2U);
  EXPECT_EQ(back[0].header, std::vector<char>{'a'});
  EXPECT_EQ(back[1].header, std::vector<char>{'b'});
  EXPECT_FALSE(channel->held_since());
  channel->send({{'c'}, {}, 6ms});
  clock.set(9ms);
  barrier.lift();
  ASSERT_EQ(log.entries.size(), 1U) << "what was taken back is not there any more";
  EXPECT_EQ(log.entries[0].parcel.header, std::vector<char>{'c'});
  EXPECT_EQ(log.entries[0].parcel.due, 10ms) << "it leaves when it is let go";
}

TEST_F(ChannelTest, what_was_held_keeps_its_order_whoever_comes_meanwhile) {
  Barrier barrier;
  const auto channel = make_inproc_channel({1ms, {}, {}}, false, clock, log, &barrier);
  for (const char name : {'a', 'b', 'c'}) channel->send({{name}, {}, 0ms});
  barrier.lift();
  ASSERT_EQ(log.entries.size(), 3U);
  for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(log.entries[i].parcel.header.front(), "abc"[i]);
}

TEST_F(ChannelTest, the_law_of_the_link_holds_and_order_is_kept_for_any_traffic) {
  Entropy draws(5, "traffic");
  for (int round = 0; round < 20; ++round) {
    const LinkCost cost{Duration(draws.below(3000)),
                        Duration(draws.below(2) * draws.below(500)),
                        {static_cast<double>(draws.below(2)) * 1e9 * static_cast<double>(1 + draws.below(50))}};
    const auto channel = open(cost);
    log.entries.clear();
    clock.set({});
    Instant free{}, before{}, handed{};
    for (std::uint32_t i = 0; i < 300; ++i) {
      handed += Duration(draws.below(400));
      clock.set(handed + Duration(draws.below(100)));
      const Bytes size{draws.below(20'000)};
      channel->send({{static_cast<char>(i & 127)}, tensor(size), handed});
      ASSERT_EQ(log.entries.size(), i + 1U);
      EXPECT_EQ(log.entries.back().parcel.header[0], static_cast<char>(i & 127));
      const double rate = cost.bandwidth.bytes_per_second;
      const auto transfer = rate == 0 ? 0 : std::llround(static_cast<double>(size.value) * 1e9 / rate);
      free = std::max(free, handed) + cost.occupancy + Duration(transfer);
      const Instant due = cost.free() ? handed : free + cost.latency;
      EXPECT_EQ(last_due(), due);
      EXPECT_EQ(last_delay(), cost.free() ? Duration{} : std::max(due - clock.now(), Duration{}));
      EXPECT_GE(last_due(), before);
      before = last_due();
    }
  }
}

TEST_F(ChannelTest, a_payload_that_crosses_nodes_is_copied) {
  for (const LinkCost& cost : {LinkCost{}, LinkCost{1ms, {}, {}}}) {
    const auto channel = open(cost, true);
    Tensor payload(arena->allocate(12, Bytes{1000}), 3);
    std::memcpy(payload.data(), "elevenbytes", 12);
    channel->send({{'h'}, payload, 0ms});
    const Tensor got = log.entries.back().parcel.payload;
    ASSERT_EQ(got.size(), 3U);
    EXPECT_NE(got.buffer(), payload.buffer());
    EXPECT_EQ(got.buffer()->charged(), Bytes{1000});
    EXPECT_EQ(arena->used(), Bytes{2000});
    std::memset(payload.data(), 0, 12);
    const std::string_view bytes(reinterpret_cast<const char*>(got.data()), 12);
    EXPECT_EQ(bytes, std::string_view("elevenbytes\0", 12)) << "what the sender does later is not seen";
    channel->send({{'h'}, {}, 0ms});
    EXPECT_TRUE(log.entries.back().parcel.payload.empty());
    log.entries.clear();
  }
}

}  // namespace
}  // namespace stagecraft
