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
/// of the other's, as a number. Then, per parcel: a frame, and the messages of its body; and back acknowledgements,
/// each the number of a parcel, which stands for those before it, too.
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

/// What has room in a frame travels there, copied; what has not is a message of the body. Both ends ask for the header
/// first, then for each payload in order.
class FrameRoom {
 public:
  explicit FrameRoom(const LaneLimits& limits);
  bool takes(std::uint64_t bytes) {
    if (bytes > left_) return false;
    left_ -= bytes;
    return true;
  }

 private:
  std::uint64_t left_;
};

/// The largest frame, for which receives are posted.
std::size_t frame_bytes(const LaneLimits& limits);
/// The frame of a parcel that was checked: how many bytes of `frame`, which has frame_bytes(), are to be sent.
std::size_t write_frame(const LaneParcel& parcel, std::uint64_t sequence, const LaneLimits& limits,
                        std::span<char> frame);

/// What a frame announces.
struct Announced {
  struct Payload {
    std::uint64_t bytes = 0;
    Bytes charged;
    const char* inside = nullptr;  ///< in the frame; null: a message of the body, or no bytes
  };
  std::vector<char> header;       ///< of its full size, and with its bytes if they were in the frame
  bool header_follows = false;    ///< it is the first message of the body instead
  std::vector<Payload> payloads;  ///< in order
};
/// The content, within the limits, or what is wrong with it. Allocates no more than the limits allow.
std::variant<Announced, std::string> read_frame(std::span<const char> frame, std::uint64_t expected_sequence,
                                                const LaneLimits& limits);

}  // namespace stagecraft
