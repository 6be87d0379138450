// What the straggler detector looks at: the stamps of messages and the times of operators of one iteration. Values
// only; any thread.
#pragma once

#include <array>
#include <optional>
#include <vector>

#include "planning/ids.hpp"
#include "planning/units.hpp"

namespace stagecraft {

/// The small message that came before a tensor: the announcement of its operator.
struct AnnouncementStamps {
  Instant sent{};     ///< sender's clock
  Instant arrived{};  ///< receiver's clock
};

/// One tensor on its way over one direction of a link. Each stamp is read from the clock of the node that makes it;
/// clocks may be apart, drift and step.
struct MessageStamps {
  Instant handed_over{};  ///< sender's clock: the operator was done; waiting for the wire belongs to the delay
  Instant arrived{};      ///< receiver's clock: not when it was consumed, which is the receiver's own business
  /// Sender's clock: from the hand-over to the acknowledgement, less the time that the receiver kept it (its clock).
  Duration round_trip{};
  Bytes bytes;
  std::optional<AnnouncementStamps> announcement;
};

/// One run of one operator.
struct OperatorSample {
  Duration took{};
  /// What the cost model says for this micro-batch and these layers; none: all are alike.
  std::optional<Duration> expected = {};
};

struct LinkSamples {
  std::array<std::vector<MessageStamps>, 2> messages;  ///< by Direction, in order of hand-over
};
struct StageSamples {
  std::array<std::vector<OperatorSample>, 3> operators;  ///< F, B, W; a fused backward is a B
};

/// Who is who is the caller's business: a link is a boundary of one replica, a stage one device of one replica. The
/// order is the same in every iteration. What is missing is not judged.
struct IterationSamples {
  Iteration iteration;
  std::vector<LinkSamples> links;
  std::vector<StageSamples> stages;
};

}  // namespace stagecraft
