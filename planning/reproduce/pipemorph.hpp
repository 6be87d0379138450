// The figures of the PipeMorph paper (NSDI 2026) as experiments in the simulator: the number of a figure in, its cells
// out. Pure functions on values; any thread.
#pragma once

#include <cstdint>
#include <vector>

#include "planning/reproduce/cell.hpp"

namespace stagecraft::reproduce {

/// In the order of their numbers: 1, 3, 6, 14 to 19, 21, 22.
const std::vector<int>& pipemorph_figures();

/// Every cell of one of these figures, case by case, under both injections and both memories where they apply.
/// `seed`: of the changing delays (Figures 18 and 22); the others have no chance in them.
std::vector<Cell> pipemorph_figure(int figure, std::uint64_t seed);

}  // namespace stagecraft::reproduce
