// The lane over Gloo, as its two source files share it: gloo_lane.cpp has its life, gloo_lane_threads.cpp what its
// threads do. Who wants a lane includes lane.hpp.
//
// Three threads per lane. The sender sends, and waits for acknowledgements; the reader reads frames and makes room for
// what they announce; the receiver waits for that, hands it over and acknowledges it. So the room for a parcel is made
// while the one before it is still on its way, and a stream does not wait a round trip per parcel.
//
// Three also because of how Gloo (0.5.0) tells that a connection broke: through the receives that are posted and have
// not begun. A receive in the middle of its message, and a send, hear nothing. At any moment at least one of the
// threads waits for a receive that hears of it, and wakes the others. Thread promise: that of lane.hpp.
#pragma once

#include <fmt/format.h>

#include <array>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

#include "transport/gloo_connection.hpp"
#include "transport/lane.hpp"
#include "transport/lane_wire.hpp"

namespace stagecraft {

/// A message of the lane's own, with the memory that it is sent from or comes to.
struct Message {
  std::vector<char> bytes;
  std::unique_ptr<PostedBuffer> buffer;

  std::uint64_t number() const {
    std::uint64_t n = 0;
    std::memcpy(&n, bytes.data(), sizeof n);
    return n;
  }
  void set_number(std::uint64_t n) { std::memcpy(bytes.data(), &n, sizeof n); }
};

/// Of a parcel: itself, and its body's messages in order.
struct LaneTransfer {
  LaneParcel parcel;
  std::vector<std::unique_ptr<PostedBuffer>> body;
};

class GlooLane final : public Lane {
 public:
  /// Throws when it can't listen.
  GlooLane(LaneOptions options, LaneEvents& events)
      : options_(std::move(options)),
        events_(events),
        connection_(std::make_unique<GlooConnection>(options_.listen, options_.rank)),
        address_(connection_->address()) {}
  ~GlooLane() override { GlooLane::close(); }

  void start();

  std::string address() const override { return address_; }
  void connect(std::string peer_address) override;
  std::optional<std::string> send(LaneParcel parcel) override;
  LaneFigures figures() const override;
  void close() override;

 private:
  std::string named(const std::string& text) const { return fmt::format("lane '{}': {}", options_.name, text); }

  // Any thread of the lane's own.
  void run(void (GlooLane::*work)());
  void fail(std::string why);
  void stop();
  bool came(PostedBuffer& buffer, PostedBuffer*& place, const std::function<bool()>& idle = nullptr);
  bool stopped() const {
    const std::lock_guard lock(mutex_);
    return stopped_;
  }
  Message message(std::size_t bytes) {
    Message m{std::vector<char>(bytes), nullptr};
    m.buffer = connection_->buffer(m.bytes.data(), bytes);
    return m;
  }
  void post_ring(std::vector<Message>& ring, std::size_t bytes, std::optional<LaneSlot> receive);

  // The receiver's.
  void link_and_deliver();
  bool greet();
  void open();
  void deliver();
  bool more_is_coming() const;
  void report_failure();
  // The reader's.
  void read_frames();
  LaneTransfer make_room(Announced announced);
  // The sender's.
  void send_and_collect();
  bool await_open();
  std::string what_is_missing() const;
  void send_what_the_window_allows();
  void put_on_the_wire(LaneTransfer& transfer);
  void take_acknowledgement(const Message& ack);

  const LaneOptions options_;
  LaneEvents& events_;
  std::unique_ptr<GlooConnection> connection_;  // until close()
  const std::string address_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<std::string> peer_address_, refusal_, failure_;
  bool connected_ = false, open_ = false, stopped_ = false, closed_ = false;
  std::deque<LaneParcel> queue_;       // handed over and not sent
  std::deque<LaneTransfer> arriving_;  // announced and not there
  LaneFigures figures_;
  // What each thread waits for, so that it can be told to stop.
  PostedBuffer *awaited_body_ = nullptr, *awaited_frame_ = nullptr, *awaited_ack_ = nullptr;

  std::array<Message, 4> greeting_;  // hello and verdict, out and in
  // A place per parcel of the window: when parcel n may be sent, that of parcel n - window is free at both ends.
  std::vector<Message> frames_out_, frames_in_, acks_out_, acks_in_;
  std::deque<LaneTransfer> in_flight_;         // the sender's: sent and not acknowledged
  std::uint64_t sent_ = 0, acknowledged_ = 0;  // the sender's: parcels

  std::thread receiver_, reader_, sender_;
};

}  // namespace stagecraft
