#include "config/load_topology.hpp"

#include <utility>

#include "config/overrides.hpp"
#include "config/reader.hpp"
#include "config/topology_draft.hpp"

namespace stagecraft {
namespace {

void read_all(Section& root, TopologyDraft& draft, Report& report) {
  // Asked for in the order of the reference, so that messages list them so.
  for (const char* key : {"job", "model", "data", "training", "pipeline", "nodes", "links", "timeouts", "recovery",
                          "security", "checkpoint", "output"}) {
    root.value(key);
  }
  read_nodes(root, draft, report);
  read_job(root, draft, report);
  read_model(root, draft, report);
  read_data(root, draft, report);
  read_training(root, draft, report);
  read_pipeline(root, draft, report);
  read_links(root, draft, report);
  read_timeouts(root, draft, report);
  read_recovery(root, draft, report);
  read_security(root, draft, report);
  read_checkpoint(root, draft, report);
  read_output(root, draft, report);
  root.finish();
}

}  // namespace

LoadResult load_topology(const std::string& file_name, const std::string& text,
                         const std::vector<std::string>& overrides) {
  Report report(file_name, overrides);
  auto tree = parse_yaml(text, report);
  if (!tree) return {std::nullopt, report.sorted()};
  apply_overrides(*tree, report);

  Section root(Value{&*tree, tree->at, ""}, report);
  if (!root.given() || !check_version(root, report)) return {std::nullopt, report.sorted()};
  TopologyDraft draft;
  draft.topology.file = file_name;
  read_all(root, draft, report);
  check_model(draft, report);
  check_training(draft, report);
  check_pipeline(draft, report);
  check_devices(draft, report);
  if (report.has_errors()) return {std::nullopt, report.sorted()};
  return {std::move(draft.topology), report.sorted()};
}

}  // namespace stagecraft
