// What happened: the one stream that feeds the log, the trace, the hash of a run, and the monitor. Values; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "planning/ids.hpp"
#include "planning/operator.hpp"
#include "planning/timeline.hpp"
#include "planning/units.hpp"

namespace stagecraft {

enum class EventKind : std::uint8_t {
  joined,       ///< a stage is initialised
  opened,       ///< an iteration opened
  ran,          ///< an operator (or, without one, the service named in `text`) ran from `start` to `at`
  sent,         ///< a tensor got a slot and left its link end
  arrived,      ///< a tensor reached its stage
  committed,    ///< an iteration is decided; `text` has loss and clip
  stopped,      ///< a person asked for the end
  resumed,      ///< the run continues a checkpoint; `text` says which, or which was passed over and why
  saved,        ///< a checkpoint is complete, or `text` says why not
  planned,      ///< there is a new plan, or none that pays; `text` says why
  injected,     ///< a fault of the scenario begins or heals; `text` says which
  lost,         ///< a stage or a twin is gone; `text` says who and why
  moved,        ///< a stage is built anew on another device
  migrated,     ///< layers begin to move to other stages, have moved, or do not; `text` says which, why, with numbers
  begun_again,  ///< an iteration is begun again under a new epoch; `text` says why
  ended,        ///< the job is over; `text` says how
  violation,    ///< an invariant is broken: fails every test that sees one
  led,          ///< another node leads the job from now on; `text` says which and why
  straggler,    ///< a link or a stage has become slow, or is no more; `text` says which, how much and since when
  rerouted,     ///< tensors go over a link by another route; `text` says which and why
  paused,       ///< no iteration opens for a while, or again; `text` says who asked for it
  set,          ///< a threshold was changed; `text` says which, from what to what, and who asked for it
};
std::string_view name_of(EventKind kind);

struct Event {
  EventKind kind = EventKind::opened;
  Instant at{};
  Instant start{};
  std::optional<Place> place{};
  Key key{};
  std::optional<Operator> op{};
  std::optional<Direction> direction{};
  std::string text{};
};

/// Appends one line of JSON with fixed keys: t_us, event, epoch, iteration, stage, replica, op, micro_batch, start_us,
/// text.
void append_json_line(std::string& out, const Event& event);
/// Depends on everything in the event.
std::uint64_t hash_of(const Event& event);

/// One operator's duration, for the monitor.
struct Timing {
  Place place;
  Key key;
  std::optional<OperatorKind> kind;  ///< none: reduce, tie, step, gather
  Duration time{};
};

/// What a stage spent its time on, over the whole run.
struct StageProfile {
  Place place;
  struct Row {
    std::uint64_t count = 0;
    Duration total{};
    Duration median{};
  };
  Row forward, backward_input, backward_weight, backward, service;
  Duration busy() const {
    return forward.total + backward_input.total + backward_weight.total + backward.total + service.total;
  }
};

}  // namespace stagecraft
