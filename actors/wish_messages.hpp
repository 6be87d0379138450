// What people ask of a running job, and what they get for an answer (Life of a request). Values.
#pragma once

#include <string>
#include <vector>

#include "actors/caf.hpp"
#include "config/scenario.hpp"
#include "planning/ids.hpp"
#include "planning/layout_move.hpp"
#include "planning/units.hpp"

namespace stagecraft {

using WishId = Id<struct WishTag>;  ///< of one run, counted from 1; 0: nobody waits for an answer

/// One line of an answer that has many.
struct AnswerRow {
  std::string who{};  ///< "stage 2 of replica 0"
  std::string what{};
  std::uint64_t number = 0;  ///< of an event: which one of the run, from 1
  Duration age{};            ///< since when
  Iteration iteration{};     ///< 0: of none
};
/// migrator, coordinator, recorder -> node: what became of a wish.
struct WishAnswer {
  enum class Fate : std::uint8_t { done, refused, given_up } fate = Fate::done;
  WishId wish;
  std::string text;     ///< what was done, or why it was not, with numbers
  Iteration iteration;  ///< of layers: the first one under the new layout; of a checkpoint: the last one in it
  Layout layout;        ///< of layers: in force from now on
  std::vector<AnswerRow> rows{};
};

struct KeepCheckpoint {  ///< main -> coordinator: the state after the iteration that runs is to be kept
  WishId wish;
};
/// main -> coordinator: let the iteration that runs end, and open no other one before a Resume.
struct Pause {
  WishId wish;
  std::string who;  ///< asks for it
};
struct Resume {  ///< main -> coordinator
  WishId wish;
  std::string who;
};
struct AskWaits {  ///< main -> coordinator: what does everyone wait for?
  WishId wish;
};
struct AskPlan {  ///< main -> coordinator: by which plan does the job run?
  WishId wish;
};
/// main -> recorder: the newest events.
struct AskEvents {
  WishId wish;
  std::uint64_t after = 0;  ///< the number of one that is known already
  std::uint32_t most = 0;
  std::vector<Place> of{};  ///< only of these stages; empty: of all
  bool decisions = false;   ///< only why plan, routes and places are as they are
};

struct AskTop {  ///< main -> monitor: what did everyone spend the newest whole iteration on?
  WishId wish;
};
/// main -> monitor: a threshold of the straggler detector, from the next iteration on.
struct ChangeSetting {
  WishId wish;
  std::string name;  ///< empty: none is changed, all are told
  double value = 0;
  std::string who;  ///< asks for it
};
/// main -> injector: this fault strikes now; its id is a new one.
struct InjectFault {
  WishId wish;
  FaultSpec fault;
  std::string who;  ///< asks for it
};
/// main -> injector: it is over.
struct HealFault {
  WishId wish;
  std::string id;  ///< empty: all that are in force
  std::string who;
};

}  // namespace stagecraft

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(stagecraft::InjectFault)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(stagecraft::HealFault)
