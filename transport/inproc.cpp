#include <algorithm>
#include <cstring>
#include <mutex>
#include <utility>

#include "planning/bug.hpp"
#include "planning/link_server.hpp"
#include "transport/channel.hpp"

namespace stagecraft {

namespace {

class InprocChannel final : public Channel {
 public:
  InprocChannel(const LinkCost& cost, bool copies, const Clock& clock, Arrivals& arrivals, LinkWeather* weather)
      : cost_(cost),
        copies_(copies),
        clock_(clock),
        arrivals_(arrivals),
        weather_(weather),
        servers_(cost.lanes, cost.queue) {}

  // With weather, what was held goes on from another thread.
  void send(Parcel parcel) override {
    const auto lock = guard();
    if (copies_ && !parcel.payload.empty()) parcel.payload = copy(parcel.payload);
    pass(std::move(parcel));
  }
  void tell(Parcel parcel) override {
    STAGECRAFT_ASSERT(parcel.payload.empty(), "a payload has to be sent");
    if (weather_ && weather_->holds([this, parcel] { tell(late(parcel)); })) return;
    parcel.due += weather_ ? weather_->cost(cost_, {}).latency : cost_.latency;
    deliver(std::move(parcel));
  }
  std::optional<Instant> admits(Instant now) override {
    const auto lock = guard();
    if (!cost_.queue) return now;
    return held_.empty() ? std::optional(servers_.admits(now)) : std::nullopt;
  }
  std::optional<Instant> held_since() override {
    const auto lock = guard();
    return held_.empty() ? std::nullopt : std::optional(held_since_);
  }
  std::vector<Parcel> take_back() override {
    const auto lock = guard();
    return std::exchange(held_, {});
  }
  void change(const LinkCost& cost) override {
    const auto lock = guard();
    cost_ = cost;
    servers_ = LinkServer(cost.lanes, cost.queue);
  }

 private:
  std::unique_lock<std::mutex> guard() { return weather_ ? std::unique_lock(mutex_) : std::unique_lock<std::mutex>(); }
  void pass(Parcel parcel) {
    const Bytes size = parcel.payload.empty() ? Bytes{} : parcel.payload.buffer()->charged();
    if (weather_) {
      // Whoever comes while another one is held stays behind it.
      if (!held_.empty()) return held_.push_back(std::move(parcel));
      if (weather_->holds([this] { go_on(); })) {
        held_since_ = clock_.now();
        return held_.push_back(std::move(parcel));
      }
    } else if (cost_.free()) {
      return arrivals_.arrived(std::move(parcel), Duration{});
    }
    const LinkCost cost = weather_ ? weather_->cost(cost_, size) : cost_;
    const Instant left = servers_.serve(parcel.due, service_time(cost, size));
    parcel.due = left + cost.latency;
    if (cost_.lanes == 1) parcel.due = last_ = std::max(last_, parcel.due);  // in order, whatever the weather
    deliver(std::move(parcel));
  }
  void go_on() {
    {
      const std::lock_guard lock(mutex_);
      for (Parcel& parcel : std::exchange(held_, {})) pass(late(std::move(parcel)));
    }
    arrivals_.let_go();
  }
  // What was held leaves when it is let go.
  Parcel late(Parcel parcel) const {
    parcel.due = std::max(parcel.due, clock_.now());
    return parcel;
  }
  void deliver(Parcel parcel) {
    const Duration delay = std::max(parcel.due - clock_.now(), Duration{});
    arrivals_.arrived(std::move(parcel), delay);
  }
  static Tensor copy(const Tensor& from) {
    Tensor to(from.buffer()->arena().allocate(from.buffer()->size(), from.buffer()->charged()), from.size());
    std::memcpy(to.data(), from.data(), from.size() * sizeof(float));
    return to;
  }

  LinkCost cost_;
  bool copies_;
  const Clock& clock_;
  Arrivals& arrivals_;
  LinkWeather* weather_;
  std::mutex mutex_;
  LinkServer servers_;
  std::vector<Parcel> held_;  // by the weather
  Instant held_since_{};
  Instant last_{};
};

}  // namespace

std::unique_ptr<Channel> make_inproc_channel(const LinkCost& cost, bool copies, const Clock& clock, Arrivals& arrivals,
                                             LinkWeather* weather) {
  return std::make_unique<InprocChannel>(cost, copies, clock, arrivals, weather);
}

}  // namespace stagecraft
