// A lane: a duplex connection between two processes that moves parcels, in order in each direction, whole or not at
// all. Knows bytes and peers, not stages.
//
// Who knocks: the far ends of links, with one lane for tensors and one for what is small and urgent: each lane has its
// own connection and threads, so that neither waits behind the other. What it never does: block a caller, decide that a
// peer that says nothing is dead (the control plane's heartbeat does, and then closes the lane), send a parcel twice.
//
// Life: make; address() goes to the peer through the control plane, and the peer's to connect(); connected();
// parcels; close() or failed(). A lane that has failed stays so: make another, with another token.
//
// Trust. Both ends must know `token`, which never crosses the lane: what each says first is keyed with it, and no
// tensor is accepted before that is checked. What is sent is neither encrypted nor signed, so this is for a network
// that is trusted not to alter or relay packets. What remains, because Gloo takes whoever connects first for the peer:
// from make_gloo_lane() until the peer is connected, the lane listens on a port that the system chose, on `listen`
// alone. A stranger who connects in that time keeps the peer out; the lane fails within `connect_within`, and another
// is made. One who also speaks Gloo's own protocol, and sends to a slot that expects nothing, ends this process: Gloo
// offers no means to prevent that. So make a lane when the peer is ready for it, and hand the address over at once.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "gpu/arena.hpp"
#include "planning/units.hpp"

namespace stagecraft {

/// What a lane moves. Either part may be empty. A payload without elements arrives as an empty handle.
struct LaneParcel {
  std::vector<char> header;  ///< the sender's own bytes
  /// Floats, moved as raw bytes: sent from their own buffers, which the lane holds until the peer has acknowledged the
  /// parcel, and received into buffers of the receiver's arena, charged there as they were here. The first 5 KiB of a
  /// parcel's pieces, as far as whole ones have room there, are copied instead, which spares them a round trip.
  std::vector<Tensor> payloads;
};

/// Both ends must agree on all of it. The receiver's memory is bounded by `window` parcels of the largest size.
struct LaneLimits {
  Bytes header{64 << 10};      ///< of one parcel
  Bytes payload{1 << 30};      ///< of one parcel, all its payloads together
  std::uint32_t payloads = 8;  ///< of one parcel; at most 1024
  std::uint32_t window = 4;    ///< parcels sent and not yet acknowledged, in each direction; 1 to 1024
};

using LaneToken = std::array<std::byte, 32>;

struct LaneOptions {
  std::string name;    ///< for what is said of it
  std::string listen;  ///< the address to bind, or its name, without a port; never that of all interfaces
  int rank = 0;        ///< 0 at one end, 1 at the other
  LaneToken token{};   ///< secret, of this incarnation of this lane
  LaneLimits limits;
  Duration connect_within{};      ///< from make_gloo_lane() to connected()
  std::shared_ptr<Arena> memory;  ///< where arriving payloads go
};

/// Called on a thread of the lane's own, one call at a time. A call that takes long holds up what arrives, and with it
/// the peer. It must not throw, nor close the lane. Not called any more once close() has returned.
class LaneEvents {
 public:
  virtual ~LaneEvents() = default;
  /// Once, first: both ends have proved that they know the token.
  virtual void connected() = 0;
  virtual void arrived(LaneParcel parcel) = 0;
  /// Once, last, with the lane's name in it. Parcels that the peer has not acknowledged may or may not have arrived.
  /// What the lane holds of them goes with close().
  virtual void failed(std::string why) = 0;
};

/// What a lane has done so far.
struct LaneFigures {
  std::uint64_t parcels_sent = 0, parcels_acknowledged = 0, parcels_arrived = 0;
  std::uint64_t bytes_sent = 0, bytes_arrived = 0;  ///< of headers and payloads
  std::uint64_t bytes_copied = 0;                   ///< of those sent, by the lane itself: small pieces only
  std::size_t queued = 0;                           ///< parcels that wait for the window; its bound is the caller's
};

/// Thread promise: any thread. A second close() does not wait for the first.
class Lane {
 public:
  virtual ~Lane() = default;
  /// What the peer's connect() needs. Stays the same.
  virtual std::string address() const = 0;
  /// Returns at once. Call it once.
  virtual void connect(std::string peer_address) = 0;
  /// Returns at once; before connected() too. Says why when the parcel can't be sent: it is over the limits, and the
  /// lane goes on, or the lane has failed. What a lane that fails later has queued is lost.
  [[nodiscard]] virtual std::optional<std::string> send(LaneParcel parcel) = 0;
  virtual LaneFigures figures() const = 0;
  /// Ends the connection, whatever is under way, and joins the threads, within a fraction of a second. The peer sees a
  /// connection that was reset. May be called again; the destructor does. Not from within an event.
  virtual void close() = 0;
};

/// The lane, or why there is none.
using LaneResult = std::variant<std::unique_ptr<Lane>, std::string>;

/// Over TCP with a private Gloo context. `events` outlives the lane. Blocks while `listen` is looked up.
LaneResult make_gloo_lane(LaneOptions options, LaneEvents& events);

}  // namespace stagecraft
