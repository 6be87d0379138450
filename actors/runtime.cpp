#include "actors/runtime.hpp"

#include "actors/cluster/cluster.hpp"
#include "actors/company.hpp"
#include "actors/run_digest.hpp"
#include "actors/running_job.hpp"
#include "model/checkpoint/set_aside.hpp"
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

// Throws when the checkpoint is not sound, or when it is another job's.
std::shared_ptr<const LoadedCheckpoint> load_start(World& world, const RunOptions& options, const JobPlan& plan,
                                                   const JobIdentity& identity) {
  if (options.resume_from.empty()) return nullptr;
  const auto info = read_manifest(world.disk(), options.resume_from);
  if (const auto* error = std::get_if<std::string>(&info)) throw CannotStart(*error);
  if (const std::string why = differences(std::get<CheckpointInfo>(info).identity, identity); !why.empty())
    throw CannotStart(fmt::format("cannot continue the checkpoint '{}': {}", options.resume_from, why));
  auto loaded = load_checkpoint(world.disk(), options.resume_from, plan.arithmetic[0]->parameters());
  if (const auto* error = std::get_if<std::string>(&loaded)) throw CannotStart(*error);
  return std::make_shared<LoadedCheckpoint>(std::move(std::get<LoadedCheckpoint>(loaded)));
}

// Whatever is newer than the start is another history. Where checkpoints are due, the folder is tried out at once.
std::string make_room(World& world, const Topology& topology, const RunOptions& options, std::uint32_t iteration) {
  if (options.checkpoint_folder.empty()) return {};
  auto aside = set_aside_after(world.disk(), options.checkpoint_folder, iteration);
  if (const auto* error = std::get_if<DiskError>(&aside)) throw CannotStart(error->text());
  if (topology.checkpoint.every > 0)
    if (const DiskStatus error = world.disk().make_directories(options.checkpoint_folder))
      throw CannotStart(error->text() + " (checkpoint.dir)");
  return std::get<std::optional<std::string>>(aside).value_or("");
}

struct Start {
  JobRef job;
  std::shared_ptr<const LoadedCheckpoint> checkpoint;  // none: from the first parameters
  std::string set_aside;
};

Start prepare(World& world, const Topology& topology, const RunOptions& options) {
  JobPlan plan = plan_job(topology, options.controls);
  if (const auto shortages = memory_shortages(topology, plan); !shortages.empty())
    throw CannotStart(fmt::format("{}", fmt::join(shortages, "\n")));
  if (options.planned_for) plan.replicas = plan_job(*options.planned_for, options.controls).replicas;
  for (PipelinePlan& replica : plan.replicas)
    for (StagePlan& stage : replica.stages) stage.rule = options.caps_rule;
  Batches batches = open_batches(world, topology);
  const JobIdentity identity = identity_of(topology, batches.sha256);
  Start start;
  start.checkpoint = load_start(world, options, plan, identity);
  std::optional<CheckpointPlan> checkpoint;
  if (!options.checkpoint_folder.empty())
    checkpoint =
        CheckpointPlan{options.checkpoint_folder, identity, topology.checkpoint.every, topology.checkpoint.keep};
  StartPoint point;
  if (start.checkpoint)
    point = {start.checkpoint->info.iteration, start.checkpoint->info.steps, start.checkpoint->info.tokens};
  start.set_aside = make_room(world, topology, options, point.iteration);
  start.job = std::make_shared<Job>(Job{world, topology, std::move(plan), options.controls, std::move(batches.source),
                                        std::move(batches.sha256), options.log_path, options.trace_path,
                                        std::move(checkpoint), point, options.moves});
  return start;
}

void log_start(const Job& job, const RunOptions& options, const RecorderActor& recorder) {
  const auto note = [&](std::string text) {
    tell_from_outside(recorder, Event{.kind = EventKind::resumed, .at = job.world.now(), .text = std::move(text)});
  };
  for (const PassedOver& p : options.passed_over) note(fmt::format("passed over {}: {}", p.path, p.why));
  if (!options.resume_from.empty())
    note(fmt::format("continues {} after iteration {}", options.resume_from, job.start.iteration));
}

// The plan is that of the layout in force at the end.
void fill_memory(const Job& job, const JobPlan& plan, const std::vector<StageState>& states, RunResult& result) {
  for (const StageState& s : states) {
    const Place p = s.place;
    result.memory.push_back(
        {p, plan.memory[p.replica.value][p.stage.value].total(), s.peak, job.topology.device(p).memory, s.overdrafts});
  }
}

void fill_end(const Job& job, Outbox::Ended& end, RunResult& result) {
  result.ending = end.job.ending;
  result.reason = end.job.reason;
  result.corpus_sha256 = job.corpus_sha256;
  result.layout = job.plan.layers;
  result.saved_iteration = end.job.saved_iteration;
  result.checkpoint_error = end.job.checkpoint_error;
  result.profile = std::move(end.profile);
  result.event_hash = end.log.event_hash;
  result.events = end.log.events;
  result.losses = end.log.losses;
  result.begun_again = end.log.begun_again;
  result.moves = end.job.moves;
  result.log = end.log.log;
  result.trace = end.log.trace;
  result.last_iteration = std::move(end.log.last_iteration);
  result.violations = end.log.violations;
  if (end.job.states.empty()) return;
  fill_memory(job, end.job.plan ? *end.job.plan : job.plan, end.job.states, result);
  if (end.job.plan) result.layout = end.job.plan->layers;
  RunDigest digest = digest_of(job, end.job.states);
  result.weights_sha256 = digest.weights;
  result.moments_sha256 = digest.moments;
  for (std::string& v : digest.violations) result.violations.push_back(std::move(v));
}

// A job that went back to a checkpoint tells of some iterations again.
void add(std::vector<IterationReport>& iterations, const IterationReport& report) {
  while (!iterations.empty() && iterations.back().iteration >= report.iteration) iterations.pop_back();
  iterations.push_back(report);
}

}  // namespace

JobIdentity identity_of(const Topology& topology, const std::string& corpus_sha256) {
  return {topology.model,
          topology.emulated(),
          topology.job.seed,
          topology.training.micro_batches,
          topology.training.logical_shards,
          topology.data && !topology.emulated() ? topology.data->micro_batch_tokens : 0,
          corpus_sha256,
          topology.training.kernels};
}

namespace {

// In several processes the others come first: nobody is spawned before all are there.
Company spawn_company(const Start& start, const std::shared_ptr<Outbox>& outbox, const RunOptions& options) {
  const JobRef& job = start.job;
  if (!options.cluster) return (options.apart ? spawn_apart : spawn_together)(job, outbox, start.checkpoint);
  Cluster& cluster = *options.cluster;
  cluster.gather(options.start_up);
  cluster.begin({{}, job->start, job->checkpoint.has_value(), start.checkpoint != nullptr});
  return {{spawn_node(job, outbox, cluster.part(), start.checkpoint)}, {}};
}

void say_lost(Cluster& cluster, const RunOptions& options) {
  for (const std::string& text : cluster.newly_lost()) options.start_up.say(text);
}

}  // namespace

RunResult run_job(World& world, const Topology& topology, const RunOptions& options) {
  Start start = prepare(world, topology, options);
  const JobRef job = start.job;
  const auto outbox = std::make_shared<Outbox>([&world] { world.news(); });
  RunResult result;
  result.resumed_from = options.resume_from;
  result.start_iteration = job->start.iteration;
  result.set_aside = std::move(start.set_aside);
  const Instant begin = world.now();
  const Company company = spawn_company(start, outbox, options);
  start.checkpoint.reset();
  const Cast& cast = company.cast();
  log_start(*job, options, cast.recorder());
  if (options.started) options.started(company.nodes);

  std::optional<Outbox::Ended> end;
  bool given_up = false, alive = false;
  RunningJob running(*job, cast, *outbox);
  const auto clean_up = [&] {
    if (FaultBoard* faults = world.faults()) faults->close();
    if (options.cluster) options.cluster->finish({result.ending, result.reason});
    const bool gone = end_all(world, company, options.cluster ? 1 : 0, topology.timeouts.node);
    STAGECRAFT_ASSERT(gone, "{} actors are left after the end", world.system().registry().running());
    world.close_streams();
  };
  try {
    alive = world.drive([&] {
      for (const IterationReport& report : outbox->take_reports()) {
        add(result.iterations, report);
        running.note(report);
        if (options.on_iteration) options.on_iteration(report);
      }
      if (!running.stopping() && options.stop_asked && options.stop_asked()) running.stop();
      if (!given_up && options.deadline && world.now() - begin >= *options.deadline) {
        given_up = true;
        tell_from_outside(cast.coordinator(),
                          GiveUp{fmt::format("the run did not end within {}", format(*options.deadline))});
      }
      if (options.cluster) say_lost(*options.cluster, options);
      if (!end) end = outbox->take_end();
      if (end) running.note_end(end->job);
      if (options.attend) options.attend(running);
      return end.has_value();
    });
  } catch (...) {  // of the callbacks: nobody is left behind
    clean_up();
    throw;
  }
  result.elapsed = world.now() - begin;
  if (end) result.ending = end->job.ending, result.reason = end->job.reason;
  clean_up();
  result.shutdown = world.now() - begin - result.elapsed;
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
