// What a stage keeps of layers that may come to it: copies with their gradients, until an opening says that they are
// its own from now on, or that they are not. A value; one owner, the stage.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "actors/messages.hpp"

namespace stagecraft {

class ArrivingLayers {
 public:
  void keep(LayersGiven given) { given_.push_back(std::move(given)); }
  /// An opening under the layout that was in force before: nothing older comes any more.
  void forget_before(Key key) {
    std::erase_if(given_, [key](const LayersGiven& g) { return g.key < key; });
  }
  struct Taken {
    HeldGroups state;
    std::map<GroupId, Tensor> gradients;
  };
  /// All that was given while this iteration ran; nothing stays.
  Taken take(Iteration of) {
    Taken taken;
    for (LayersGiven& g : std::exchange(given_, {})) {
      if (g.key.iteration != of) continue;
      taken.state.parameters.merge(g.state.parameters);
      taken.state.first_moments.merge(g.state.first_moments);
      taken.state.second_moments.merge(g.state.second_moments);
      taken.gradients.merge(g.gradients);
    }
    return taken;
  }

 private:
  std::vector<LayersGiven> given_;
};

}  // namespace stagecraft
