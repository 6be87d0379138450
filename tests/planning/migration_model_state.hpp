// What the model checker of moves looks at: the messages on their way, and what each stage and twin holds. Values.
#pragma once

#include <algorithm>
#include <array>
#include <set>
#include <vector>

#include "planning/follower.hpp"
#include "planning/migration_machine.hpp"

namespace stagecraft::migration_model {

inline constexpr std::uint32_t places = 3, layers = 2, last_iteration = 3;
inline constexpr int nothing = -1;

// Node n runs stage n and the twin of stage n + 1.
constexpr std::uint32_t twin_of_node(std::uint32_t node) { return (node + 1) % places; }

enum class Deaths : std::uint8_t { none, of_actors, of_nodes };
struct Case {
  Layout from, to;
  Deaths deaths = Deaths::none;
};
Case dying(Case c, Deaths deaths) {
  c.deaths = deaths;
  return c;
}
void PrintTo(const Case& c, std::ostream* out) {
  static constexpr const char* names[] = {"nobody dies", "an actor dies", "a node dies"};
  *out << to_text(c.from) << " -> " << to_text(c.to) << ", " << names[static_cast<std::size_t>(c.deaths)];
}

// What travels. Not in order: any message may overtake any other.
struct Mail {
  enum class Kind : std::uint8_t {
    open_stage,  // and twin: epoch, iteration, layout, move
    open_twin,
    lead,
    state,  // twin -> follower
    moving_gradient,
    ask_owner,
    ask_copy,
    vote,
    given,  // follower -> stage
    lost,
  } kind{};
  std::uint32_t place = 0;  // to or from whom
  Key key;
  std::uint32_t layout = 0, move = 0, lane = 0;
  MoveVote::Kind vote{};
  std::uint32_t digest = 0;
  auto operator<=>(const Mail&) const = default;
};

struct Arrived {
  std::uint32_t lane = 0;
  Iteration of;
  bool whole = true;  // the gradient, too
  auto operator<=>(const Arrived&) const = default;
};
struct ModelStage {
  Key key;
  std::uint32_t layout = 0;
  bool running = false, ready = false;
  std::array<int, layers> held{nothing, nothing};  // the iteration after which the layer is; nothing: it is not here
  int state = 0;                                   // the same, of the stage as a whole; nothing: rebuilt
  std::vector<Arrived> arriving;
};
struct ModelTwin {
  Key key;
  std::uint32_t layout = 0;
  std::array<int, layers> held{nothing, nothing};
  int state = 0;
  std::set<Key> gradients;
  bool told = false;               // ready, under this key
  std::set<std::uint32_t> leads;   // lanes whose state is still to be given
  std::set<std::uint32_t> passes;  // lanes whose gradients are passed on
  struct Followed {
    Follower follower;
    bool told = false, asked = false, voted = false, gave = false;
    Iteration asked_for;
  };
  std::map<std::uint32_t, Followed> follows;  // by lane
  std::map<Iteration, bool> decisions;
};

struct State {
  MigrationMachine machine;
  std::uint64_t machine_text = 0;  // hashed
  Key key{{1}, {1}};
  std::uint32_t layout = 0;  // in force: 0 the old one, 1 the new one
  std::uint32_t ready = 0, twins_ready = 0;
  bool asked = false, died = false, over = false, made = false;
  std::array<ModelStage, places> stages;
  std::array<ModelTwin, places> twins;
  std::vector<Mail> mail;  // sorted
};

// A mistake to be made on purpose, to see that the checker finds it.
enum class Mistake : std::uint8_t { none, flips_without_waiting, forgets_to_give_up, gives_without_gradient };

}  // namespace stagecraft::migration_model
