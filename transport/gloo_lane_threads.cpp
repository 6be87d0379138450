#include <fmt/format.h>

#include "transport/gloo_lane.hpp"
#include "transport/socket_address.hpp"

namespace stagecraft {

namespace {

// How long an end that refuses the other waits until that has heard the reason.
constexpr auto parting = std::chrono::milliseconds(500);

std::uint64_t bytes_of(const LaneParcel& parcel) {
  std::uint64_t bytes = parcel.header.size();
  for (const Tensor& payload : parcel.payloads) bytes += payload.size() * sizeof(float);
  return bytes;
}

}  // namespace

void GlooLane::post_ring(std::vector<Message>& ring, std::size_t bytes, std::optional<LaneSlot> receive) {
  for (std::uint32_t i = 0; i < options_.limits.window; ++i) {
    ring.push_back(message(bytes));
    if (receive) ring.back().buffer->receive(*receive);
  }
}

void GlooLane::link_and_deliver() {
  std::string to;
  {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return stopped_ || peer_address_; });
    if (stopped_) return;
    to = *peer_address_;
  }
  if (!parse_socket_address(to)) return fail(fmt::format("'{}' is no address of a lane, such as 10.0.0.1:4000", to));
  connection_->connect(to);
  {
    const std::lock_guard lock(mutex_);
    connected_ = true;
  }
  if (!greet()) return;
  open();
  events_.connected();
  deliver();
}

// Hellos cross, then verdicts: an end that hangs up at once could take its hello from the other before that has read
// it.
bool GlooLane::greet() {
  auto& [hello_out, hello_in, verdict_out, verdict_in] = greeting_;
  hello_out = message(lane_hello_bytes), hello_in = message(lane_hello_bytes);
  verdict_out = message(sizeof(std::uint64_t)), verdict_in = message(sizeof(std::uint64_t));
  hello_in.buffer->receive(hello_slot);
  verdict_in.buffer->receive(verdict_slot);
  const auto hello = make_hello(options_.limits, options_.token, options_.rank);
  std::memcpy(hello_out.bytes.data(), hello.data(), hello.size());
  hello_out.buffer->send(hello_slot);
  if (!came(*hello_in.buffer, awaited_body_)) return false;

  const auto wrong = check_hello(hello_in.bytes, options_.limits, options_.token, options_.rank);
  if (wrong) {
    const std::lock_guard lock(mutex_);
    refusal_ = wrong;
    changed_.notify_all();
  }
  verdict_out.set_number(wrong ? lane_refused : lane_accepted);
  verdict_out.buffer->send(verdict_slot);
  if (!came(*verdict_in.buffer, awaited_body_)) return false;
  if (wrong || verdict_in.number() != lane_accepted) fail("the peer refused what this end said of itself");
  return !stopped();
}

void GlooLane::open() {
  const std::size_t frame = frame_bytes(options_.limits), ack = sizeof(std::uint64_t);
  post_ring(frames_out_, frame, std::nullopt);
  post_ring(acks_out_, ack, std::nullopt);
  post_ring(frames_in_, frame, frame_slot);
  post_ring(acks_in_, ack, ack_slot);
  const std::lock_guard lock(mutex_);
  open_ = true;
  changed_.notify_all();
}

void GlooLane::deliver() {
  std::uint32_t owed = 0;  // parcels to acknowledge
  std::uint64_t acks = 0;
  for (std::uint64_t n = 0;; ++n) {
    LaneTransfer* next = nullptr;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return stopped_ || !arriving_.empty(); });
      if (stopped_) return;
      next = &arriving_.front();  // where it stays: the reader only adds, and what is posted outlives the pair
    }
    for (const auto& piece : next->body)
      if (!came(*piece, awaited_body_)) return;
    LaneParcel parcel = std::move(next->parcel);
    {
      const std::lock_guard lock(mutex_);
      arriving_.pop_front();
      ++figures_.parcels_arrived, figures_.bytes_arrived += bytes_of(parcel);
    }
    events_.arrived(std::move(parcel));
    if (++owed < options_.limits.window / 2 && more_is_coming()) continue;
    owed = 0;
    Message& ack = acks_out_[acks++ % acks_out_.size()];
    ack.set_number(n);
    ack.buffer->send(ack_slot);
  }
}

// Then an acknowledgement can wait for that: each makes the loops of both ends stop what they do.
bool GlooLane::more_is_coming() const {
  const std::lock_guard lock(mutex_);
  return !arriving_.empty();
}

// The receiver is the only one that speaks to the events, so this is the last they hear.
void GlooLane::report_failure() {
  std::string why;
  {
    const std::lock_guard lock(mutex_);
    if (!failure_ || closed_) return;
    why = named(*failure_);
  }
  events_.failed(std::move(why));
}

void GlooLane::read_frames() {
  {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return stopped_ || open_; });
  }
  for (std::uint64_t n = 0; !stopped();) {
    Message& frame = frames_in_[n % frames_in_.size()];
    if (!came(*frame.buffer, awaited_frame_)) continue;
    auto read = read_frame(frame.bytes, n, options_.limits);
    if (const auto* wrong = std::get_if<std::string>(&read)) return fail(*wrong);
    if (n >= figures().parcels_arrived + options_.limits.window)
      return fail(fmt::format("the peer sent parcel {} beyond the window of {}", n, options_.limits.window));
    LaneTransfer transfer = make_room(std::get<Announced>(std::move(read)));
    frame.buffer->receive(frame_slot);
    const std::lock_guard lock(mutex_);
    arriving_.push_back(std::move(transfer));
    changed_.notify_all();
    ++n;
  }
}

LaneTransfer GlooLane::make_room(Announced announced) {
  LaneTransfer transfer;
  const auto expect = [&](void* at, std::size_t bytes) {
    transfer.body.push_back(connection_->buffer(at, bytes));
    transfer.body.back()->receive(body_slot);
  };
  transfer.parcel.header = std::move(announced.header);
  if (announced.header_follows) expect(transfer.parcel.header.data(), transfer.parcel.header.size());
  for (const auto& payload : announced.payloads) {
    if (payload.bytes == 0) {
      transfer.parcel.payloads.emplace_back();
      continue;
    }
    transfer.parcel.payloads.emplace_back(options_.memory->allocate(payload.bytes, payload.charged),
                                          payload.bytes / sizeof(float));
    float* to = transfer.parcel.payloads.back().data();
    if (payload.inside != nullptr)
      std::memcpy(to, payload.inside, payload.bytes);
    else
      expect(to, payload.bytes);
  }
  return transfer;
}

void GlooLane::send_and_collect() {
  if (!await_open()) return;
  for (std::uint64_t n = 0; !stopped();) {
    send_what_the_window_allows();
    Message& ack = acks_in_[n % acks_in_.size()];
    const auto idle = [&] { return queue_.empty() || in_flight_.size() >= options_.limits.window; };
    if (!came(*ack.buffer, awaited_ack_, idle)) continue;
    take_acknowledgement(ack);
    ack.buffer->receive(ack_slot);
    ++n;
  }
}

// The sender has nothing else to do until then, so it keeps the time.
bool GlooLane::await_open() {
  std::unique_lock lock(mutex_);
  const auto settled = [&] { return stopped_ || open_; };
  changed_.wait_for(lock, options_.connect_within, [&] { return settled() || refusal_; });
  if (refusal_) changed_.wait_for(lock, parting, settled);
  if (settled()) return !stopped_;
  const std::string why = what_is_missing();
  lock.unlock();
  fail(why);
  return false;
}

std::string GlooLane::what_is_missing() const {
  const std::string time = format(options_.connect_within);
  if (!peer_address_) return fmt::format("not connected within {}: the peer's address never came", time);
  if (!connected_) return fmt::format("not connected within {}: no answer from {}", time, *peer_address_);
  return fmt::format("not connected within {}: {}, or who connected to {} in its place, did not say what it is", time,
                     *peer_address_, address_);
}

void GlooLane::send_what_the_window_allows() {
  while (in_flight_.size() < options_.limits.window) {
    LaneTransfer transfer;
    {
      const std::lock_guard lock(mutex_);
      if (stopped_ || queue_.empty()) return;
      transfer.parcel = std::move(queue_.front());
      queue_.pop_front();
    }
    in_flight_.push_back(std::move(transfer));
    put_on_the_wire(in_flight_.back());
  }
}

void GlooLane::put_on_the_wire(LaneTransfer& transfer) {
  Message& frame = frames_out_[sent_ % frames_out_.size()];
  frame.buffer->send(frame_slot, write_frame(transfer.parcel, sent_++, options_.limits, frame.bytes));
  FrameRoom room(options_.limits);
  std::uint64_t copied = 0;
  const auto send_or_skip = [&](void* from, std::size_t bytes) {
    if (bytes == 0) return;
    if (room.takes(bytes)) return static_cast<void>(copied += bytes);
    transfer.body.push_back(connection_->buffer(from, bytes));
    transfer.body.back()->send(body_slot);
  };
  send_or_skip(transfer.parcel.header.data(), transfer.parcel.header.size());
  for (Tensor& payload : transfer.parcel.payloads)
    if (payload.size() > 0) send_or_skip(payload.data(), payload.size() * sizeof(float));
  const std::lock_guard lock(mutex_);
  ++figures_.parcels_sent, figures_.bytes_sent += bytes_of(transfer.parcel), figures_.bytes_copied += copied;
}

// The peer has these parcels as a whole, so Gloo is done with their buffers, too.
void GlooLane::take_acknowledgement(const Message& ack) {
  if (ack.number() < acknowledged_ || ack.number() - acknowledged_ >= in_flight_.size())
    return fail(fmt::format("the peer acknowledged parcel {} where {} were on their way, from {} on", ack.number(),
                            in_flight_.size(), acknowledged_));
  for (; acknowledged_ <= ack.number(); ++acknowledged_) in_flight_.pop_front();
  const std::lock_guard lock(mutex_);
  figures_.parcels_acknowledged = acknowledged_;
}

}  // namespace stagecraft
