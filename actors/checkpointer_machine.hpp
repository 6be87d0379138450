// The decisions of the checkpointer as a pure value: which checkpoint has all its parts, which is written now, whose
// state is no longer needed. One is written at a time, the oldest first. One owner; not thread-safe.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "actors/messages.hpp"

namespace stagecraft {

namespace checkpointer_event {
struct Begun {
  BeginCheckpoint begin;
};
struct Lent {
  Key key;
  Place place;
};
/// The write in progress is over.
struct Written {
  std::string error;  ///< empty: the checkpoint stands
};
}  // namespace checkpointer_event
using CheckpointerEvent =
    std::variant<checkpointer_event::Begun, checkpointer_event::Lent, checkpointer_event::Written>;

namespace checkpointer_effect {
/// Start writing: every stage has lent its state.
struct Write {
  BeginCheckpoint begin;
};
/// Every stage gets its state back, and the coordinator hears how it went.
struct Finish {
  BeginCheckpoint begin;
  std::string error;
};
/// The iteration of this key was aborted before every stage had lent its state: those that have get it back.
struct Drop {
  Key key;
};
}  // namespace checkpointer_effect
using CheckpointerEffect =
    std::variant<checkpointer_effect::Write, checkpointer_effect::Finish, checkpointer_effect::Drop>;

class CheckpointerMachine {
 public:
  /// `places`: how many stages lend their state to each checkpoint.
  explicit CheckpointerMachine(std::size_t places) : places_(places) {}

  std::vector<CheckpointerEffect> step(const CheckpointerEvent& event);

 private:
  struct Gathering {
    std::optional<BeginCheckpoint> begin;
    std::set<Place> lent;
  };

  void drop_aborted(std::vector<CheckpointerEffect>& effects);
  void start_next(std::vector<CheckpointerEffect>& effects);

  std::size_t places_;
  std::map<Key, Gathering>
      waiting_;  // by the key of the Open that asked for it: the coordinator has at most two under way
  std::optional<BeginCheckpoint> writing_;
  Epoch newest_;  // of what was begun
};

}  // namespace stagecraft
