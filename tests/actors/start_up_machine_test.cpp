// The start-up of several processes, message by message, in whatever order they come.
#include "actors/cluster/start_up_machine.hpp"

#include <gtest/gtest.h>

#include <deque>

#include "fixture.hpp"

namespace stagecraft::test {
namespace {

Topology of_nodes(std::uint32_t count) {
  std::string nodes;
  for (std::uint32_t n = 0; n < count; ++n)
    nodes += fmt::format("{}{{ name: n{}, devices: [{{ kind: cpu, count: 1, memory: 1GiB }}] }}", n > 0 ? ", " : "", n);
  return load(tiny_file(), {fmt::format("nodes=[{}]", nodes)});
}

Hello hello_of(std::uint32_t n) {
  return {fmt::format("n{}", n), fmt::format("10.0.0.{}:7000", n), "build", "text", 0};
}

// All nodes, and what is on its way between them.
class Nodes {
 public:
  Nodes(std::uint32_t count, std::uint64_t seed) : topology_(of_nodes(count)), entropy_(seed, "start-up") {
    machines_.emplace_back(Roster(topology_, hello_of(0)), count, "secret");
    for (std::uint32_t n = 1; n < count; ++n) machines_.emplace_back(n, count);
    for (std::uint32_t n = 1; n < count; ++n) send(0, start_up::HelloCame{hello_of(n)});
    while (!mail_.empty()) deliver();
  }
  bool ready() const { return ready_ == 1; }
  // Ends of lanes that know where the other end is.
  std::size_t connected() const { return connected_.size(); }
  std::string waits_for() const { return machines_[0].waits_for(); }

 private:
  void send(std::uint32_t to, start_up::Event event) { mail_.emplace_back(to, std::move(event)); }
  void deliver() {
    const std::size_t next = entropy_.below(mail_.size());
    const auto [to, event] = mail_[next];
    mail_.erase(mail_.begin() + static_cast<std::ptrdiff_t>(next));
    for (const start_up::Effect& effect : machines_[to].step(event))
      std::visit([&, at = to](const auto& e) { apply(at, e); }, effect);
  }
  void apply(std::uint32_t, const start_up::Admit&) {}
  void apply(std::uint32_t, const start_up::Refuse& e) { ADD_FAILURE() << e.why; }
  void apply(std::uint32_t, const start_up::SendSheet& e) {
    for (std::uint32_t n = 1; n < machines_.size(); ++n) send(n, start_up::SheetCame{e.sheet});
  }
  void apply(std::uint32_t at, const start_up::Reach& e) {
    EXPECT_EQ(e.address, hello_of(e.node).address);
    send(at, start_up::Reached{e.node});
  }
  void apply(std::uint32_t at, const start_up::MakeLanes& e) {
    EXPECT_EQ(e.secret, "secret");
    EXPECT_TRUE(made_.insert({at, e.node}).second) << at << " makes its lanes to " << e.node << " twice";
    send(at, start_up::LanesMade{e.node, {{fmt::format("{}-{}", at, e.node)}}});
  }
  void apply(std::uint32_t at, const start_up::Greet& e) { send(e.node, start_up::Greeted{at, e.lanes}); }
  void apply(std::uint32_t at, const start_up::ConnectLanes& e) {
    EXPECT_TRUE(made_.contains({at, e.node}));
    EXPECT_EQ(e.to.lanes, std::vector{fmt::format("{}-{}", e.node, at)});
    connected_.insert({at, e.node});
    if (!connected_.contains({e.node, at})) return;
    send(at, start_up::LanesUp{e.node});
    send(e.node, start_up::LanesUp{at});
  }
  void apply(std::uint32_t at, const start_up::SayMeshed&) { send(0, start_up::Meshed{at}); }
  void apply(std::uint32_t at, const start_up::Ready&) {
    EXPECT_EQ(at, 0U);
    ++ready_;
  }

  Topology topology_;
  Entropy entropy_;
  std::vector<StartUpMachine> machines_;
  std::deque<std::pair<std::uint32_t, start_up::Event>> mail_;
  std::set<std::pair<std::uint32_t, std::uint32_t>> made_, connected_;
  int ready_ = 0;
};

TEST(StartUp, every_node_reaches_every_other_one_in_whatever_order_messages_come) {
  for (const std::uint32_t count : {2U, 3U, 5U})
    for (std::uint64_t seed = 1; seed <= 200; ++seed) {
      const Nodes nodes(count, seed);
      ASSERT_TRUE(nodes.ready()) << count << " nodes, seed " << seed << ": " << nodes.waits_for();
      ASSERT_EQ(nodes.connected(), count * (count - 1));
    }
}

std::string why_not(const Hello& hello, bool twice = false) {
  const Topology topology = of_nodes(3);
  Roster roster(topology, hello_of(0));
  if (twice) {
    EXPECT_TRUE(std::holds_alternative<std::uint32_t>(roster.admit(hello)));
  }
  const auto admitted = roster.admit(hello);
  return std::holds_alternative<std::string>(admitted) ? std::get<std::string>(admitted) : "";
}

TEST(Roster, lets_in_each_node_of_the_file_once) {
  EXPECT_EQ(why_not(hello_of(1)), "");
  EXPECT_NE(why_not(hello_of(1), true).find("node 'n1' is there already, at 10.0.0.1:7000"), std::string::npos);
  EXPECT_NE(why_not(hello_of(9)).find("no node 'n9', only n0, n1, n2"), std::string::npos);
  EXPECT_NE(why_not(hello_of(0)).find("node 'n0' is there already"), std::string::npos);
}

TEST(Roster, lets_in_the_same_program_with_the_same_file_at_the_same_time_only) {
  Hello other = hello_of(1);
  other.build = "another";
  EXPECT_NE(why_not(other).find("runs build another and node 'n0' build build"), std::string::npos);
  other = hello_of(1);
  other.topology = "texts";
  EXPECT_NE(why_not(other).find("line 1 of the resolved file is 'text' here and 'texts' there"), std::string::npos);
  other = hello_of(1);
  other.clock_s = -7200;
  EXPECT_NE(why_not(other).find("7200 s behind that of node 'n0'"), std::string::npos);
}

TEST(Roster, names_who_is_missing) {
  Roster roster(of_nodes(3), hello_of(0));
  EXPECT_NE(roster.missing().find("node 'n1' (127.0.0.1:0) has not come, node 'n2'"), std::string::npos);
  roster.admit(hello_of(1));
  roster.admit(hello_of(2));
  roster.reaches_all(0);
  roster.reaches_all(1);
  EXPECT_EQ(roster.missing(), "node 'n2' (10.0.0.2:7000) does not reach all others");
  EXPECT_FALSE(roster.ready());
  roster.reaches_all(2);
  EXPECT_TRUE(roster.ready());
}

}  // namespace
}  // namespace stagecraft::test
