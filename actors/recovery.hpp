// What can still be had after losses: who is gone, whose twin has a state to give, whether the job has to go back to a
// checkpoint, and how often this iteration has been begun. A pure value of the coordinator's; one owner.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "actors/messages.hpp"

namespace stagecraft {

class Recovery {
 public:
  /// `twins`: every place has one. `attempts`: how often an iteration may be begun again.
  Recovery(const std::vector<Place>& places, bool twins, std::uint32_t attempts);

  void lost(const Member& who, const std::string& why);
  void replaced(const Member& who);
  /// The stage has its state: it was ready under the present key.
  void has_state(Place stage) { stateless_.erase(stage); }
  /// The twin has its state and follows.
  void twin_follows(Place twin) { followers_.insert(twin); }
  /// As another one knew it: what is left of whom. `all`: nobody is sure of any state.
  void inherit(const std::vector<Place>& followers, const std::vector<Place>& stateless, bool all);
  std::vector<Place> followers() const { return {followers_.begin(), followers_.end()}; }
  std::vector<Place> stateless() const { return {stateless_.begin(), stateless_.end()}; }
  /// Everyone begins from a checkpoint, or from the first parameters.
  void restored();
  void committed();
  /// The iteration is begun again. False when that has happened too often.
  bool begin_again() { return again_++ < attempts_; }

  bool may_begin_again() const { return again_ < attempts_; }

  bool complete() const { return missing_.empty(); }
  bool misses(const Member& who) const { return missing_.contains(who); }
  /// A stage's state is held by nobody any more.
  bool needs_checkpoint() const { return needs_checkpoint_; }
  std::uint32_t attempts() const { return attempts_; }
  /// The losses since the last commit, in words.
  std::string history() const;

 private:
  std::vector<Place> places_;
  bool twins_ = false;
  std::uint32_t attempts_ = 0, again_ = 0;
  std::set<Member> missing_;
  std::set<Place> stateless_;  // stages that were rebuilt and have not been ready since
  std::set<Place> followers_;  // twins with a state
  bool needs_checkpoint_ = false;
  std::vector<std::string> losses_;
};

}  // namespace stagecraft
