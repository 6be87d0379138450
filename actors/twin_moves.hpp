// What a twin knows of layers on their way: those of its own that another twin follows, and those that it follows for
// its stage. Values; one owner, the twin.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "actors/doors.hpp"
#include "actors/held_state.hpp"
#include "model/stage_model.hpp"
#include "planning/follower.hpp"

namespace stagecraft {

/// Layers of this twin's stage, on their way to another one, whose twin follows.
struct LeadLane {
  LeadMove order;
  bool given = false;  ///< the state; the gradients go as they come
};

/// Layers of another stage, on their way to the stage of this twin.
struct FollowedLane {
  MoveId move;
  MoveLane lane;
  std::shared_ptr<StageModel> model;  ///< only these layers
  Follower follower;
  std::map<Iteration, std::map<GroupId, Tensor>> gradients;
  std::optional<MovingState> given;      ///< lent by the other twin, to be copied
  std::optional<AskVote> asked;          ///< the vote that is still to be given
  std::optional<LayersGiven> for_stage;  ///< a copy, until the gradient of its iteration is here
  bool told = false;                     ///< that it follows
  Key heard;                             ///< the newest of all that came for it

  /// It belongs to another move than the one under way. What came ahead of the opening that tells of its move does not.
  bool is_over(MoveId under_way, Key opened) const { return move != under_way && heard < opened; }

  /// The share of a model that holds just these layers.
  static StageShare share(StageShare of_stage, LayerRun layers) {
    of_stage.chunks = {{ChunkId{}, {layers.begin + 1, layers.end + 1}}};  // unit 0 is the embedding
    return of_stage;
  }
};

/// What a twin does with the layers that it follows when the opening says that they are its stage's.
struct FollowedState {
  HeldGroups state;
  std::map<GroupId, Tensor> gradients;
};

class FollowedLanes {
 public:
  /// None: nobody follows there any more.
  FollowedLane* find(MoveId move, const MoveLane& lane) {
    for (FollowedLane& f : all_)
      if (f.move == move && f.lane == lane) return &f;
    return nullptr;
  }
  /// The one of that lane; a new one where it is not known yet. `make` builds its model.
  template <class Make>
  FollowedLane& at(MoveId move, const MoveLane& lane, Key heard, Make make) {
    FollowedLane* known = find(move, lane);
    if (!known) {
      all_.push_back({move, lane, make(), {}, {}, {}, {}, {}, false, {}});
      known = &all_.back();
    }
    known->heard = std::max(known->heard, heard);
    return *known;
  }
  /// Forgets the lanes that are over. Their lent states must have been given back.
  void forget(MoveId under_way, Key opened) {
    std::erase_if(all_, [&](const FollowedLane& f) { return f.is_over(under_way, opened); });
  }
  std::vector<FollowedLane>& all() { return all_; }
  /// The layers of the newest move, with the gradients of `iteration`; nothing stays.
  FollowedState take(Iteration iteration) {
    FollowedState taken;
    MoveId newest;
    for (const FollowedLane& f : all_) newest = std::max(newest, f.move);
    for (FollowedLane& f : std::exchange(all_, {})) {
      if (f.move != newest || !f.follower.can_take_over_after(iteration)) continue;
      HeldGroups held = f.model->held();
      taken.state.parameters.merge(held.parameters);
      taken.state.first_moments.merge(held.first_moments);
      taken.state.second_moments.merge(held.second_moments);
      taken.gradients.merge(f.gradients.at(iteration));
    }
    return taken;
  }

 private:
  std::vector<FollowedLane> all_;
};

}  // namespace stagecraft
