// What a person and a script get to see of a paper's tables beside ours. Any thread.
#pragma once

#include <string>
#include <vector>

#include "planning/reproduce/cell.hpp"

namespace stagecraft::tools {

/// What the tables are, who is in them, and what the columns mean.
std::string reproduce_heading();
/// One figure: a block of rows per case, one row per system, and what is to be known about it.
std::string figure_text(int figure, const std::vector<reproduce::Cell>& cells);
/// What holds for all figures: how they are made, and what is left out.
std::string reproduce_notes();

/// One line of JSON, see docs/user-guide.md.
std::string cell_json(const reproduce::Cell& cell);

}  // namespace stagecraft::tools
