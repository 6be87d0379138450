// The messages by which stages send over links that hold up their devices, and by which routes change.
#pragma once

#include "actors/messages.hpp"
#include "planning/route.hpp"

namespace stagecraft {

/// stage -> its link end, of a link with a direct route: an output is ready, and the device stands still until there is
/// a place for it.
struct AskPlace {
  Key key;
  MicroBatch micro_batch;
  Instant ready{};  ///< when the operator ended
  Instant now{};    ///< asked for this moment
};
/// link end -> stage: there is one at that moment, as far as is known now. stage -> itself: that moment has come.
struct PlaceGiven {
  Key key;
  Instant at{};
  bool has_come = false;
};
struct WatchLink {};  ///< timer -> link end: does the link let pass what was sent?
struct LetGo {};      ///< channel -> its own link end: something that it had to hold has gone on
/// monitor -> the link ends of a direction: by this route from that iteration on, or from the next one that opens.
struct NewRoute {
  Route route = Route::direct;
  Iteration from;
};

STAGECRAFT_WIRE(AskPlace, x.key, x.micro_batch, x.ready, x.now)
STAGECRAFT_WIRE(PlaceGiven, x.key, x.at, x.has_come)
STAGECRAFT_WIRE_EMPTY(WatchLink)
STAGECRAFT_WIRE_EMPTY(LetGo)
STAGECRAFT_WIRE(NewRoute, x.route, x.from)

}  // namespace stagecraft
