#include "actors/faults/swarm_run.hpp"

#include <fmt/format.h>

#include <chrono>

#include "config/load_scenario.hpp"
#include "config/load_topology.hpp"

namespace stagecraft {

namespace {

Topology load_or_throw(const std::string& file, const std::string& text, const std::vector<std::string>& set) {
  LoadResult loaded = load_topology(file, text, set);
  if (loaded.topology) return *loaded.topology;
  throw CannotStart("the topology refuses what a swarm draws: " + to_text(loaded.diagnostics.front()));
}

ScenarioRecord run_plain(const Topology& topology, const std::shared_ptr<Disk>& disk) {
  Scenario nothing;
  nothing.deadline = std::chrono::hours(1000);
  return run_scenario(nothing, topology, 1, disk, FaultsOf::nobody);
}

}  // namespace

SwarmRunner::SwarmRunner(const std::string& file, std::string text, std::shared_ptr<Disk> disk)
    : text_(std::move(text)), disk_(std::move(disk)) {
  space_.topology = file;
  space_.base = load_or_throw(file, text_, {});
  const RunResult once = run_plain(space_.base, disk_).result;
  if (once.ending != Ending::done || once.iterations.empty())
    throw CannotStart("without faults the run does not end well: " + once.reason);
  space_.iteration = once.elapsed / static_cast<std::int64_t>(once.iterations.size());
}

// The layout that was drawn, or the file's own where that one is refused. Faults whose target is not there then go.
Topology SwarmRunner::topology_of(Scenario& scenario) const {
  LoadResult loaded = load_topology(scenario.topology, text_, scenario.set);
  if (!loaded.topology) {
    std::erase_if(scenario.set, [](const std::string& s) { return s.starts_with("pipeline."); });
    scenario.set_at.resize(scenario.set.size());
    loaded.topology = load_or_throw(scenario.topology, text_, scenario.set);
  }
  std::erase_if(scenario.faults, [&](const FaultSpec& fault) {
    Scenario alone = scenario;
    alone.faults = {fault};
    return !check_against(alone, *loaded.topology).empty();
  });
  return *loaded.topology;
}

const RunResult& SwarmRunner::fault_free(std::uint32_t iterations) {
  const auto found = fault_free_.find(iterations);
  if (found != fault_free_.end()) return found->second;
  Topology base = space_.base;
  base.job.iterations = iterations;
  base.checkpoint.every = 0;
  return fault_free_.emplace(iterations, run_plain(base, disk_).result).first->second;
}

SwarmRunner::Outcome SwarmRunner::run(std::uint64_t seed) { return run(draw_swarm(space_, seed)); }

SwarmRunner::Outcome SwarmRunner::run(const Scenario& scenario) {
  Outcome outcome{scenario, {}, {}};
  const Topology topology = topology_of(outcome.scenario);
  outcome.record = run_scenario(outcome.scenario, topology, scenario.first_seed, disk_);
  outcome.broken = judge(outcome.scenario, outcome.record, fault_free(topology.job.iterations));
  return outcome;
}

Scenario SwarmRunner::smaller(const Outcome& failure, std::uint32_t tries) {
  Scenario start = failure.scenario;
  const Topology topology = topology_of(start);
  return shrink(
      start, topology,
      [this](const Scenario& s) {
        // A fault that lost its target would be another failure.
        const Outcome outcome = run(s);
        return outcome.scenario.faults.size() == s.faults.size() && !outcome.broken.empty();
      },
      tries);
}

}  // namespace stagecraft
