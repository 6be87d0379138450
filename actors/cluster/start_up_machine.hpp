// The start-up of several processes as a pure value: who knocks at whom, until every node reaches every other one.
// Event in, effects out. One owner; not thread-safe. Deadlines are those of whoever waits for it.
//
//   the first node:  waits for the hello of each other one -> sends all of them the roster -> waits until all are
//   meshed any other:       says hello -> gets the roster -> greets those before it, is greeted by those behind it; a
//   greeting
//                    and its answer carry the addresses of the lanes -> says that it is meshed once all its lanes are
//                    up
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "actors/cluster/roster.hpp"

namespace stagecraft {

/// The first node -> every other one.
struct RosterSheet {
  std::map<std::uint32_t, std::string> addresses;  ///< of all nodes
  std::string secret;                              ///< of this job's lanes
};
STAGECRAFT_WIRE(RosterSheet, x.addresses, x.secret)
/// Both ways between two nodes: where the lanes of whoever sends it are.
struct LaneAddresses {
  std::vector<std::string> lanes;
};
STAGECRAFT_WIRE(LaneAddresses, x.lanes)

namespace start_up {
// Events.
struct HelloCame {
  Hello hello;
};
struct SheetCame {
  RosterSheet sheet;
};
struct Reached {  ///< a connection to that node's gate stands
  std::uint32_t node = 0;
};
struct Greeted {  ///< by a node behind this one, or in answer
  std::uint32_t node = 0;
  LaneAddresses lanes;
};
struct LanesMade {
  std::uint32_t node = 0;
  LaneAddresses own;
};
struct LanesUp {
  std::uint32_t node = 0;
};
struct Meshed {
  std::uint32_t node = 0;
};
using Event = std::variant<HelloCame, SheetCame, Reached, Greeted, LanesMade, LanesUp, Meshed>;

// Effects.
struct Admit {  ///< whoever said hello is that node
  std::uint32_t node = 0;
};
struct Refuse {  ///< it is not let in
  std::string why;
};
struct SendSheet {  ///< to every other node
  RosterSheet sheet;
};
struct Reach {  ///< connect to the gate of that node
  std::uint32_t node = 0;
  std::string address;
};
struct MakeLanes {  ///< answer with LanesMade
  std::uint32_t node = 0;
  std::string secret;
};
struct Greet {  ///< send it the addresses of this end's lanes
  std::uint32_t node = 0;
  LaneAddresses lanes;
};
struct ConnectLanes {
  std::uint32_t node = 0;
  LaneAddresses to;
};
struct SayMeshed {};  ///< to the first node
struct Ready {};      ///< every node reaches every other one
using Effect = std::variant<Admit, Refuse, SendSheet, Reach, MakeLanes, Greet, ConnectLanes, SayMeshed, Ready>;
}  // namespace start_up

class StartUpMachine {
 public:
  /// The first node, of as many as the roster knows.
  StartUpMachine(Roster roster, std::uint32_t nodes, std::string secret)
      : nodes_(nodes), roster_(std::move(roster)), secret_(std::move(secret)) {}
  /// Any other.
  StartUpMachine(std::uint32_t index, std::uint32_t nodes) : index_(index), nodes_(nodes) {}

  std::vector<start_up::Effect> step(const start_up::Event& event);
  /// What it waits for, in words.
  std::string waits_for() const;

 private:
  using Effects = std::vector<start_up::Effect>;
  void on(const start_up::HelloCame& x, Effects& effects);
  void on(const start_up::SheetCame& x, Effects& effects);
  void on(const start_up::Reached& x, Effects& effects);
  void on(const start_up::Greeted& x, Effects& effects);
  void on(const start_up::LanesMade& x, Effects& effects);
  void on(const start_up::LanesUp& x, Effects& effects);
  void on(const start_up::Meshed& x, Effects& effects);
  void maybe_ready(Effects& effects);

  std::uint32_t index_ = 0, nodes_ = 0;
  std::optional<Roster> roster_;      // the first node's
  std::optional<RosterSheet> sheet_;  // any other's
  std::string secret_;
  std::map<std::uint32_t, LaneAddresses> early_;    // greeted before the sheet came
  std::map<std::uint32_t, LaneAddresses> answers_;  // greeted, and this end's lanes are being made
  std::set<std::uint32_t> up_;                      // nodes to which all lanes are
};

}  // namespace stagecraft
