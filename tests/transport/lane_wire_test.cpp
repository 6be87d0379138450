#include "transport/lane_wire.hpp"

#include <algorithm>
#include <cstring>

#include <gmock/gmock-matchers.h>
#include <gtest/gtest.h>

#include "tests/transport/lane_fixture.hpp"
#include "transport/socket_address.hpp"

namespace stagecraft {
namespace {

using testing::HasSubstr;

const LaneLimits limits{Bytes{2000}, Bytes{4096}, 3, 4};

std::string flaw(std::variant<Announced, std::string> read) {
  const auto* why = std::get_if<std::string>(&read);
  return why == nullptr ? "" : *why;
}

TEST(LaneWire, a_hello_is_believed_by_the_other_end_with_the_same_token_and_limits) {
  const auto token = test::token_of(1);
  const auto hello = make_hello(limits, token, 0);
  EXPECT_EQ(check_hello(hello, limits, token, 1), std::nullopt);
  EXPECT_THAT(check_hello(hello, limits, token, 0).value_or(""), HasSubstr("says it is end 0"));
  LaneLimits other = limits;
  other.payload = Bytes{8};
  EXPECT_EQ(check_hello(hello, other, token, 1), "the ends disagree on bytes of payload: 4096 at the peer, 8 here");
}

TEST(LaneWire, a_hello_with_any_byte_changed_is_refused) {
  const auto token = test::token_of(1);
  const auto hello = make_hello(limits, token, 0);
  ASSERT_EQ(hello.size(), lane_hello_bytes);
  for (std::size_t i = 0; i < hello.size(); ++i) {
    auto changed = hello;
    changed[i] = static_cast<char>(changed[i] ^ 1);
    EXPECT_TRUE(check_hello(changed, limits, token, 1)) << "byte " << i;
  }
}

TEST(LaneWire, the_token_is_not_in_the_hello) {
  LaneToken token{};
  for (std::size_t i = 0; i < token.size(); ++i) token[i] = static_cast<std::byte>(i + 100);
  const auto hello = make_hello(limits, token, 0);
  for (std::size_t i = 0; i + 4 <= token.size(); ++i)
    EXPECT_EQ(memmem(hello.data(), hello.size(), token.data() + i, 4), nullptr);
}

TEST(LaneWire, a_frame_says_what_was_written_and_holds_what_has_room) {
  LaneLimits wide = limits;
  wide.header = Bytes{8000}, wide.payload = Bytes{1 << 20};
  const auto arena = Arena::make("test", Bytes{});
  std::vector<char> frame(frame_bytes(wide), 'x');
  LaneParcel parcel{{'a', 'b'}, {Tensor(*arena, 2000), Tensor(), Tensor(arena->allocate(4, Bytes{77}), 1)}};
  parcel.payloads[2].data()[0] = 1.5F;
  EXPECT_LT(write_frame(parcel, 9, wide, frame), 100U);
  const auto read = read_frame(frame, 9, wide);
  ASSERT_EQ(flaw(read), "");
  const auto& announced = std::get<Announced>(read);
  EXPECT_EQ(announced.header, parcel.header);
  EXPECT_FALSE(announced.header_follows);
  ASSERT_EQ(announced.payloads.size(), 3U);
  EXPECT_EQ(announced.payloads[0].bytes, 8000U);
  EXPECT_EQ(announced.payloads[0].inside, nullptr);
  EXPECT_EQ(announced.payloads[1].bytes, 0U);
  EXPECT_EQ(announced.payloads[2].charged, Bytes{77});
  ASSERT_NE(announced.payloads[2].inside, nullptr);
  EXPECT_EQ(std::string_view(announced.payloads[2].inside, 4),
            std::string_view(reinterpret_cast<const char*>(parcel.payloads[2].data()), 4));

  parcel.header.assign(6000, 'x');
  write_frame(parcel, 10, wide, frame);
  const auto large = read_frame(frame, 10, wide);
  ASSERT_EQ(flaw(large), "");
  EXPECT_TRUE(std::get<Announced>(large).header_follows);
  EXPECT_EQ(std::get<Announced>(large).header.size(), 6000U);
}

TEST(LaneWire, a_frame_with_any_byte_changed_is_refused) {
  const auto arena = Arena::make("test", Bytes{});
  std::vector<char> frame(frame_bytes(limits));
  Tensor payload(*arena, 3);
  std::fill(payload.span().begin(), payload.span().end(), 1.F);
  const std::size_t used = write_frame({{'a'}, {payload}}, 0, limits, frame);
  EXPECT_EQ(flaw(read_frame(frame, 0, limits)), "");
  for (std::size_t i = 0; i < used; ++i) {
    auto changed = frame;
    changed[i] = static_cast<char>(changed[i] ^ 4);
    EXPECT_EQ(flaw(read_frame(changed, 0, limits)), "a frame whose checksum does not hold") << "byte " << i;
  }
  std::fill(frame.begin() + static_cast<std::ptrdiff_t>(used), frame.end(), 'z');  // what an earlier frame left
  EXPECT_EQ(flaw(read_frame(frame, 0, limits)), "");
}

TEST(LaneWire, a_frame_that_announces_more_than_the_limits_is_refused) {
  const auto arena = Arena::make("test", Bytes{});
  const auto announce = [&](const LaneParcel& parcel, LaneLimits theirs) {
    std::vector<char> frame(frame_bytes(theirs));
    write_frame(parcel, 0, theirs, frame);
    frame.resize(frame_bytes(limits));
    return flaw(read_frame(frame, 0, limits));
  };
  LaneLimits more = limits;
  more.header = Bytes{1 << 20}, more.payload = Bytes{1 << 20}, more.payloads = 4;
  EXPECT_EQ(announce({std::vector<char>(3000), {}}, more),
            "a header of 3000 bytes was announced, over the limit of 2000");
  EXPECT_EQ(announce({{}, {Tensor(*arena, 1000), Tensor(*arena, 25)}}, more),
            "payload 1 of 100 bytes was announced, over the limit of 4096 for all of a parcel");
  EXPECT_EQ(announce({{}, std::vector<Tensor>(4)}, more), "4 payloads were announced, over the limit of 3");
  std::vector<char> frame(frame_bytes(limits));
  write_frame({}, 5, limits, frame);
  EXPECT_EQ(flaw(read_frame(frame, 6, limits)), "parcel 5 came where parcel 6 was due");
}

TEST(LaneWire, limits_that_no_lane_can_keep_are_named) {
  EXPECT_EQ(check_limits(limits), std::nullopt);
  const auto flaw_of = [](auto change) {
    LaneLimits changed = limits;
    change(changed);
    return check_limits(changed).value_or("");
  };
  EXPECT_EQ(flaw_of([](LaneLimits& l) { l.window = 0; }), "a window of 0 parcels, where 1 to 1024 are possible");
  EXPECT_EQ(flaw_of([](LaneLimits& l) { l.payloads = 1025; }), "up to 1025 payloads, where 1024 are possible");
  EXPECT_EQ(flaw_of([](LaneLimits& l) { l.header = Bytes{17 << 20}; }),
            "headers of up to 17 MiB, where 16 MiB are possible");
  EXPECT_THAT(flaw_of([](LaneLimits& l) { l.payload = Bytes{~0ULL}; }), HasSubstr("payloads of up to"));
}

TEST(SocketAddress, text_and_address_are_the_same_thing) {
  for (const char* text : {"127.0.0.1:1", "10.1.2.3:65535", "[::1]:4000", "[fd00::1:2]:80"}) {
    const auto address = parse_socket_address(text);
    ASSERT_TRUE(address) << text;
    EXPECT_EQ(to_text(*address), text);
  }
  for (const char* text : {"", ":", "127.0.0.1", "127.0.0.1:", "127.0.0.1:0", "127.0.0.1:65536", "127.0.0.1:1x",
                           "127.0.0.1:-1", "host:1", "::1:4000", "[::1]", "[]:1", "[127.0.0.1]:1", "1.2.3:4"})
    EXPECT_FALSE(parse_socket_address(text)) << text;
}

TEST(SocketAddress, an_own_address_is_one_at_which_this_machine_can_listen) {
  const auto own = [](const char* host) {
    const auto found = own_address(host);
    const auto* why = std::get_if<std::string>(&found);
    return why != nullptr ? *why : host_text(std::get<sockaddr_storage>(found));
  };
  EXPECT_EQ(own("127.0.0.2"), "127.0.0.2");
  EXPECT_EQ(own("0.0.0.0"), "it stands for all interfaces; name one");
  EXPECT_EQ(own("::"), "it stands for all interfaces; name one");
  EXPECT_EQ(own(""), "an address is needed");
  EXPECT_EQ(own("203.0.113.7"), "Cannot assign requested address");
}

}  // namespace
}  // namespace stagecraft
