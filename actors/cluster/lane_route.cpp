#include "actors/cluster/lane_route.hpp"

#include <fmt/format.h>

#include <array>
#include <atomic>

#include "transport/lane.hpp"
#include "transport/secret.hpp"

namespace stagecraft {

namespace {

constexpr std::array<const char*, 2> lane_names = {"urgent", "state"};  // as BulkLane

class LaneRoute final : public BulkRoute, public LaneEvents {
 public:
  LaneRoute(GateActor gate, const Topology& topology, std::uint32_t own, std::uint32_t other, const std::string& secret)
      : gate_(std::move(gate)), other_(other) {
    const std::uint32_t low = std::min(own, other), high = std::max(own, other);
    for (std::size_t i = 0; i < lanes_.size(); ++i) {
      LaneOptions options;
      options.name = fmt::format("the {} lane between '{}' and '{}'", lane_names[i], topology.nodes[low].name,
                                 topology.nodes[high].name);
      const std::string& listen = topology.nodes[own].listen;
      options.listen = host_of(listen);
      options.rank = own == low ? 0 : 1;
      options.token = lane_token(secret, options.name);
      options.limits.payload = Bytes{std::uint64_t{1} << 36};  // a whole stage's state
      options.limits.payloads = i == 0 ? 1 : 1024;             // every frame has room for so many
      options.connect_within = topology.timeouts.stage;
      options.memory = Arena::make(fmt::format("arrivals from {}", topology.nodes[other].name), {});
      LaneResult made = make_gloo_lane(std::move(options), *this);
      if (const auto* why = std::get_if<std::string>(&made)) throw std::runtime_error(*why);
      lanes_[i] = std::move(std::get<std::unique_ptr<Lane>>(made));
    }
  }
  ~LaneRoute() override {
    for (auto& lane : lanes_)
      if (lane) lane->close();
  }
  LaneRoute(const LaneRoute&) = delete;
  LaneRoute& operator=(const LaneRoute&) = delete;

  LaneAddresses addresses() const override {
    LaneAddresses all;
    for (const auto& lane : lanes_) all.lanes.push_back(lane->address());
    return all;
  }
  void connect(const LaneAddresses& to) override {
    if (to.lanes.size() != lanes_.size())
      return failed(fmt::format("node {} has {} lanes, not {}", other_, to.lanes.size(), lanes_.size()));
    for (std::size_t i = 0; i < lanes_.size(); ++i) lanes_[i]->connect(to.lanes[i]);
  }
  void send(BulkLane lane, std::vector<char> header, std::vector<Tensor> payloads) override {
    if (const auto why = lanes_[static_cast<std::size_t>(lane)]->send({std::move(header), std::move(payloads)}))
      failed(*why);
  }

  void connected() override {
    if (++up_ == static_cast<int>(lanes_.size())) tell_from_outside(gate_, LanesAreUp{other_});
  }
  void arrived(LaneParcel parcel) override {
    tell_from_outside(gate_, BulkArrived{other_, std::move(parcel.header), std::move(parcel.payloads)});
  }
  void failed(std::string why) override { tell_from_outside(gate_, NodeLost{other_, std::move(why)}); }

 private:
  static std::string host_of(const std::string& address) {
    const std::string host = address.substr(0, address.rfind(':'));
    return host.starts_with('[') ? host.substr(1, host.size() - 2) : host;
  }

  GateActor gate_;
  std::uint32_t other_;
  std::atomic<int> up_ = 0;
  std::array<std::unique_ptr<Lane>, lane_names.size()> lanes_;
};

}  // namespace

std::shared_ptr<BulkRoute> make_lane_route(GateActor gate, const Topology& topology, std::uint32_t own,
                                           std::uint32_t other, const std::string& secret) {
  return std::make_shared<LaneRoute>(std::move(gate), topology, own, other, secret);
}

}  // namespace stagecraft
