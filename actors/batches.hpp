// Where the micro-batches of a job come from: its text, or on emulated devices their numbers.
#pragma once

#include "actors/job.hpp"

namespace stagecraft {

struct Batches {
  BatchSource source;
  std::string sha256;  ///< of the text; empty where there is none
};

/// Reads the whole text: on the thread that owns the world. Throws CannotStart: it is missing, unreadable or too small.
Batches open_batches(World& world, const Topology& topology);

}  // namespace stagecraft
