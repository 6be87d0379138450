// The decisions about moving layers, as a pure value: who has to follow, who has to vote, whether the move is made with
// the next opening, or given up. Event in, effects out; both are printable. One owner (the coordinator); not
// thread-safe.
//
//   idle -> following -> voting -> closing -> idle
//             \_____________\____________________ given up: the layout in force stays
//
// following: a copy of the layers, at the twin of the stage that is to have them, catches up by replay.
// voting: from an opening on, owner and copy tell a digest of the layers as the iteration began with them, and the
//   stage that is to have them says that it holds the copy and the gradient of the iteration. The iteration is not
//   decided before they have, or their time is up.
// closing: the opening that carried the new layout is out; the next decision ends the move.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "planning/ids.hpp"
#include "planning/layout_move.hpp"

namespace stagecraft {

using MoveId = Id<struct MoveTag>;  ///< of one job, counted from 1; 0: none

/// A run of layers of one replica on its way.
struct MoveLane {
  StageId from, to;
  LayerRun layers;
  ReplicaId replica;
  Place source() const { return {from, replica}; }
  Place destination() const { return {to, replica}; }
  auto operator<=>(const MoveLane&) const = default;
};
std::string to_text(const MoveLane& lane);

/// A move as it is asked for. `transfers` must not be empty.
struct MoveOrder {
  MoveId id;
  std::vector<Transfer> transfers;
  std::uint32_t replicas = 1;
  auto operator<=>(const MoveOrder&) const = default;
};

/// What takes part says.
struct MoveVote {
  enum class Kind : std::uint8_t {
    follows,  ///< the copy has caught up
    owner,    ///< the digest of the layers at their present stage
    copy,     ///< the digest of the copy
    holds,    ///< the stage that is to have them holds the copy, and the gradient of this iteration
  } kind = Kind::follows;
  MoveId move;
  Key key;
  MoveLane lane;
  std::uint64_t digest = 0;
  auto operator<=>(const MoveVote&) const = default;
};

namespace move_event {
struct Begin {
  MoveOrder order;
  Key key;  ///< in force
};
/// An iteration has been opened under the layout that was in force before.
struct Opened {
  Key key;
};
/// Everything of the present iteration is held; it can be decided.
struct Boundary {};
/// A loss, an iteration that is begun again, the end of the job.
struct Disturbed {
  std::string why;
};
struct TimeUp {};
}  // namespace move_event
using MoveEvent = std::variant<move_event::Begin, MoveVote, move_event::Opened, move_event::Boundary,
                               move_event::Disturbed, move_event::TimeUp>;

namespace move_effect {
/// To the twin of the stage that has the layers: give them to the other's twin, and all their gradients from now on.
struct Lead {
  MoveId move;
  Key key;
  MoveLane lane;
};
/// To both ends of a lane: what is the digest of these layers?
struct AskVote {
  MoveId move;
  Key key;
  MoveLane lane;
};
/// The iteration must not be decided yet.
struct Wait {};
/// The move is decided with the iteration: record it, raise the epoch, open the next one under the new layout.
struct Flip {
  MoveId move;
};
struct GiveUp {
  MoveId move;
  std::string why;
};
/// The first iteration under the new layout is decided: the move is over.
struct Close {
  MoveId move;
};
}  // namespace move_effect
using MoveEffect = std::variant<move_effect::Lead, move_effect::AskVote, move_effect::Wait, move_effect::Flip,
                                move_effect::GiveUp, move_effect::Close>;
std::string to_text(const MoveEffect& effect);

class MigrationMachine {
 public:
  enum class Phase : std::uint8_t { idle, following, voting, closing };

  std::vector<MoveEffect> step(const MoveEvent& event);

  Phase phase() const { return phase_; }
  /// The move under way; 0: none, or it has been decided already.
  MoveId under_way() const { return phase_ == Phase::following || phase_ == Phase::voting ? order_.id : MoveId{}; }
  /// The move that is not over; 0: none.
  MoveId not_over() const { return phase_ == Phase::idle ? MoveId{} : order_.id; }
  /// Whom it waits for, in words.
  std::string missing() const;
  /// All that it knows, in words: two of the same text decide the same from then on.
  std::string text() const;

  auto operator<=>(const MigrationMachine&) const = default;

 private:
  using Effects = std::vector<MoveEffect>;
  /// What one lane has said so far.
  struct Progress {
    bool follows = false, holds = false;
    std::optional<std::uint64_t> owner, copy;
    bool complete() const { return follows && holds && owner && copy; }
    auto operator<=>(const Progress&) const = default;
  };

  void on(const move_event::Begin& e, Effects& effects);
  void on(const MoveVote& e, Effects& effects);
  void on(const move_event::Opened& e, Effects& effects);
  void on(const move_event::Boundary& e, Effects& effects);
  void on(const move_event::Disturbed& e, Effects& effects);
  void on(const move_event::TimeUp& e, Effects& effects);
  void give_up(std::string why, Effects& effects);
  template <class Effect>
  void for_each_lane(Effects& effects) const;

  Phase phase_ = Phase::idle;
  MoveOrder order_;
  Key key_;  // of the iteration in which it follows or votes
  std::map<MoveLane, Progress> lanes_;
};

}  // namespace stagecraft
