// A model checker for moves of layers: three nodes, two layers, and every order of messages, deadlines and single
// deaths that there is.
#include <gtest/gtest.h>

#include <iostream>
#include <unordered_set>

#include "tests/planning/migration_model.hpp"

namespace stagecraft::migration_model {
namespace {

// Two states of one fingerprint are the same state.
class Fingerprint {
 public:
  void add(std::uint64_t word) {
    a_ = mix_bits(a_ ^ word);
    b_ = mix_bits(b_ + word * 0x9e3779b97f4a7c15ULL + 1);
  }
  void add(Key key) { add(std::uint64_t{key.epoch.value} << 32 | key.iteration.value); }
  void add(const std::string& text) { add(name_key(text)); }
  std::pair<std::uint64_t, std::uint64_t> value() const { return {a_, b_}; }

 private:
  std::uint64_t a_ = 1, b_ = 2;
};

Fingerprint fingerprint(const State& s) {
  Fingerprint f;
  f.add(s.machine_text);
  f.add(s.key);
  f.add(s.layout | s.ready << 2 | s.twins_ready << 6 | s.asked << 10 | s.died << 11 | s.over << 12 | s.made << 13);
  for (const ModelStage& x : s.stages) {
    f.add(x.key);
    f.add(x.layout << 4 | x.running << 5 | x.ready << 6 | static_cast<std::uint32_t>(x.state + 2) << 8);
    for (const int h : x.held) f.add(static_cast<std::uint64_t>(h + 5));
    f.add(x.arriving.size());
    for (const Arrived& a : x.arriving) f.add(a.lane << 8 | a.of.value << 1 | a.whole);
  }
  for (const ModelTwin& x : s.twins) {
    f.add(x.key);
    f.add(x.layout << 4 | x.told << 5 | static_cast<std::uint32_t>(x.state + 2) << 8);
    for (const int h : x.held) f.add(static_cast<std::uint64_t>(h + 5));
    for (const Key k : x.gradients) f.add(k);
    f.add(99);
    for (const auto l : x.leads) f.add(l);
    f.add(98);
    for (const auto l : x.passes) f.add(l);
    f.add(97);
    for (const auto& [i, d] : x.follows) {
      f.add(i << 8 | d.told | d.asked << 1 | d.voted << 2 | d.gave << 3 | d.asked_for.value << 4);
      f.add(d.follower.text());
    }
    for (const auto& [i, d] : x.decisions) f.add(i.value << 1 | d);
  }
  for (const Mail& m : s.mail) {
    f.add(m.key);
    f.add(static_cast<std::uint64_t>(m.kind) | m.place << 8 | m.layout << 12 | m.move << 14 | m.lane << 18 |
          static_cast<std::uint64_t>(m.vote) << 24 | std::uint64_t{m.digest} << 32);
  }
  return f;
}

struct Explored {
  std::uint64_t states = 0, ends = 0, in_new = 0, in_old = 0;
  std::string broken;  // the first thing that is
};

Explored explore(const Case& c, Mistake mistake = Mistake::none) {
  struct Hash {
    std::size_t operator()(const std::pair<std::uint64_t, std::uint64_t>& x) const { return x.first; }
  };
  const Model model(c, mistake);
  using Id = std::pair<std::uint64_t, std::uint64_t>;
  std::unordered_set<Id, Hash> seen;
  std::vector<std::pair<State, Id>> stack;
  const State first = model.first();
  stack.emplace_back(first, fingerprint(first).value());
  seen.insert(stack.back().second);
  Explored result;
  while (!stack.empty()) {
    const auto [s, own] = std::move(stack.back());
    stack.pop_back();
    ++result.states;
    if (result.broken = model.broken(s); !result.broken.empty()) return result;
    std::vector<State> next = model.after(s);
    bool moves_on = false;
    for (State& n : next) {
      const auto id = fingerprint(n).value();
      moves_on = moves_on || id != own;
      if (seen.insert(id).second) stack.push_back({std::move(n), id});
    }
    if (!moves_on) {
      ++result.ends;
      ++(s.made ? result.in_new : result.in_old);
      if (result.broken = model.broken_end(s); !result.broken.empty()) return result;
    }
  }
  return result;
}

class MigrationModel : public ::testing::TestWithParam<Case> {};

TEST_P(MigrationModel, every_order_and_every_single_death_ends_with_everyone_in_one_layout) {
  const Explored found = explore(GetParam());
  std::cout << found.states << " states, " << found.ends << " ends, " << found.in_new << " in the new layout, "
            << found.in_old << " in the old one\n";
  EXPECT_EQ(found.broken, "");
  EXPECT_GT(found.in_new, 0U);
  EXPECT_GT(found.in_old, 0U);
}

// {1, 1, 0} -> {0, 1, 1}, where one stage gives and gets, has 1.2 million states without any death: too many for every
// day.
const Case one_gives{{2, 0, 0}, {1, 1, 0}}, one_is_left_empty{{1, 1, 0}, {1, 0, 1}};
INSTANTIATE_TEST_SUITE_P(Moves, MigrationModel,
                         ::testing::Values(dying(one_gives, Deaths::of_actors), dying(one_gives, Deaths::of_nodes),
                                           dying(one_is_left_empty, Deaths::of_nodes)));

// If none of these were noticed, the test above would prove nothing.
TEST(MigrationModelControl, every_mistake_is_found) {
  for (const Mistake mistake :
       {Mistake::flips_without_waiting, Mistake::forgets_to_give_up, Mistake::gives_without_gradient})
    EXPECT_NE(explore(dying(one_gives, Deaths::of_actors), mistake).broken, "") << static_cast<int>(mistake);
}

}  // namespace
}  // namespace stagecraft::migration_model
