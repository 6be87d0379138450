// Topologies for benchmarks: from text and overrides, or a complaint. Thread promise: pure.
#pragma once

#include <fmt/ranges.h>

#include <stdexcept>
#include <string>
#include <vector>

#include "config/load_topology.hpp"

namespace stagecraft::bench {

/// Throws std::invalid_argument with everything that is wrong with the text or the overrides.
inline Topology load_job(const std::string& name, const std::string& text, const std::vector<std::string>& overrides) {
  LoadResult loaded = load_topology(name, text, overrides);
  if (loaded.topology) return *loaded.topology;
  std::vector<std::string> problems;
  for (const Diagnostic& d : loaded.diagnostics) problems.push_back(to_text(d));
  throw std::invalid_argument(fmt::format("{}", fmt::join(problems, "\n")));
}

}  // namespace stagecraft::bench
