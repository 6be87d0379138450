#include "transport/gloo_lane.hpp"

#include "planning/bug.hpp"
#include "transport/socket_address.hpp"

namespace stagecraft {

void GlooLane::start() {
  const WithoutSigpipe guard;
  receiver_ = std::thread([this] { run(&GlooLane::link_and_deliver), report_failure(); });
  reader_ = std::thread([this] { run(&GlooLane::read_frames); });
  sender_ = std::thread([this] { run(&GlooLane::send_and_collect); });
}

void GlooLane::run(void (GlooLane::*work)()) {
  try {
    (this->*work)();
  } catch (const std::exception& e) {
    fail(said_by_gloo(e));
  }
}

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
  if (awaited_ack_ != nullptr) awaited_ack_->break_off();
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
  connection_->hang_up();
  for (std::thread* thread : {&receiver_, &reader_, &sender_})
    if (thread->joinable()) thread->join();
  // Only now, with the pair closed: a posted buffer that goes before its pair wedges that.
  queue_.clear(), in_flight_.clear(), arriving_.clear();
  greeting_ = {};
  for (auto* ring : {&frames_out_, &frames_in_, &acks_out_, &acks_in_}) ring->clear();
  connection_.reset();
}

// The first reason counts, and that this end refused the other counts more than how the other took it.
void GlooLane::fail(std::string why) {
  {
    const std::lock_guard lock(mutex_);
    if (stopped_) return;
    failure_ = refusal_ ? *refusal_ : std::move(why);
    stop();
  }
  connection_->hang_up();
}

// Under the lock: every wait ends, or does not begin.
void GlooLane::stop() {
  stopped_ = true;
  for (PostedBuffer* awaited : {awaited_body_, awaited_frame_, awaited_ack_})
    if (awaited != nullptr) awaited->break_off();
  changed_.notify_all();
}

// True when the message is there. False when the wait was broken off, or not begun, to look at what there is to do, or
// to stop. `idle` is asked under the lock: is there nothing else to do?
bool GlooLane::came(PostedBuffer& buffer, PostedBuffer*& place, const std::function<bool()>& idle) {
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
    if (stopped_ || (idle && !idle())) return false;
    place = &buffer;
  }
  const Leave leave{mutex_, place};
  return buffer.wait();
}

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
