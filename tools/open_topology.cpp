#include "tools/open_topology.hpp"

#include <fmt/format.h>

#include "tools/output.hpp"
#include "transport/real_disk.hpp"

namespace stagecraft::tools {

std::optional<LoadResult> read_topology(const FileOptions& options) {
  RealDisk disk;
  const auto text = disk.read(options.file);
  if (text) return load_topology(options.file, text.value(), options.set);
  complain("{}\n", text.error().text());
  return std::nullopt;
}

std::optional<Topology> open_topology(const FileOptions& options) {
  const auto loaded = read_topology(options);
  if (!loaded) return std::nullopt;
  for (const Diagnostic& d : loaded->diagnostics) complain("{}\n", to_text(d));
  return loaded->topology;
}

}  // namespace stagecraft::tools
