// The world's clock. Every time that reaches a decision, a log or a result comes from here. Any thread.
#pragma once

#include "planning/units.hpp"

namespace stagecraft {

class Clock {
 public:
  virtual ~Clock() = default;
  /// Time since the world began; never goes back.
  virtual Instant now() const = 0;
};

}  // namespace stagecraft
