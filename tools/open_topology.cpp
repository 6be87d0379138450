#include "tools/open_topology.hpp"

#include <fmt/format.h>

#include "config/load_topology.hpp"
#include "transport/real_disk.hpp"

namespace stagecraft::tools {

std::optional<Topology> open_topology(const FileOptions& options) {
  RealDisk disk;
  const auto text = disk.read(options.file);
  if (!text) {
    fmt::print(stderr, "{}\n", text.error().text());
    return std::nullopt;
  }
  const LoadResult loaded = load_topology(options.file, text.value(), options.set);
  for (const Diagnostic& d : loaded.diagnostics) fmt::print(stderr, "{}\n", to_text(d));
  return loaded.topology;
}

}  // namespace stagecraft::tools
