#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>

#include "planning/reproduce/pipemorph.hpp"
#include "tools/commands.hpp"
#include "tools/output.hpp"
#include "tools/reproduce_report.hpp"

namespace stagecraft::tools {

namespace {

bool is_known(int figure) {
  const auto& all = reproduce::pipemorph_figures();
  return std::find(all.begin(), all.end(), figure) != all.end();
}

// The figures that are asked for, in the paper's order.
std::vector<int> chosen(const ReproduceOptions& options) {
  std::vector<int> figures = reproduce::pipemorph_figures();
  const auto is_unwanted = [&](int figure) {
    return !options.figures.empty() &&
           std::find(options.figures.begin(), options.figures.end(), figure) == options.figures.end();
  };
  figures.erase(std::remove_if(figures.begin(), figures.end(), is_unwanted), figures.end());
  return figures;
}

}  // namespace

int reproduce_command(const ReproduceOptions& options) {
  if (options.paper != "pipemorph") {
    complain("reproduce: no paper is known as '{}'; the one that is there: pipemorph\n", options.paper);
    return bad_input;
  }
  for (const int figure : options.figures) {
    if (is_known(figure)) continue;
    const char* reason = figure == 9 ? "it shows contention on a GPU, which is not emulated" : "it is not emulated";
    complain("--figure {}: {}; there are {}\n", figure, reason, fmt::join(reproduce::pipemorph_figures(), ", "));
    return bad_input;
  }
  const bool shows_progress = isatty(STDERR_FILENO) != 0;
  if (!options.json) say("{}", reproduce_heading());
  for (const int figure : chosen(options)) {
    if (shows_progress) complain("figure {} ...\r", figure);
    const auto cells = reproduce::pipemorph_figure(figure, options.seed);
    if (!options.json) {
      say("{}", figure_text(figure, cells));
      continue;
    }
    for (const reproduce::Cell& cell : cells) say("{}\n", cell_json(cell));
  }
  if (!options.json) say("{}", reproduce_notes());
  return done;
}

}  // namespace stagecraft::tools
