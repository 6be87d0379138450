// What a peer can do to a lane: die, freeze, lie, or be somebody else.
#include <fcntl.h>
#include <gmock/gmock-matchers.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstring>
#include <thread>

#include "planning/random.hpp"
#include "tests/transport/lane_fixture.hpp"
#include "transport/lane_wire.hpp"
#include "transport/socket_address.hpp"

namespace stagecraft {
namespace {

using namespace std::chrono_literals;
using test::LaneLog;
using testing::AnyOf;
using testing::HasSubstr;

// The other end of a lane, in a process of its own that ends with this. Made before the lane at this end, so that what
// is forked has one thread.
class PeerProcess {
 public:
  // The child sends parcels of so many floats until it is killed.
  explicit PeerProcess(std::size_t floats) {
    EXPECT_EQ(pipe(to_child_.data()), 0);
    EXPECT_EQ(pipe(to_parent_.data()), 0);
    child_ = fork();
    if (child_ == 0) live(floats);
  }
  ~PeerProcess() {
    signal(SIGKILL);
    waitpid(child_, nullptr, 0);
    for (const int end : {to_child_[0], to_child_[1], to_parent_[0], to_parent_[1]}) ::close(end);
  }
  PeerProcess(const PeerProcess&) = delete;
  PeerProcess& operator=(const PeerProcess&) = delete;

  void signal(int number) const { kill(child_, number); }
  std::string exchange(const std::string& own) { return exchange(own, to_child_[1], to_parent_[0]); }

 private:
  static std::string exchange(const std::string& own, int out, int in) {
    std::array<char, 100> text{};
    std::copy(own.begin(), own.end(), text.begin());
    EXPECT_EQ(write(out, text.data(), text.size()), static_cast<ssize_t>(text.size()));
    EXPECT_EQ(read(in, text.data(), text.size()), static_cast<ssize_t>(text.size()));
    return text.data();
  }
  [[noreturn]] void live(std::size_t floats) {
    LaneLog log;
    const auto lane = test::make_lane(test::lane_options(1), log);
    lane->connect(exchange(lane->address(), to_parent_[1], to_child_[0]));
    const auto arena = Arena::make("child", Bytes{});
    const Tensor payload(*arena, floats);
    for (std::size_t sent = 0; log.failures() == 0; ++sent) {
      while (lane->figures().queued > 4 && log.failures() == 0) std::this_thread::sleep_for(1ms);
      if (lane->send({{'p'}, {payload}})) break;
    }
    _exit(0);
  }

  std::array<int, 2> to_child_{}, to_parent_{};
  pid_t child_ = -1;
};

TEST(LanePeer, one_that_is_killed_is_noticed_in_the_middle_of_a_stream) {
  for (int round = 0; round < 5; ++round) {
    PeerProcess peer(4 << 20);
    LaneLog log;
    const auto lane = test::make_lane(test::lane_options(0), log);
    lane->connect(peer.exchange(lane->address()));
    ASSERT_TRUE(log.wait_parcels(1));
    log.clear();
    std::this_thread::sleep_for(round * 3ms);
    peer.signal(SIGKILL);
    std::string why;
    EXPECT_LT(test::seconds_of([&] { why = log.wait_failure(); }), test::soon);
    EXPECT_THAT(why, AnyOf(HasSubstr("lane 'left': Connection closed by peer"), HasSubstr("Connection reset by peer")));
    EXPECT_LT(test::seconds_of([&] { lane->close(); }), test::soon);
    EXPECT_EQ(log.failures(), 1U);
  }
}

TEST(LanePeer, one_that_freezes_is_waited_for_and_closing_is_quick) {
  PeerProcess peer(1 << 20);
  LaneLog log;
  const auto lane = test::make_lane(test::lane_options(0), log);
  lane->connect(peer.exchange(lane->address()));
  ASSERT_TRUE(log.wait_parcels(1));
  peer.signal(SIGSTOP);
  const auto arena = Arena::make("test", Bytes{});
  const Tensor payload(*arena, 4 << 20);
  for (int i = 0; i < 8; ++i) ASSERT_EQ(lane->send({{'x'}, {payload}}), std::nullopt);
  EXPECT_EQ(log.wait_failure(300ms), "");
  EXPECT_GT(lane->figures().queued, 0U);
  peer.signal(SIGCONT);
  std::this_thread::sleep_for(100ms);
  EXPECT_EQ(log.failures(), 0U);
  peer.signal(SIGSTOP);
  EXPECT_LT(test::seconds_of([&] { lane->close(); }), test::soon);
  EXPECT_EQ(log.failures(), 0U);
}

// A peer that speaks Gloo's protocol over a plain socket, and the lane's as well as it likes to: the lane connects to
// it, since of two addresses the greater one does.
class RawPeer {
 public:
  RawPeer() : listener_(socket(AF_INET, SOCK_STREAM, 0)) {
    auto at = *parse_socket_address("127.0.0.1:1");
    reinterpret_cast<sockaddr_in&>(at).sin_port = 0;
    socklen_t size = sizeof(sockaddr_in);
    EXPECT_EQ(bind(listener_, reinterpret_cast<sockaddr*>(&at), size), 0);
    EXPECT_EQ(listen(listener_, 1), 0);
    EXPECT_EQ(getsockname(listener_, reinterpret_cast<sockaddr*>(&at), &size), 0);
    address_ = to_text(at);
  }
  ~RawPeer() {
    ::close(listener_);
    if (lane_ >= 0) ::close(lane_);
  }
  RawPeer(const RawPeer&) = delete;
  RawPeer& operator=(const RawPeer&) = delete;

  const std::string& address() const { return address_; }
  void accept() {
    lane_ = ::accept(listener_, nullptr, nullptr);
    ASSERT_GE(lane_, 0);
  }
  // Once the lane expects something in this slot.
  void say(LaneSlot slot, std::span<const char> bytes) {
    await_receive(slot);
    put({preamble_bytes, 2, slot, 0, bytes.size(), 0}, {});
    put({preamble_bytes + bytes.size(), 1, slot, 0, bytes.size(), 0}, bytes);
  }
  void say_number(LaneSlot slot, std::uint64_t number) {
    std::array<char, sizeof number> bytes{};
    std::memcpy(bytes.data(), &number, sizeof number);
    say(slot, bytes);
  }

 private:
  using Preamble = std::array<std::uint64_t, 6>;  // bytes in all, what it is, slot, offset, bytes that follow, offset
  static constexpr std::size_t preamble_bytes = sizeof(Preamble);

  void put(const Preamble& preamble, std::span<const char> bytes) const {
    std::vector<char> all(preamble_bytes);
    std::memcpy(all.data(), preamble.data(), preamble_bytes);
    all.insert(all.end(), bytes.begin(), bytes.end());
    EXPECT_EQ(::send(lane_, all.data(), all.size(), MSG_NOSIGNAL), static_cast<ssize_t>(all.size()));
  }
  // The lane tells of receives (3) and sends (2), and sends nothing else before it is told of a receive.
  void await_receive(LaneSlot slot) {
    while (posted_[slot] == 0) {
      Preamble preamble{};
      ASSERT_EQ(recv(lane_, preamble.data(), preamble_bytes, MSG_WAITALL), static_cast<ssize_t>(preamble_bytes));
      if (preamble[1] == 3) ++posted_.at(preamble[2]);
    }
    --posted_[slot];
  }

  int listener_, lane_ = -1;
  std::string address_;
  std::array<int, 8> posted_{};
};

// A lane that has connected to a liar.
struct Lied {
  explicit Lied(std::uint32_t payloads = 6) {
    options.listen = "127.0.0.2";
    options.limits.payloads = payloads;
    lane = test::make_lane(options, log);
    lane->connect(liar.address());
    liar.accept();
  }
  void greet() {
    liar.say(hello_slot, make_hello(options.limits, options.token, 1));
    liar.say_number(verdict_slot, lane_accepted);
    ASSERT_TRUE(log.wait_connected());
  }
  std::vector<char> frame(const LaneParcel& parcel, std::uint64_t sequence, LaneLimits limits) const {
    std::vector<char> bytes(frame_bytes(limits));
    write_frame(parcel, sequence, limits, bytes);
    return bytes;
  }

  LaneOptions options = test::lane_options(0);
  LaneLog log;
  RawPeer liar;
  std::unique_ptr<Lane> lane;
};

TEST(LanePeer, one_that_speaks_the_truth_over_a_plain_socket_is_heard) {
  Lied lied;
  lied.greet();
  lied.liar.say(frame_slot, lied.frame({{'a', 'b'}, {}}, 0, lied.options.limits));
  ASSERT_TRUE(lied.log.wait_parcels(1));
  EXPECT_EQ(lied.log.parcels()[0].header, (std::vector<char>{'a', 'b'}));
  EXPECT_EQ(lied.log.failures(), 0U);
}

TEST(LanePeer, one_without_the_token_is_refused_though_it_waits_for_nothing) {
  Lied lied;
  lied.liar.say(hello_slot, std::vector<char>(lane_hello_bytes, 'x'));
  EXPECT_LT(test::seconds_of(
                [&] { EXPECT_EQ(lied.log.wait_failure(), "lane 'left': what connected is no lane of stagecraft"); }),
            test::soon);
}

TEST(LanePeer, one_that_is_told_no_says_so) {
  Lied lied;
  lied.liar.say(hello_slot, make_hello(lied.options.limits, lied.options.token, 1));
  lied.liar.say_number(verdict_slot, lane_refused);
  EXPECT_EQ(lied.log.wait_failure(), "lane 'left': the peer refused what this end said of itself");
}

TEST(LanePeer, frames_that_lie_end_the_lane_and_nothing_else) {
  const auto arena = Arena::make("test", Bytes{});
  const auto why = [&](const LaneParcel& parcel, std::uint64_t sequence, std::optional<std::size_t> flip) {
    Lied lied;
    lied.greet();
    LaneLimits theirs = lied.options.limits;
    theirs.payload = Bytes{1ULL << 40}, theirs.header = Bytes{16 << 20};
    auto frame = lied.frame(parcel, sequence, theirs);
    if (flip) frame[*flip] = static_cast<char>(frame[*flip] ^ 1);
    lied.liar.say(frame_slot, frame);
    std::string text = lied.log.wait_failure();
    EXPECT_EQ(lied.options.memory->peak(), Bytes{0});
    EXPECT_EQ(lied.log.count(), 0U);
    EXPECT_LT(test::seconds_of([&] { lied.lane->close(); }), test::soon);
    return text;
  };
  EXPECT_EQ(why({}, 0, 20), "lane 'left': a frame whose checksum does not hold");
  EXPECT_EQ(why({}, 1, std::nullopt), "lane 'left': parcel 1 came where parcel 0 was due");
  EXPECT_EQ(why({std::vector<char>(70000), {}}, 0, std::nullopt),
            "lane 'left': a header of 70000 bytes was announced, over the limit of 65536");
  EXPECT_EQ(why({{}, {Tensor(*arena, 5), Tensor(*arena, 8 << 20)}}, 0, std::nullopt),
            "lane 'left': payload 1 of 33554432 bytes was announced, over the limit of 33554432 for all of a parcel");
}

TEST(LanePeer, one_that_never_sends_what_it_announced_is_waited_for_with_bounded_memory) {
  Lied lied;
  lied.greet();
  const auto arena = Arena::make("test", Bytes{});
  const LaneParcel half{{}, {Tensor(*arena, 4 << 20)}};
  for (std::uint64_t n = 0; n < 4; ++n) lied.liar.say(frame_slot, lied.frame(half, n, lied.options.limits));
  EXPECT_EQ(lied.log.wait_failure(100ms), "");
  lied.liar.say(frame_slot, lied.frame(half, 4, lied.options.limits));
  EXPECT_EQ(lied.log.wait_failure(), "lane 'left': the peer sent parcel 4 beyond the window of 4");
  EXPECT_LE(lied.options.memory->peak(), Bytes{4 * (16 << 20)});
  EXPECT_LT(test::seconds_of([&] { lied.lane->close(); }), test::soon);
  EXPECT_EQ(lied.options.memory->used(), Bytes{0});
}

TEST(LanePeer, an_acknowledgement_of_what_was_not_sent_ends_the_lane) {
  Lied lied;
  lied.greet();
  lied.liar.say_number(ack_slot, 0);
  EXPECT_EQ(lied.log.wait_failure(),
            "lane 'left': the peer acknowledged parcel 0 where 0 were on their way, from 0 on");
}

int connect_to(const std::string& address) {
  const auto at = parse_socket_address(address);
  const int stranger = socket(AF_INET, SOCK_STREAM, 0);
  EXPECT_EQ(connect(stranger, reinterpret_cast<const sockaddr*>(&*at), sizeof(sockaddr_in)), 0);
  return stranger;
}

TEST(LanePeer, a_stranger_who_comes_first_keeps_the_peer_out_and_the_lane_says_so) {
  // 1000 bytes of chance are no message of Gloo's that any slot waits for; nor are zeros.
  for (const bool zeros : {false, true}) {
    auto options = test::lane_options(0);
    options.connect_within = 1s;
    LaneLog log, peer_log;
    const auto lane = test::make_lane(options, log);  // at 127.0.0.1, so it listens for a peer at 127.0.0.2
    const int stranger = connect_to(lane->address());
    std::array<char, 1000> noise{};
    for (std::size_t i = 0; i < noise.size() && !zeros; ++i) noise[i] = static_cast<char>(keyed(3, i));
    EXPECT_EQ(::send(stranger, noise.data(), noise.size(), MSG_NOSIGNAL), 1000);
    std::this_thread::sleep_for(50ms);

    auto peer_options = test::lane_options(1);
    peer_options.listen = "127.0.0.2", peer_options.connect_within = 1s;
    const auto peer = test::make_lane(peer_options, peer_log);
    lane->connect(peer->address());
    peer->connect(lane->address());
    EXPECT_EQ(log.wait_failure(), "lane 'left': not connected within 1 s: " + peer->address() +
                                      ", or who connected to " + lane->address() +
                                      " in its place, did not say what it is");
    EXPECT_NE(peer_log.wait_failure(), "");
    EXPECT_LT(test::seconds_of([&] { lane->close(); }), test::soon);
    ::close(stranger);
  }
}

TEST(LanePeer, a_stranger_who_connects_to_the_end_that_connects_disturbs_nobody) {
  auto left = test::lane_options(0), right = test::lane_options(1);
  right.listen = "127.0.0.2";
  test::LanePair ends(left, right);
  const int stranger = connect_to(ends.right->address());
  std::this_thread::sleep_for(50ms);
  EXPECT_TRUE(ends.open());
  ::close(stranger);
}

}  // namespace
}  // namespace stagecraft
