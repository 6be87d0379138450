#include "tools/open_topology.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "model/kernels/kernels_onednn.hpp"
#include "planning/bug.hpp"
#include "tools/output.hpp"
#include "transport/real_disk.hpp"

namespace stagecraft::tools {

namespace {

// The file is legal, but this build can't run it. The warning about the library's bits knows the place.
void refuse_missing_kernels(LoadResult& loaded) {
  if (!loaded.topology || loaded.topology->training.kernels != KernelKind::onednn || onednn_available()) return;
  const auto warning = std::find_if(loaded.diagnostics.begin(), loaded.diagnostics.end(),
                                    [](const Diagnostic& d) { return d.code == ErrorCode::relaxed_consistency; });
  STAGECRAFT_ASSERT(warning != loaded.diagnostics.end(), "kernels of a library without the warning about them");
  warning->code = ErrorCode::kernels_missing;
  warning->severity = Severity::error;
  warning->message = "training.kernels: " + onednn_missing();
  loaded.topology.reset();
}

}  // namespace

LoadResult validate_topology(const std::string& file_name, const std::string& text,
                             const std::vector<std::string>& set) {
  LoadResult loaded = load_topology(file_name, text, set);
  refuse_missing_kernels(loaded);
  return loaded;
}

std::optional<LoadResult> read_topology(const FileOptions& options) {
  RealDisk disk;
  const auto text = disk.read(options.file);
  if (text) return validate_topology(options.file, text.value(), options.set);
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
