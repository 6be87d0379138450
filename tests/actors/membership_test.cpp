// Who is left and who leads, in simulated networks: nodes die, connections break, messages and losses come in any
// order.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <deque>
#include <map>

#include "actors/cluster/membership.hpp"
#include "planning/random.hpp"

namespace stagecraft::test {
namespace {

using namespace membership;  // NOLINT(google-build-using-namespace): whose names this file is about

// Nodes and the connections between them, in order; a broken one tells both ends, sooner or later.
class Network {
 public:
  Network(std::uint32_t nodes, std::uint64_t seed) : seed_(seed), count_(nodes) {
    for (std::uint32_t n = 0; n < nodes; ++n) nodes_.emplace_back(n, nodes);
    over_.resize(nodes);
    dead_.resize(nodes);
  }

  void kill(std::uint32_t node) {
    dead_[node] = true;
    for (std::uint32_t n = 0; n < count_; ++n) cut(n, node);
  }
  void cut(std::uint32_t a, std::uint32_t b) {
    if (a == b || !cut_.insert({std::min(a, b), std::max(a, b)}).second) return;
    losses_.emplace_back(a, b);
    losses_.emplace_back(b, a);
  }
  // One event, if there is any; deadlines only when nothing else is under way.
  bool step() {
    std::vector<std::function<void()>> can;
    for (auto& [way, messages] : ways_)
      if (!messages.empty())
        can.emplace_back([this, &way = way, &messages = messages] {
          const Event event = messages.front();
          messages.pop_front();
          deliver(way.second, event);
        });
    // What is under way when a connection breaks may come before the loss, or never.
    for (std::size_t i = 0; i < losses_.size(); ++i)
      can.emplace_back([this, i] {
        const auto [at, of] = losses_[i];
        losses_.erase(losses_.begin() + static_cast<std::ptrdiff_t>(i));
        ways_[{of, at}].clear();
        closed_.insert({of, at});
        deliver(at, NodeLost{of});
      });
    if (can.empty() && !waits_.empty())
      can.emplace_back([this] {
        const auto [at, wait] = waits_.front();
        waits_.pop_front();
        deliver(at, TimeUp{wait});
      });
    if (can.empty()) return false;
    can[keyed(seed_, ++steps_) % can.size()]();
    return true;
  }

  bool alive(std::uint32_t n) const { return !dead_[n] && !over_[n]; }
  std::vector<std::uint32_t> all_alive() const {
    std::vector<std::uint32_t> alive_nodes;
    for (std::uint32_t n = 0; n < count_; ++n)
      if (alive(n)) alive_nodes.push_back(n);
    return alive_nodes;
  }
  const Membership& at(std::uint32_t n) const { return nodes_[n]; }
  std::map<std::uint64_t, std::uint32_t> settled;  // number of a view: who settled it
  std::string problem;

 private:
  void deliver(std::uint32_t at, const Event& event) {
    if (!alive(at)) return;
    for (const Effect& effect : nodes_[at].step(event)) std::visit([&](const auto& e) { apply(at, e); }, effect);
  }
  void send(std::uint32_t from, std::uint32_t to, const Event& event) {
    if (!closed_.contains({from, to}) && !cut_.contains({std::min(from, to), std::max(from, to)}))
      ways_[{from, to}].push_back(event);
  }
  void apply(std::uint32_t at, const Vote& e) { send(at, e.to, Voted{at, e.view}); }
  void apply(std::uint32_t at, const Propose& e) {
    for (const std::uint32_t n : e.view.members)
      if (n != at) send(at, n, Proposed{e.view});
  }
  void apply(std::uint32_t at, const Accept& e) { send(at, e.to, Accepted{at, e.number}); }
  void apply(std::uint32_t at, const Settled&) {
    const std::uint64_t number = nodes_[at].view().number;
    if (!settled.emplace(number, at).second) problem = fmt::format("view {} is settled twice", number);
  }
  void apply(std::uint32_t, const Follow&) {}
  void apply(std::uint32_t at, const Part& e) { cut(at, e.node); }
  void apply(std::uint32_t at, const Wait& e) { waits_.emplace_back(at, e.wait); }
  void apply(std::uint32_t at, const End&) {
    over_[at] = true;
    for (std::uint32_t n = 0; n < count_; ++n) cut(n, at);
  }

  std::uint64_t seed_, steps_ = 0;
  std::uint32_t count_;
  std::vector<Membership> nodes_;
  std::vector<bool> over_, dead_;
  std::set<std::pair<std::uint32_t, std::uint32_t>> cut_, closed_;
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::deque<Event>> ways_;
  std::vector<std::pair<std::uint32_t, std::uint32_t>> losses_;
  std::deque<std::pair<std::uint32_t, std::uint64_t>> waits_;
};

// Whoever is left when nothing moves any more is in one view, whose leader is among them.
std::string disagreement(const Network& network) {
  if (!network.problem.empty()) return network.problem;
  const auto alive = network.all_alive();
  for (const std::uint32_t n : alive) {
    if (network.at(n).view() != network.at(alive.front()).view())
      return fmt::format("nodes {} and {} are in views {} and {}", alive.front(), n,
                         network.at(alive.front()).view().number, network.at(n).view().number);
    if (network.at(n).view().members != alive) return fmt::format("node {} counts others than those that live", n);
    if (!network.alive(network.at(n).view().leader)) return fmt::format("the leader of node {} is not there", n);
  }
  return {};
}

void run(Network& network, std::uint64_t steps) {
  for (std::uint64_t s = 0; s < steps && network.step(); ++s) {
  }
}

TEST(Membership, outlives_deaths_one_after_the_other_down_to_two) {
  for (std::uint64_t seed = 1; seed <= 2000; ++seed) {
    const std::uint32_t nodes = 3 + keyed(seed, 1) % 4;
    Network network(nodes, seed);
    for (std::uint32_t dead = 0; dead + 2 < nodes; ++dead) {
      const auto alive = network.all_alive();
      network.kill(alive[keyed(seed, 2, dead) % alive.size()]);
      run(network, 100'000);
      ASSERT_EQ(disagreement(network), "") << "seed " << seed;
      ASSERT_EQ(network.all_alive().size(), nodes - dead - 1) << "seed " << seed;
    }
  }
}

TEST(Membership, outlives_the_death_of_fewer_than_half_at_any_moments) {
  for (std::uint64_t seed = 1; seed <= 20'000; ++seed) {
    const std::uint32_t nodes = 3 + keyed(seed, 1) % 4, deaths = (nodes - 1) / 2;
    Network network(nodes, seed);
    for (std::uint32_t dead = 0; dead < deaths; ++dead) {
      const auto alive = network.all_alive();
      network.kill(alive[keyed(seed, 2, dead) % alive.size()]);
      run(network, keyed(seed, 3, dead) % 12);
    }
    run(network, 100'000);
    ASSERT_EQ(disagreement(network), "") << "seed " << seed;
    ASSERT_EQ(network.all_alive().size(), nodes - deaths) << "seed " << seed;
  }
}

TEST(Membership, never_goes_on_in_two_parts) {
  std::uint64_t survived = 0;
  for (std::uint64_t seed = 1; seed <= 30'000; ++seed) {
    const auto nodes = static_cast<std::uint32_t>(2 + keyed(seed, 1) % 5);
    Network network(nodes, seed);
    for (std::uint32_t i = 0; i < 1 + keyed(seed, 2) % 6; ++i) {
      const auto a = static_cast<std::uint32_t>(keyed(seed, 3, i) % nodes);
      const auto b = static_cast<std::uint32_t>(keyed(seed, 4, i) % nodes);
      if (keyed(seed, 5, i) % 4 == 0) {
        network.kill(a);
      } else {
        network.cut(a, b);
      }
      run(network, keyed(seed, 6, i) % 12);
    }
    run(network, 100'000);
    ASSERT_EQ(disagreement(network), "") << "seed " << seed;
    survived += !network.all_alive().empty();
  }
  EXPECT_GT(survived, 9000U);
}

TEST(Membership, two_that_lose_each_other_leave_the_job_to_the_leader) {
  Network network(2, 1);
  network.cut(0, 1);
  run(network, 1000);
  EXPECT_EQ(network.all_alive(), (std::vector<std::uint32_t>{0}));
}

}  // namespace
}  // namespace stagecraft::test
