// What a lane says on the wire, as bytes: the hello of each end, and the frame before each parcel. Pure; any thread.
//
// Little-endian, native layout. Every message has a fixed size that both ends compute from the limits they agreed on,
// so that a receive of the right size can always be posted before the peer sends.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "transport/lane.hpp"

namespace stagecraft {

/// What a message is for; sends and receives of one slot meet in order. First each end says hello, then what it thinks
/// of the other's, as a number. Then, per parcel: a frame, the messages of its body, and back an acknowledgement, which
/// is the parcel's number.
enum LaneSlot : std::uint64_t { hello_slot = 1, verdict_slot, frame_slot, body_slot, ack_slot };
constexpr std::uint64_t lane_accepted = 0, lane_refused = 1;
constexpr std::size_t lane_hello_bytes = 72;

/// What is wrong with limits that a lane can't keep; empty when nothing is.
std::optional<std::string> check_limits(const LaneLimits& limits);

/// What `rank` says first: who it is and what it expects, keyed with the token.
std::vector<char> make_hello(const LaneLimits& limits, const LaneToken& token, int rank);
/// What is wrong with the hello of the other end, as `rank` sees it; empty when nothing is. The proof is compared in
/// constant time, before anything in the hello is believed.
std::optional<std::string> check_hello(std::span<const char> hello, const LaneLimits& limits, const LaneToken& token,
                                       int rank);

/// Why a parcel can't be sent, with numbers; empty when it can.
std::optional<std::string> check_parcel(const LaneParcel& parcel, const LaneLimits& limits);

/// A header of up to so many bytes travels in the frame.
std::size_t header_room(const LaneLimits& limits);
std::size_t frame_bytes(const LaneLimits& limits);
/// The frame of a parcel that was checked. `frame` has frame_bytes().
void write_frame(const LaneParcel& parcel, std::uint64_t sequence, const LaneLimits& limits, std::span<char> frame);

/// What a frame announces.
struct Announced {
  struct Payload {
    std::uint64_t bytes = 0;
    Bytes charged;
  };
  std::vector<char> header;       ///< of its full size; its bytes are there if they had room in the frame
  bool header_follows = false;    ///< it is the first message of the body instead
  std::vector<Payload> payloads;  ///< in order; those without bytes are no message of the body
};
/// The content, within the limits, or what is wrong with it. Allocates no more than the limits allow.
std::variant<Announced, std::string> read_frame(std::span<const char> frame, std::uint64_t expected_sequence,
                                                const LaneLimits& limits);

}  // namespace stagecraft
