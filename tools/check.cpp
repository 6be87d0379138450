#include <fmt/format.h>

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

std::string timeouts_text(const TimeoutsSpec& t) {
  return fmt::format("timeouts: operation {} < iteration {} < stage {} (start-up) < node {} (the end of a run)\n",
                     format(t.operation), format(t.iteration), format(t.stage), format(t.node));
}

// Problems that only the machine can tell: the text, and memory.
int check_machine(const Topology& topology, const JobPlan& plan) {
  int problems = 0;
  const std::size_t actors = std::size_t{topology.pipeline.stages} * topology.pipeline.replicas;
  const unsigned cores = std::thread::hardware_concurrency();
  if (!topology.emulated() && cores > 0 && actors > cores)
    fmt::print("warning: {} cpu devices share {} cores; they run in turns\n", actors, cores);
  for (const std::string& shortage : memory_shortages(topology, plan)) {
    ++problems;
    fmt::print(stderr, "{}: {}\n", topology.file, shortage);
  }
  if (topology.emulated()) return problems;
  RealDisk disk;
  const auto loaded =
      Corpus::load(*topology.data, topology.model, disk, {topology.job.seed, topology.training.micro_batches});
  if (const auto* errors = std::get_if<CorpusErrors>(&loaded)) {
    for (const std::string& e : *errors) fmt::print(stderr, "{}: {}\n", topology.file, e);
    return problems + static_cast<int>(errors->size());
  }
  const Corpus& corpus = std::get<Corpus>(loaded);
  const CorpusCounts& c = corpus.counts();
  fmt::print("data: {} files, {} documents, {} tokens per epoch; sha256 {}\n", c.files, c.documents, c.tokens,
             corpus.sha256());
  if (const auto shortage = corpus.shortage()) {
    fmt::print(stderr, "{}: {}\n", topology.file, *shortage);
    ++problems;
  }
  return problems;
}

}  // namespace

int check_command(const FileOptions& options) {
  const auto topology = open_topology(options);
  if (!topology) return bad_input;
  const JobPlan plan = plan_job(*topology);
  fmt::print("{}{}\n", describe_job(*topology, plan), stage_map(*topology, plan));
  for (const PipelinePlan& replica : plan.replicas)
    for (const std::string& note : replica.notes) fmt::print("note: {}\n", note);
  const SimulationResult& forecast = plan.replicas.front().forecast;
  if (forecast.makespan.count() > 0) fmt::print("forecast: {} per iteration\n", format(forecast.makespan));
  fmt::print("{}", timeouts_text(topology->timeouts));
  if (check_machine(*topology, plan) > 0) return bad_input;
  fmt::print("ok: {} can run\n", topology->file);
  return done;
}

}  // namespace stagecraft::tools
