#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <thread>

#include "config/load_topology.hpp"
#include "model/checkpoint/checkpoint.hpp"
#include "model/corpus.hpp"
#include "model/memory_check.hpp"
#include "tools/commands.hpp"
#include "tools/diagnostics_json.hpp"
#include "tools/open_topology.hpp"
#include "tools/output.hpp"
#include "tools/report.hpp"
#include "tools/resume.hpp"
#include "transport/real_disk.hpp"

namespace stagecraft::tools {

namespace {

using Json = nlohmann::ordered_json;

// What the plan and this machine say of a valid file.
struct Findings {
  std::vector<std::string> problems;  // it can't run
  std::vector<std::string> warnings, notes;
  std::optional<CorpusCounts> data;
  std::string corpus_sha256;
};

void look_at_text(const Topology& topology, Findings& findings) {
  RealDisk disk;
  const auto loaded =
      Corpus::load(*topology.data, topology.model, disk, {topology.job.seed, topology.training.micro_batches});
  if (const auto* errors = std::get_if<CorpusErrors>(&loaded)) {
    findings.problems.insert(findings.problems.end(), errors->begin(), errors->end());
    return;
  }
  const Corpus& corpus = std::get<Corpus>(loaded);
  findings.data = corpus.counts();
  findings.corpus_sha256 = corpus.sha256();
  if (const auto shortage = corpus.shortage()) findings.problems.push_back(*shortage);
}

// A job that must miss its deadlines is refused where the costs are given, doubted where they are assumed.
void look_at_deadlines(const Topology& topology, const JobPlan& plan, Findings& findings) {
  auto& list = topology.emulated() ? findings.problems : findings.warnings;
  const TimeoutsSpec& timeouts = topology.timeouts;
  Duration iteration{}, operation{};
  for (const PipelinePlan& replica : plan.replicas) iteration = std::max(iteration, replica.forecast.makespan);
  for (const OperatorTimes& t : plan.times)
    operation = std::max({operation, t.forward, t.backward_input, t.backward_weight});
  if (iteration > timeouts.iteration)
    list.push_back(
        fmt::format("an iteration is forecast to take {} and may take {}: raise timeouts.iteration (and those "
                    "above it), or make operators and links faster",
                    format(iteration), format(timeouts.iteration)));
  if (operation > timeouts.operation)
    list.push_back(fmt::format("an operator is forecast to take {} and may take {}: raise timeouts.operation",
                               format(operation), format(timeouts.operation)));
}

void look_at_checkpoints(const Topology& topology, Findings& findings) {
  RealDisk disk;
  const std::string folder = checkpoint_folder(topology);
  for (const CheckpointEntry& entry : list_checkpoints(disk, folder)) {
    if (entry.partial) continue;
    findings.notes.push_back(
        fmt::format("job '{}' has checkpoints in '{}', the newest after iteration {}: `run` will ask "
                    "for --resume or --fresh",
                    topology.job.name, folder, entry.iteration));
    return;
  }
}

Findings look(const Topology& topology, const JobPlan& plan) {
  Findings findings;
  for (const PipelinePlan& replica : plan.replicas)
    findings.notes.insert(findings.notes.end(), replica.notes.begin(), replica.notes.end());
  const std::size_t stages = std::size_t{topology.pipeline.stages} * topology.pipeline.replicas;
  const unsigned cores = std::thread::hardware_concurrency();
  if (!topology.emulated() && cores > 0 && stages > cores)
    findings.warnings.push_back(fmt::format("{} cpu devices share {} cores; they run in turns", stages, cores));
  look_at_checkpoints(topology, findings);
  findings.problems = memory_shortages(topology, plan);
  look_at_deadlines(topology, plan, findings);
  if (!topology.emulated()) look_at_text(topology, findings);
  return findings;
}

int print_text(const Topology& topology, const JobPlan& plan, const Findings& findings) {
  say("{}{}\n", describe_job(topology, plan), stage_map(topology, plan));
  for (const std::string& note : findings.notes) say("note: {}\n", note);
  const Duration forecast = plan.replicas.front().forecast.makespan;
  if (forecast.count() > 0) say("forecast: {} per iteration\n", format(forecast));
  const TimeoutsSpec& t = topology.timeouts;
  say("timeouts: operation {} < iteration {} < stage {} (start-up) < node {} (the end of a run)\n", format(t.operation),
      format(t.iteration), format(t.stage), format(t.node));
  if (findings.data)
    say("data: {} files, {} documents, {} tokens per epoch; sha256 {}\n", findings.data->files,
        findings.data->documents, findings.data->tokens, findings.corpus_sha256);
  for (const std::string& warning : findings.warnings) say("warning: {}\n", warning);
  std::fflush(stdout);
  for (const std::string& problem : findings.problems) complain("{}: {}\n", topology.file, problem);
  if (!findings.problems.empty()) return bad_input;
  say("ok: {} can run\n", topology.file);
  return done;
}

Json stages_json(const Topology& topology, const JobPlan& plan) {
  Json stages = Json::array();
  for (std::uint32_t r = 0; r < topology.pipeline.replicas; ++r)
    for (std::uint32_t s = 0; s < topology.pipeline.stages; ++s) {
      const MemoryEstimate& m = plan.memory[r][s];
      stages.push_back({{"stage", s},
                        {"replica", r},
                        {"layers", topology.pipeline.layers_of({s})},
                        {"warmup", plan.replicas[r].warmup[s]},
                        {"credits", plan.replicas[r].credits},
                        {"parameters_bytes", m.parameters.value},
                        {"moments_bytes", m.moments.value},
                        {"snapshot_bytes", m.snapshot.value},
                        {"working_bytes", m.working.value},
                        {"memory_bytes", topology.device({{s}, {r}}).memory.value}});
    }
  return stages;
}

int print_json(const LoadResult& loaded) {
  Json j;
  j["ok"] = false;
  j["diagnostics"] = tools::to_json(loaded.diagnostics);
  if (!loaded.topology) {
    say("{}\n", j.dump());
    return bad_input;
  }
  const Topology& topology = *loaded.topology;
  const JobPlan plan = plan_job(topology);
  const Findings findings = look(topology, plan);
  j["ok"] = findings.problems.empty();
  j["problems"] = findings.problems;
  j["warnings"] = findings.warnings;
  j["notes"] = findings.notes;
  j["parameters"] = plan.parameters;
  j["stages"] = stages_json(topology, plan);
  j["forecast_ms"] = static_cast<double>(plan.replicas.front().forecast.makespan.count()) / 1e6;
  if (findings.data)
    j["data"] = {{"files", findings.data->files},
                 {"documents", findings.data->documents},
                 {"tokens", findings.data->tokens},
                 {"sha256", findings.corpus_sha256}};
  j["resolved"] = describe(topology);
  say("{}\n", j.dump());
  return findings.problems.empty() ? done : bad_input;
}

}  // namespace

int check_command(const FileOptions& options) {
  if (!options.json) {
    const auto topology = open_topology(options);
    if (!topology) return bad_input;
    const JobPlan plan = plan_job(*topology);
    return print_text(*topology, plan, look(*topology, plan));
  }
  const auto loaded = read_topology(options);
  return loaded ? print_json(*loaded) : bad_input;
}

}  // namespace stagecraft::tools
