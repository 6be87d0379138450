// One block of messages over a link, reduced to the few numbers that say something about the link alone. Pure; any
// thread.
#pragma once

#include <array>
#include <optional>
#include <vector>

#include "planning/detector/samples.hpp"

namespace stagecraft {

/// All in ns, by Direction. Tensors of other sizes are corrected to the reference size, and what they waited for their
/// own kind on a healthy wire is taken off, where announcements tell what a tensor costs: when they are handed over is
/// the schedule's doing. Lower quartiles: the minimum is ruined by one wrong stamp, the median by what is left of
/// queues.
struct LinkReading {
  Iteration at;
  std::array<double, 2> round_trip{};  ///< finds a change: one clock
  std::array<double, 2> one_way{};     ///< names its direction: holds the offset of the two clocks
  /// Tensor less announcement: what its size costs; the offset cancels. None without announcements.
  std::array<std::optional<double>, 2> size_term;
  /// From arrival to arrival of tensors that queued: what the wire needs for one. None: too few did.
  std::array<std::optional<double>, 2> service;
  /// Of every message.
  std::array<std::vector<double>, 2> round_trips, one_ways;
};

/// The size that messages are corrected to: the median of a block.
double reference_bytes(const std::vector<MessageStamps>& messages);

/// How a link was in health, by direction.
struct HealthyLink {
  std::array<double, 2> bytes{};    ///< the reference size
  std::array<double, 2> service{};  ///< of a tensor of that size, ns; 0: not known yet, the block tells
};

/// None: a direction has less than four messages.
std::optional<LinkReading> read_link(Iteration at, const LinkSamples& samples, const HealthyLink& healthy);

}  // namespace stagecraft
