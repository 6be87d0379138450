#include <algorithm>
#include <cstring>

#include "planning/bug.hpp"
#include "transport/channel.hpp"

namespace stagecraft {

namespace {

class InprocChannel final : public Channel {
 public:
  InprocChannel(const LinkCost& cost, bool copies, const Clock& clock, Arrivals& arrivals)
      : cost_(cost), copies_(copies), clock_(clock), arrivals_(arrivals) {}

  void send(Parcel parcel) override {
    if (copies_ && !parcel.payload.empty()) parcel.payload = copy(parcel.payload);
    if (cost_.free()) return arrivals_.arrived(std::move(parcel), Duration{});
    const Bytes size = parcel.payload.empty() ? Bytes{} : parcel.payload.buffer()->charged();
    server_free_ = std::max(server_free_, parcel.due) + service_time(cost_, size);
    parcel.due = server_free_ + cost_.latency;
    deliver(std::move(parcel));
  }
  void tell(Parcel parcel) override {
    STAGECRAFT_ASSERT(parcel.payload.empty(), "a payload has to be sent");
    parcel.due += cost_.latency;
    deliver(std::move(parcel));
  }

 private:
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
  Instant server_free_{};
};

}  // namespace

std::unique_ptr<Channel> make_inproc_channel(const LinkCost& cost, bool copies, const Clock& clock,
                                             Arrivals& arrivals) {
  return std::make_unique<InprocChannel>(cost, copies, clock, arrivals);
}

}  // namespace stagecraft
