#include "actors/runtime.hpp"

#include "actors/node.hpp"
#include "actors/run_digest.hpp"
#include "model/corpus.hpp"
#include "model/memory_check.hpp"
#include "planning/bug.hpp"

namespace stagecraft {

namespace {

// Emulated devices compute nothing: a micro-batch is its number.
std::shared_ptr<const TokenBatch> numbered_batch(Iteration iteration, MicroBatch micro_batch) {
  static const auto packing = std::make_shared<const Packing>(Packing{{0, 1}});
  return std::make_shared<TokenBatch>(TokenBatch{iteration, micro_batch, packing, {0}, {0}});
}

struct Batches {
  BatchSource source;
  std::string sha256;  // of the text; empty where there is none
};

Batches open_batches(World& world, const Topology& topology) {
  if (topology.emulated()) return {numbered_batch, {}};
  auto loaded =
      Corpus::load(*topology.data, topology.model, world.disk(), {topology.job.seed, topology.training.micro_batches});
  if (const auto* errors = std::get_if<CorpusErrors>(&loaded))
    throw CannotStart(fmt::format("{}", fmt::join(*errors, "\n")));
  auto corpus = std::make_shared<const Corpus>(std::move(std::get<Corpus>(loaded)));
  if (const auto shortage = corpus->shortage()) throw CannotStart(*shortage);
  const auto source = [corpus](Iteration iteration, MicroBatch micro_batch) {
    return std::make_shared<const TokenBatch>(corpus->batch(iteration, micro_batch));
  };
  return {source, corpus->sha256()};
}

JobRef make_job(World& world, const Topology& topology, const RunOptions& options) {
  JobPlan plan = plan_job(topology, options.controls);
  if (const auto shortages = memory_shortages(topology, plan); !shortages.empty())
    throw CannotStart(fmt::format("{}", fmt::join(shortages, "\n")));
  for (PipelinePlan& replica : plan.replicas)
    for (StagePlan& stage : replica.stages) stage.rule = options.caps_rule;
  Batches batches = open_batches(world, topology);
  return std::make_shared<Job>(Job{world, topology, std::move(plan), options.controls, std::move(batches.source),
                                   std::move(batches.sha256), options.log_path, options.trace_path});
}

// Every actor gets an exit; the coordinator last, so that nobody is missed by a live one. True when all are gone.
bool end_all(World& world, const NodeHandles& handles, Duration patience) {
  for (const caf::actor& actor : handles.all) caf::anon_send_exit(actor, caf::exit_reason::kill);
  const Instant deadline = world.now() + patience;
  const std::size_t none = 0;
  const auto gone = [&] { return world.system().registry().running() == none; };
  world.drive([&] { return gone() || (!world.is_virtual() && world.now() > deadline); });
  return gone();
}

void fill_memory(const Job& job, const std::vector<StageState>& states, RunResult& result) {
  for (const StageState& s : states) {
    const Place p = s.place;
    result.memory.push_back({p, job.plan.memory[p.replica.value][p.stage.value].total(), s.peak,
                             job.topology.device(p).memory, s.overdrafts});
  }
}

void fill_end(const Job& job, Outbox::Ended& end, RunResult& result) {
  result.ending = end.job.ending;
  result.reason = end.job.reason;
  result.corpus_sha256 = job.corpus_sha256;
  result.profile = std::move(end.profile);
  result.event_hash = end.log.event_hash;
  result.events = end.log.events;
  result.log = end.log.log;
  result.trace = end.log.trace;
  result.last_iteration = std::move(end.log.last_iteration);
  if (end.log.violations > 0)
    result.violations.push_back(
        fmt::format("{} invariants were broken during the run; the event log names them", end.log.violations));
  if (end.job.states.empty()) return;
  fill_memory(job, end.job.states, result);
  RunDigest digest = digest_of(job, end.job.states);
  result.weights_sha256 = digest.weights;
  result.moments_sha256 = digest.moments;
  for (std::string& v : digest.violations) result.violations.push_back(std::move(v));
}

}  // namespace

RunResult run_job(World& world, const Topology& topology, const RunOptions& options) {
  const JobRef job = make_job(world, topology, options);
  const auto outbox = std::make_shared<Outbox>();
  RunResult result;
  const Instant begin = world.now();
  const NodeHandles handles = spawn_node(job, outbox);

  std::optional<Outbox::Ended> end;
  bool stopping = false, alive = false;
  const auto clean_up = [&] {
    const bool gone = end_all(world, handles, topology.timeouts.node);
    STAGECRAFT_ASSERT(gone, "{} actors are left after the end", world.system().registry().running());
    world.close_streams();
  };
  try {
    alive = world.drive([&] {
      for (const IterationReport& report : outbox->take_reports()) {
        result.iterations.push_back(report);
        if (options.on_iteration) options.on_iteration(report);
      }
      if (!stopping && options.stop_asked && options.stop_asked()) {
        stopping = true;
        tell_from_outside(handles.coordinator, Stop{});
      }
      if (!end) end = outbox->take_end();
      return end.has_value();
    });
  } catch (...) {  // of the callbacks: nobody is left behind
    clean_up();
    throw;
  }
  result.elapsed = world.now() - begin;
  clean_up();
  if (!alive || !end) {
    result.ending = Ending::no_progress;
    result.reason = "nothing can happen any more: no actor has mail and no timer is armed";
    return result;
  }
  fill_end(*job, *end, result);
  if (const DiskStatus error = world.flush_logs()) result.log_error = error->text();
  return result;
}

}  // namespace stagecraft
