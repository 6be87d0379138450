// What the parts of the straggler detector are told with each block, and where they say what they found. Values only.
#pragma once

#include "planning/detector/event.hpp"
#include "planning/detector/settings.hpp"
#include "planning/ids.hpp"

namespace stagecraft {

struct Look {
  Iteration first, last;  ///< of the block; it is known by its first
  bool held;              ///< a plan has just changed: nothing is counted as far above its level
  const DetectorSettings& settings;
  StragglerFindings& events;
};

}  // namespace stagecraft
