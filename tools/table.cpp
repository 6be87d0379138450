#include "tools/table.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace stagecraft::tools {

std::string Table::text() const {
  std::vector<std::size_t> widths(rows_.front().size());
  for (const auto& row : rows_)
    for (std::size_t c = 0; c < row.size(); ++c) widths[c] = std::max(widths[c], row[c].size());
  std::string out;
  for (std::size_t r = 0; r < rows_.size(); ++r) {
    std::string line = "  ";
    for (std::size_t c = 0; c < rows_[r].size(); ++c)
      line += c == 0 ? fmt::format("{:<{}}", rows_[r][c], widths[c]) : fmt::format("  {:>{}}", rows_[r][c], widths[c]);
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + "\n";
    if (r == 0) out += "  " + std::string(line.size() - 2, '-') + "\n";
  }
  return out;
}

}  // namespace stagecraft::tools
