#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <thread>

#include "config/load_topology.hpp"
#include "model/corpus.hpp"
#include "model/memory_check.hpp"
#include "tools/commands.hpp"
#include "tools/open_topology.hpp"
#include "tools/report.hpp"
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

Findings look(const Topology& topology, const JobPlan& plan) {
  Findings findings;
  for (const PipelinePlan& replica : plan.replicas)
    findings.notes.insert(findings.notes.end(), replica.notes.begin(), replica.notes.end());
  const std::size_t stages = std::size_t{topology.pipeline.stages} * topology.pipeline.replicas;
  const unsigned cores = std::thread::hardware_concurrency();
  if (!topology.emulated() && cores > 0 && stages > cores)
    findings.warnings.push_back(fmt::format("{} cpu devices share {} cores; they run in turns", stages, cores));
  findings.problems = memory_shortages(topology, plan);
  if (!topology.emulated()) look_at_text(topology, findings);
  return findings;
}

int print_text(const Topology& topology, const JobPlan& plan, const Findings& findings) {
  fmt::print("{}{}\n", describe_job(topology, plan), stage_map(topology, plan));
  for (const std::string& note : findings.notes) fmt::print("note: {}\n", note);
  const Duration forecast = plan.replicas.front().forecast.makespan;
  if (forecast.count() > 0) fmt::print("forecast: {} per iteration\n", format(forecast));
  const TimeoutsSpec& t = topology.timeouts;
  fmt::print("timeouts: operation {} < iteration {} < stage {} (start-up) < node {} (the end of a run)\n",
             format(t.operation), format(t.iteration), format(t.stage), format(t.node));
  if (findings.data)
    fmt::print("data: {} files, {} documents, {} tokens per epoch; sha256 {}\n", findings.data->files,
               findings.data->documents, findings.data->tokens, findings.corpus_sha256);
  for (const std::string& warning : findings.warnings) fmt::print("warning: {}\n", warning);
  std::fflush(stdout);
  for (const std::string& problem : findings.problems) fmt::print(stderr, "{}: {}\n", topology.file, problem);
  if (!findings.problems.empty()) return bad_input;
  fmt::print("ok: {} can run\n", topology.file);
  return done;
}

Json stages_json(const Topology& topology, const JobPlan& plan) {
  Json stages = Json::array();
  for (std::uint32_t r = 0; r < topology.pipeline.replicas; ++r)
    for (std::uint32_t s = 0; s < topology.pipeline.stages; ++s) {
      std::vector<std::uint32_t> layers;
      for (std::size_t c = s; c < topology.pipeline.layout.size(); c += topology.pipeline.stages)
        layers.push_back(topology.pipeline.layout[c]);
      const MemoryEstimate& m = plan.memory[r][s];
      stages.push_back({{"stage", s},
                        {"replica", r},
                        {"layers", layers},
                        {"warmup", plan.replicas[r].warmup[s]},
                        {"credits", plan.replicas[r].credits},
                        {"parameters_bytes", m.parameters.value},
                        {"moments_bytes", m.moments.value},
                        {"working_bytes", m.working.value},
                        {"memory_bytes", topology.device({{s}, {r}}).memory.value}});
    }
  return stages;
}

int print_json(const LoadResult& loaded) {
  Json j;
  j["ok"] = false;
  j["diagnostics"] = Json::array();
  for (const Diagnostic& d : loaded.diagnostics)
    j["diagnostics"].push_back({{"code", to_text(d.code)},
                                {"severity", to_text(d.severity)},
                                {"source", d.source},
                                {"line", d.at.line},
                                {"column", d.at.column},
                                {"message", d.message}});
  if (!loaded.topology) {
    fmt::print("{}\n", j.dump());
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
  fmt::print("{}\n", j.dump());
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
