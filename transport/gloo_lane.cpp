// Three threads per lane. One sends, and waits for acknowledgements; one reads frames and makes room for what they
// announce; one waits for that, hands it over and acknowledges it. So the room for a parcel is made while the one
// before it is still on its way, and a stream does not wait a round trip per parcel.
//
// Three also because of how Gloo (0.5.0) tells that a connection broke: by the receives that are posted and have not
// begun. A receive in the middle of its message, and a send, hear nothing. At any moment at least one of the threads
// waits for a receive that hears of it, and it wakes the others.
//
// A Gloo device, that is one more thread with its epoll loop, per lane: with one device for two lanes, small parcels
// waited for the stream on the other (4 KiB there and back beside a 16 MiB stream: 3.4 ms, with a device of their own
// 0.44 ms). It costs a wake-up every 10 ms.
#include <fmt/format.h>
#include <pthread.h>

#include <array>
#include <condition_variable>
#include <csignal>
#include <cstring>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

#include <gloo/transport/context.h>
#include <gloo/transport/device.h>
#include <gloo/transport/pair.h>
#include <gloo/transport/tcp/address.h>
#include <gloo/transport/tcp/device.h>
#include <gloo/transport/unbound_buffer.h>

#include "planning/bug.hpp"
#include "transport/lane_wire.hpp"
#include "transport/socket_address.hpp"

namespace stagecraft {

namespace {

namespace tcp = gloo::transport::tcp;
using PostedBuffer = gloo::transport::UnboundBuffer;

// A timeout of Gloo's is no way out, it closes the pair: waits are ended by abortWaitRecv() instead.
constexpr std::chrono::milliseconds forever = std::chrono::hours(24 * 365);
// How long an end that refuses the other waits until that has heard the reason.
constexpr auto parting = std::chrono::milliseconds(500);

// Gloo writes without MSG_NOSIGNAL, and its threads inherit the mask of who makes them.
class WithoutSigpipe {
 public:
  WithoutSigpipe() {
    sigset_t pipe;
    sigemptyset(&pipe);
    sigaddset(&pipe, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &pipe, &before_);
  }
  ~WithoutSigpipe() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  WithoutSigpipe(const WithoutSigpipe&) = delete;
  WithoutSigpipe& operator=(const WithoutSigpipe&) = delete;

 private:
  sigset_t before_{};
};

// "[./gloo/transport/tcp/pair.cc:598] Connection closed by peer ..." without where Gloo says it.
std::string said_by_gloo(const std::exception& e) {
  const std::string text = e.what();
  const std::size_t end = text.find("] ");
  return text.starts_with('[') && end != std::string::npos ? text.substr(end + 2) : text;
}

// A message of the lane's own, with the memory that it is sent from or comes to.
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

std::uint64_t bytes_of(const LaneParcel& parcel) {
  std::uint64_t bytes = parcel.header.size();
  for (const Tensor& payload : parcel.payloads) bytes += payload.size() * sizeof(float);
  return bytes;
}

// Of a parcel: itself, and its body's messages in order.
struct Transfer {
  LaneParcel parcel;
  std::vector<std::unique_ptr<PostedBuffer>> body;
};

class GlooLane final : public Lane {
 public:
  GlooLane(LaneOptions options, LaneEvents& events) : options_(std::move(options)), events_(events) {
    const WithoutSigpipe guard;
    tcp::attr where;
    where.hostname = options_.listen;
    device_ = tcp::CreateDevice(where);
    context_ = device_->createContext(options_.rank, 2);
    context_->setTimeout(forever);
    auto& pair = context_->createPair(peer());
    pair->setLocalRank(0);
    address_ = to_text(tcp::Address(pair->address().bytes()).getSockaddr());
  }
  ~GlooLane() override { GlooLane::close(); }

  void start() {
    const WithoutSigpipe guard;
    receiver_ = std::thread([this] { run([this] { link_and_deliver(); }), report_failure(); });
    reader_ = std::thread([this] { run([this] { read_frames(); }); });
    sender_ = std::thread([this] { run([this] { send_and_collect(); }); });
  }

  std::string address() const override { return address_; }
  void connect(std::string peer_address) override;
  std::optional<std::string> send(LaneParcel parcel) override;
  LaneFigures figures() const override;
  void close() override;

 private:
  int peer() const { return 1 - options_.rank; }
  std::string named(const std::string& text) const { return fmt::format("lane '{}': {}", options_.name, text); }

  // Any thread of the lane's own.
  void run(const std::function<void()>& work) {
    try {
      work();
    } catch (const std::exception& e) {
      fail(said_by_gloo(e));
    }
  }
  void fail(std::string why);
  void stop();
  void hang_up();
  template <class Idle>
  bool came(PostedBuffer& buffer, PostedBuffer*& place, Idle idle);
  bool came(PostedBuffer& buffer, PostedBuffer*& place) {
    return came(buffer, place, [] { return true; });
  }
  bool stopped() const {
    const std::lock_guard lock(mutex_);
    return stopped_;
  }
  Message message(std::size_t bytes) {
    Message m{std::vector<char>(bytes), nullptr};
    m.buffer = context_->createUnboundBuffer(m.bytes.data(), bytes);
    return m;
  }
  void post_ring(std::vector<Message>& ring, std::size_t bytes, std::optional<LaneSlot> receive);

  // The receiver's.
  void link_and_deliver();
  bool greet();
  void open();
  void deliver();
  void report_failure();
  // The reader's.
  void read_frames();
  Transfer make_room(Announced announced);
  // The sender's.
  void send_and_collect();
  bool await_open();
  std::string what_is_missing() const;
  void send_what_the_window_allows();
  void take_acknowledgement(const Message& ack);

  const LaneOptions options_;
  LaneEvents& events_;
  std::shared_ptr<gloo::transport::Device> device_;
  std::shared_ptr<gloo::transport::Context> context_;
  std::string address_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<std::string> peer_address_, refusal_, failure_;
  bool connected_ = false, open_ = false, stopped_ = false, closed_ = false;
  std::deque<LaneParcel> queue_;   // handed over and not sent
  std::deque<Transfer> arriving_;  // announced and not there
  LaneFigures figures_;
  // What each thread waits for, so that it can be told to stop.
  PostedBuffer *awaited_body_ = nullptr, *awaited_frame_ = nullptr, *awaited_ack_ = nullptr;

  std::array<Message, 4> greeting_;  // hello and verdict, out and in
  // A place per parcel of the window: when parcel n may be sent, that of parcel n - window is free at both ends.
  std::vector<Message> frames_out_, frames_in_, acks_out_, acks_in_;
  std::deque<Transfer> in_flight_;             // the sender's: sent and not acknowledged
  std::uint64_t sent_ = 0, acknowledged_ = 0;  // the sender's: parcels

  std::thread receiver_, reader_, sender_;
};

void GlooLane::connect(std::string peer_address) {
  {
    const std::lock_guard lock(mutex_);
    STAGECRAFT_ASSERT(!peer_address_, "lane '{}' is connected twice", options_.name);
    peer_address_ = std::move(peer_address);
  }
  changed_.notify_all();
}

std::optional<std::string> GlooLane::send(LaneParcel parcel) {
  if (const auto over = check_parcel(parcel, options_.limits)) return named(*over);
  const std::lock_guard lock(mutex_);
  if (stopped_) return named(failure_ ? *failure_ : "it is closed");
  queue_.push_back(std::move(parcel));
  if (awaited_ack_ != nullptr) awaited_ack_->abortWaitRecv();
  return std::nullopt;
}

LaneFigures GlooLane::figures() const {
  const std::lock_guard lock(mutex_);
  LaneFigures now = figures_;
  now.queued = queue_.size();
  return now;
}

void GlooLane::close() {
  {
    const std::lock_guard lock(mutex_);
    if (closed_) return;
    closed_ = true;
    STAGECRAFT_ASSERT(receiver_.get_id() != std::this_thread::get_id(), "lane '{}' is closed by its own event",
                      options_.name);
    stop();
  }
  hang_up();
  for (std::thread* thread : {&receiver_, &reader_, &sender_})
    if (thread->joinable()) thread->join();
  // Only now, with the pair closed: a posted buffer that goes before its pair wedges that.
  queue_.clear(), in_flight_.clear(), arriving_.clear();
  greeting_ = {};
  for (auto* ring : {&frames_out_, &frames_in_, &acks_out_, &acks_in_}) ring->clear();
  context_.reset();
  device_.reset();
}

// The first reason counts, and that this end refused the other counts more than how the other took it.
void GlooLane::fail(std::string why) {
  {
    const std::lock_guard lock(mutex_);
    if (stopped_) return;
    failure_ = refusal_ ? *refusal_ : std::move(why);
    stop();
  }
  hang_up();
}

// Under the lock: every wait ends, or does not begin.
void GlooLane::stop() {
  stopped_ = true;
  for (PostedBuffer* awaited : {awaited_body_, awaited_frame_, awaited_ack_})
    if (awaited != nullptr) awaited->abortWaitRecv();
  changed_.notify_all();
}

// Tells the peer, and ends a connect() that is under way.
void GlooLane::hang_up() {
  try {
    context_->getPair(peer())->close();
  } catch (const std::exception&) {
    // It is closed already.
  }
}

// True when the message is there. False when the wait was broken off, to look at what there is to do, or to stop.
template <class Idle>
bool GlooLane::came(PostedBuffer& buffer, PostedBuffer*& place, Idle idle) {
  struct Leave {
    std::mutex& mutex;
    PostedBuffer*& place;
    ~Leave() {
      const std::lock_guard lock(mutex);
      place = nullptr;
    }
  };
  {
    const std::lock_guard lock(mutex_);
    if (stopped_ || !idle()) return false;
    place = &buffer;
  }
  const Leave leave{mutex_, place};
  return buffer.waitRecv(forever);
}

void GlooLane::post_ring(std::vector<Message>& ring, std::size_t bytes, std::optional<LaneSlot> receive) {
  for (std::uint32_t i = 0; i < options_.limits.window; ++i) {
    ring.push_back(message(bytes));
    if (receive) ring.back().buffer->recv(peer(), *receive);
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
  const auto where = parse_socket_address(to);
  if (!where) return fail(fmt::format("'{}' is no address of a lane, such as 10.0.0.1:4000", to));
  context_->getPair(peer())->connect(tcp::Address(*where).bytes());
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
  hello_in.buffer->recv(peer(), hello_slot);
  verdict_in.buffer->recv(peer(), verdict_slot);
  const auto hello = make_hello(options_.limits, options_.token, options_.rank);
  std::memcpy(hello_out.bytes.data(), hello.data(), hello.size());
  hello_out.buffer->send(peer(), hello_slot);
  if (!came(*hello_in.buffer, awaited_body_)) return false;

  const auto wrong = check_hello(hello_in.bytes, options_.limits, options_.token, options_.rank);
  if (wrong) {
    const std::lock_guard lock(mutex_);
    refusal_ = wrong;
    changed_.notify_all();
  }
  verdict_out.set_number(wrong ? lane_refused : lane_accepted);
  verdict_out.buffer->send(peer(), verdict_slot);
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
  for (std::uint64_t n = 0;; ++n) {
    Transfer* next = nullptr;
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
    Message& ack = acks_out_[n % acks_out_.size()];
    ack.set_number(n);
    ack.buffer->send(peer(), ack_slot);
  }
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
    frame.buffer->recv(peer(), frame_slot);
    Transfer transfer = make_room(std::get<Announced>(std::move(read)));
    const std::lock_guard lock(mutex_);
    arriving_.push_back(std::move(transfer));
    changed_.notify_all();
    ++n;
  }
}

Transfer GlooLane::make_room(Announced announced) {
  Transfer transfer;
  const auto expect = [&](void* at, std::size_t bytes) {
    transfer.body.push_back(context_->createUnboundBuffer(at, bytes));
    transfer.body.back()->recv(peer(), body_slot);
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
    expect(transfer.parcel.payloads.back().data(), payload.bytes);
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
    ack.buffer->recv(peer(), ack_slot);
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
    Transfer transfer;
    {
      const std::lock_guard lock(mutex_);
      if (stopped_ || queue_.empty()) return;
      transfer.parcel = std::move(queue_.front());
      queue_.pop_front();
      const std::size_t header = transfer.parcel.header.size();
      ++figures_.parcels_sent, figures_.bytes_sent += bytes_of(transfer.parcel);
      figures_.bytes_copied += header <= header_room(options_.limits) ? header : 0;
    }
    in_flight_.push_back(std::move(transfer));
    auto& [parcel, body] = in_flight_.back();
    Message& frame = frames_out_[sent_ % frames_out_.size()];
    write_frame(parcel, sent_++, options_.limits, frame.bytes);
    frame.buffer->send(peer(), frame_slot);
    const auto add = [&](void* from, std::size_t size) {
      body.push_back(context_->createUnboundBuffer(from, size));
      body.back()->send(peer(), body_slot);
    };
    if (parcel.header.size() > header_room(options_.limits)) add(parcel.header.data(), parcel.header.size());
    for (Tensor& payload : parcel.payloads)
      if (payload.size() > 0) add(payload.data(), payload.size() * sizeof(float));
  }
}

// The peer has the whole parcel, so Gloo is done with its buffers, too.
void GlooLane::take_acknowledgement(const Message& ack) {
  if (in_flight_.empty() || ack.number() != acknowledged_)
    return fail(fmt::format("the peer acknowledged parcel {} where {} were on their way, from {} on", ack.number(),
                            in_flight_.size(), acknowledged_));
  in_flight_.pop_front();
  ++acknowledged_;
  const std::lock_guard lock(mutex_);
  figures_.parcels_acknowledged = acknowledged_;
}

}  // namespace

LaneResult make_gloo_lane(LaneOptions options, LaneEvents& events) {
  STAGECRAFT_ASSERT(options.rank == 0 || options.rank == 1, "a lane has ends 0 and 1, not {}", options.rank);
  STAGECRAFT_ASSERT(options.memory != nullptr, "lane '{}' has no memory", options.name);
  const std::string name = options.name, listen = options.listen;
  const auto no_lane = [&](const std::string& why) {
    return fmt::format("lane '{}' can't listen on '{}': {}", name, listen, why);
  };
  if (const auto wrong = check_limits(options.limits)) return no_lane(*wrong);
  // Looked up here: Gloo dereferences what it did not find.
  const auto address = own_address(listen);
  if (const auto* wrong = std::get_if<std::string>(&address)) return no_lane(*wrong);
  options.listen = host_text(std::get<sockaddr_storage>(address));
  try {
    auto lane = std::make_unique<GlooLane>(std::move(options), events);
    lane->start();
    return lane;
  } catch (const std::exception& e) {
    return no_lane(said_by_gloo(e));
  }
}

}  // namespace stagecraft
