// One iteration drawn as text: who ran what and when, and where the bubbles are. Values only; any thread.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "planning/ids.hpp"
#include "planning/operator.hpp"
#include "planning/units.hpp"

namespace stagecraft {

/// An operator and when it ran. With `overhead` it stands for reduce, norm and step, and `op` means nothing.
struct TimedOperator {
  Place place;
  Operator op;
  Instant start, end;
  bool overhead = false;
};

/// Rows of at most about `width` columns, one per stage and replica in this order, then a scale in ms, the idle share
/// over all rows, and a legend of what appears. Time runs from the first start to the last end of all rows. A cell
/// shows its letter and micro-batch (with the chunk before them when a stage has several); when that fits too few
/// cells, the last digit of the micro-batch, then the letter alone, with lower case for a stage's later chunks. Blank
/// is idle. Never narrower than 20 columns of time.
///
///     stage 0 |F0-F1-      X0----   X1----| idle 33.3 %
std::string draw_timeline(std::vector<TimedOperator> operators, std::size_t width);

}  // namespace stagecraft
