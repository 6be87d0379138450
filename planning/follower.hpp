// A copy of some layers that follows their owner by replay: it is given a state once, and then makes the same steps
// with the same gradients, whenever it has both a gradient and the decision on it. A value; one owner.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>

#include "planning/ids.hpp"

namespace stagecraft {

class Follower {
 public:
  /// The copy is that after this iteration.
  void given(Iteration after) { state_ = after; }
  /// The reduced gradient of an iteration is at hand.
  void has_gradient(Iteration of) {
    if (!state_ || of > *state_) gradients_.insert(of);
  }
  /// What became of an iteration: a step, or not.
  void decided(Iteration iteration, bool steps) { decisions_[iteration] = steps; }

  struct Replay {
    Iteration becomes;
    bool steps = false;  ///< with the gradient of that iteration; else the state is that after it as it stands
  };
  /// What can be replayed now.
  std::optional<Replay> next() const {
    if (!state_) return std::nullopt;
    const auto decision = decisions_.find(Iteration{state_->value + 1});
    if (decision == decisions_.end()) return std::nullopt;
    if (decision->second && !gradients_.contains(decision->first)) return std::nullopt;
    return Replay{decision->first, decision->second};
  }
  void replayed(Iteration iteration) {
    state_ = iteration;
    std::erase_if(decisions_, [&](const auto& d) { return d.first <= iteration; });
    std::erase_if(gradients_, [&](Iteration i) { return i <= iteration; });
  }
  /// It has the state that `present` began with.
  bool has_caught_up(Iteration present) const { return state_ && state_->value + 1 == present.value; }
  /// The copy and the gradient of `present`: whatever is decided on it, the state after it can be had from here.
  bool can_take_over_after(Iteration present) const { return has_caught_up(present) && gradients_.contains(present); }

  /// All that it knows: two of the same text do the same from then on.
  std::string text() const {
    std::string all = state_ ? "after " + std::to_string(state_->value) : "empty";
    for (const Iteration i : gradients_) all += " g" + std::to_string(i.value);
    for (const auto& [i, steps] : decisions_) all += (steps ? " s" : " k") + std::to_string(i.value);
    return all;
  }

 private:
  std::optional<Iteration> state_;
  std::set<Iteration> gradients_;
  std::map<Iteration, bool> decisions_;
};

}  // namespace stagecraft
