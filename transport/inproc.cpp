#include <algorithm>
#include <cstring>
#include <mutex>

#include "planning/bug.hpp"
#include "transport/channel.hpp"

namespace stagecraft {

namespace {

class InprocChannel final : public Channel {
 public:
  InprocChannel(const LinkCost& cost, bool copies, const Clock& clock, Arrivals& arrivals, LinkWeather* weather)
      : cost_(cost), copies_(copies), clock_(clock), arrivals_(arrivals), weather_(weather) {}

  // With weather, what was held goes on from another thread.
  void send(Parcel parcel) override {
    const auto lock = weather_ ? std::unique_lock(mutex_) : std::unique_lock<std::mutex>();
    if (copies_ && !parcel.payload.empty()) parcel.payload = copy(parcel.payload);
    pass(std::move(parcel));
  }
  void tell(Parcel parcel) override {
    STAGECRAFT_ASSERT(parcel.payload.empty(), "a payload has to be sent");
    if (weather_ && weather_->holds([this, parcel] { tell(late(parcel)); })) return;
    parcel.due += weather_ ? weather_->cost(cost_, {}).latency : cost_.latency;
    deliver(std::move(parcel));
  }

 private:
  void pass(Parcel parcel) {
    const Bytes size = parcel.payload.empty() ? Bytes{} : parcel.payload.buffer()->charged();
    if (weather_) {
      if (weather_->holds([this, parcel] { go_on(late(parcel)); })) return;
    } else if (cost_.free()) {
      return arrivals_.arrived(std::move(parcel), Duration{});
    }
    const LinkCost cost = weather_ ? weather_->cost(cost_, size) : cost_;
    server_free_ = std::max(server_free_, parcel.due) + service_time(cost, size);
    last_ = std::max(last_, server_free_ + cost.latency);  // in order, whatever the weather
    parcel.due = last_;
    deliver(std::move(parcel));
  }
  void go_on(Parcel parcel) {
    const std::lock_guard lock(mutex_);
    pass(std::move(parcel));
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
  Instant server_free_{}, last_{};
};

}  // namespace

std::unique_ptr<Channel> make_inproc_channel(const LinkCost& cost, bool copies, const Clock& clock, Arrivals& arrivals,
                                             LinkWeather* weather) {
  return std::make_unique<InprocChannel>(cost, copies, clock, arrivals, weather);
}

}  // namespace stagecraft
