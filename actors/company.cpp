#include "actors/company.hpp"

#include <cstring>

namespace stagecraft {

namespace {

// The payloads are copied into memory of the far node, and charged there as they were here.
class CopyingRoute final : public BulkRoute {
 public:
  CopyingRoute(std::uint32_t from, GateActor to) : from_(from), to_(std::move(to)) {}
  void send(BulkLane, std::vector<char> header, std::vector<Tensor> payloads) override {
    for (Tensor& payload : payloads) payload = copy(payload);
    tell_from_outside(to_, BulkArrived{from_, std::move(header), std::move(payloads)});
  }

 private:
  Tensor copy(const Tensor& from) {
    Tensor to(memory_->allocate(from.buffer()->size(), from.buffer()->charged()), from.size());
    if (from.size() > 0) std::memcpy(to.data(), from.data(), from.size() * sizeof(float));
    return to;
  }

  std::uint32_t from_;
  GateActor to_;
  std::shared_ptr<Arena> memory_ = Arena::make("arrivals", {});
};

}  // namespace

Company spawn_together(const JobRef& job, const std::shared_ptr<Outbox>& outbox,
                       std::shared_ptr<const LoadedCheckpoint> start) {
  return {{spawn_node(job, outbox, {}, std::move(start))}, {}, {outbox}, {}};
}

Company spawn_apart(const JobRef& job, const std::shared_ptr<Outbox>& outbox,
                    std::shared_ptr<const LoadedCheckpoint> start) {
  Company all;
  const auto count = static_cast<std::uint32_t>(job->topology.nodes.size());
  for (std::uint32_t n = 0; n < count; ++n) {
    all.outboxes.push_back(n == 0 ? outbox : std::make_shared<Outbox>());
    all.news.push_back(std::make_shared<GateNews>([&world = job->world] { world.news(); }));
    all.gates.push_back(spawn_gate(job->world.system(), {&job->topology, n, {}, all.news.back(), {}}));
  }
  for (std::uint32_t n = 0; n < count; ++n) {
    GateWiring wiring;
    for (std::uint32_t other = 0; other < count; ++other)
      if (other != n) wiring.peers[other] = {all.gates[other], std::make_shared<CopyingRoute>(n, all.gates[other])};
    tell_from_outside(all.gates[n], std::move(wiring));
  }
  for (std::uint32_t n = 0; n < count; ++n)
    all.nodes.push_back(
        spawn_node(job, all.outboxes[n], NodePart{n, all.gates[n]}, n == 0 ? std::exchange(start, nullptr) : nullptr));
  return all;
}

bool end_all(World& world, const Company& company, std::size_t left, Duration patience) {
  for (const NodeHandles& node : company.nodes) caf::anon_send_exit(node.node, caf::exit_reason::kill);
  for (const GateActor& gate : company.gates) caf::anon_send_exit(gate, caf::exit_reason::kill);
  const Instant deadline = world.now() + patience;
  std::vector<std::size_t> told(company.nodes.size());  // a node may still have replaced somebody before it went
  const auto gone = [&] {
    for (std::size_t n = 0; n < company.nodes.size(); ++n) {
      const std::vector<Watched> cast = company.nodes[n].cast->all();
      for (; told[n] < cast.size(); ++told[n]) caf::anon_send_exit(cast[told[n]].actor, caf::exit_reason::kill);
    }
    return world.system().registry().running() <= left;
  };
  world.drive([&] { return gone() || (!world.is_virtual() && world.now() > deadline); });
  return gone();
}

}  // namespace stagecraft
