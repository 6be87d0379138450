// One direction of a connection between two peers: parcels in, parcels out, in order. Knows bytes, not stages.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "gpu/arena.hpp"
#include "gpu/clock.hpp"
#include "planning/cost.hpp"

namespace stagecraft {

struct Parcel {
  std::vector<char> header;  ///< the sender's own bytes
  Tensor payload;            ///< may be empty
  Instant due{};             ///< sent: when it was handed over; received: when it arrived
};

/// Where parcels arrive. Thread promise: any thread may call.
class Arrivals {
 public:
  virtual ~Arrivals() = default;
  /// Deliver after `delay` (zero: now).
  virtual void arrived(Parcel parcel, Duration delay) = 0;
  /// For the sender: something that the channel had to hold has gone on, so that admits() may know more.
  virtual void let_go() {}
};

/// send() and tell() never block. One owner.
class Channel {
 public:
  virtual ~Channel() = default;
  virtual void send(Parcel parcel) = 0;
  /// A few bytes without a payload that go beside what is sent: they take the link's latency alone, hold up nobody and
  /// wait for nobody.
  virtual void tell(Parcel parcel) = 0;
  /// The first moment, `now` or later, at which one more parcel finds a place in the device's queue, as far as is
  /// known; none: not before let_go(). Only a cost with a queue knows any other moment than `now`.
  virtual std::optional<Instant> admits(Instant now) = 0;
  /// Since when it has let nothing pass of what was sent; none: nothing is held.
  virtual std::optional<Instant> held_since() = 0;
  /// What is held, in the order in which it was sent: the channel forgets it.
  virtual std::vector<Parcel> take_back() = 0;
  /// From now on the link costs this, and has servers anew. Only while nothing is under way.
  virtual void change(const LinkCost& cost) = 0;
};

/// What a link is like at the moment, where faults are injected. Thread promise: any thread.
class LinkWeather {
 public:
  virtual ~LinkWeather() = default;
  /// Instead of `healthy`, for one parcel of `size`.
  virtual LinkCost cost(const LinkCost& healthy, Bytes size) = 0;
  /// True when nothing passes: `again` is kept, and called when something does, on any thread. Whoever owns the weather
  /// sees to it that it is not called once the channel is gone.
  virtual bool holds(std::function<void()> again) = 0;
};

/// Within one process: hands the handle over, after the time that the link's cost asks for. `copies`: the payload is
/// copied to other memory, as if it crossed nodes (the virtual world's multi-node runs).
/// `weather`: none is always fair.
std::unique_ptr<Channel> make_inproc_channel(const LinkCost& cost, bool copies, const Clock& clock, Arrivals& arrivals,
                                             LinkWeather* weather = nullptr);

}  // namespace stagecraft
