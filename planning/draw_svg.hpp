// One iteration drawn as a picture: who ran what and when, and where the bubbles are. Values only; any thread.
#pragma once

#include <string>
#include <vector>

#include "planning/timeline.hpp"

namespace stagecraft {

struct SvgOptions {
  std::string title;      ///< above the picture; any text
  unsigned width = 1400;  ///< in px; never less than 400
};

/// A self-contained SVG image without scripts: one row per stage and replica in this order, one box per operator, its
/// idle share to the right of each row, a scale in ms and a legend below. Kinds are told apart by colours that also
/// differ in brightness (for colour-blind eyes, and in print), the chunks of one stage by shade. A box shows its
/// micro-batch where that fits, and what it is, when it started and how long it took when a pointer rests on it. Time
/// runs from the first start to the last end of all rows.
std::string draw_svg(std::vector<TimedOperator> operators, const SvgOptions& options = {});

}  // namespace stagecraft
