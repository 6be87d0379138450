#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "actors/faults/judge.hpp"
#include "actors/faults/scenario_run.hpp"
#include "tools/commands.hpp"
#include "tools/folder_lock.hpp"
#include "tools/open_scenario.hpp"
#include "tools/output.hpp"
#include "tools/scenario_report.hpp"
#include "transport/real_disk.hpp"

namespace stagecraft::tools {

namespace {

struct Tally {
  std::uint64_t fine = 0, broken = 0;
  int code = done;
};

// Runs every seed of one file. Throws CannotStart.
void run_seeds(const std::string& file, const Scenario& scenario, const Topology& topology, bool json, Tally& tally) {
  std::optional<FolderLock> lock;
  if (scenario.world == ScenarioWorld::real) lock.emplace(real_folder_of(scenario, topology));
  if (lock && lock->is_taken())
    throw CannotStart(
        fmt::format("another run of a scenario of this name holds '{}': wait for it, or give this one "
                    "another name, or its topology another output.dir",
                    lock->path()));
  const auto disk = std::make_shared<RealDisk>();
  const RunResult reference = run_scenario(scenario, topology, scenario.first_seed, disk, FaultsOf::nobody).result;
  for (std::uint64_t seed = scenario.first_seed;; ++seed) {
    const ScenarioRecord record = run_scenario(scenario, topology, seed, disk);
    const std::vector<Broken> broken = judge(scenario, record, reference);
    const std::string replay = fmt::format("stagecraft scenario run {} --seeds {}", file, seed);
    say("{}",
        json ? verdict_json(file, scenario, record, broken, replay) : verdict_text(scenario, record, broken, replay));
    std::fflush(stdout);
    ++(broken.empty() ? tally.fine : tally.broken);
    tally.code = std::max(tally.code, code_of(record, broken));
    if (seed == scenario.last_seed) return;
  }
}

}  // namespace

int scenario_run_command(const ScenarioOptions& options) {
  // Everything is checked before anything is started.
  std::vector<OpenedScenario> all;
  bool fine = true;
  for (const std::string& file : options.files) {
    OpenedScenario opened = open_scenario(file);
    for (const Diagnostic& d : opened.diagnostics) complain("{}\n", to_text(d));
    if (!opened.problem.empty()) complain("{}\n", opened.problem);
    fine = fine && opened.scenario;
    if (opened.scenario && options.seeds) {
      opened.scenario->first_seed = options.seeds->first;
      opened.scenario->last_seed = options.seeds->second;
    }
    all.push_back(std::move(opened));
  }
  if (!fine) return bad_input;
  Tally tally;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const Scenario& scenario = *all[i].scenario;
    if (!options.json)
      say("{}: {} ({} world)\n{}", options.files[i], scenario.name, name_of(scenario.world),
          scenario.shows.empty() ? "" : "  " + scenario.shows + "\n");
    try {
      run_seeds(options.files[i], scenario, *all[i].topology, options.json, tally);
    } catch (const CannotStart& problem) {
      complain("{}: {}\n", options.files[i], problem.what());
      return bad_input;
    }
  }
  if (!options.json && tally.fine + tally.broken > 1) say("{} runs as expected, {} not\n", tally.fine, tally.broken);
  return tally.code;
}

}  // namespace stagecraft::tools
