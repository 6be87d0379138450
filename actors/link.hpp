// One end of a link: the actor that joins two neighbouring chunks of one replica.
//
// What it does: holds tensors of its stage until the far side has a receive slot, puts them on its channel, hands
// arriving ones to its stage, passes credits on. Who knocks: its stage (tensors out, credits), its channel (parcels
// in), the other end (credits). What it owns: the outgoing channel and the credits of one direction. What it never
// does: arithmetic, waiting, asking anybody anything.
// The lower end sits at chunk `boundary` and sends forward; the upper end at `boundary` + 1 sends backward.
#pragma once

#include "actors/doors.hpp"
#include "actors/job.hpp"

namespace stagecraft {

enum class LinkSide : std::uint8_t { lower, upper };

LinkActor spawn_link(JobRef job, RecorderActor recorder, std::uint32_t boundary, ReplicaId replica, LinkSide side);

}  // namespace stagecraft
