#include "actors/runtime.hpp"

#include "actors/batches.hpp"
#include "actors/cluster/cluster.hpp"
#include "actors/company.hpp"
#include "actors/run_result.hpp"
#include "actors/running_job.hpp"
#include "actors/take_over.hpp"
#include "model/checkpoint/set_aside.hpp"
#include "model/memory_check.hpp"
#include "planning/bug.hpp"

namespace stagecraft {

namespace {

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
  cluster.begin({{}, job->start, job->checkpoint.has_value(), start.checkpoint != nullptr, options.folder});
  return {{spawn_node(job, outbox, cluster.part(), start.checkpoint)}, {}, {outbox}, {}};
}

void say_lost(Cluster& cluster, const RunOptions& options) {
  for (const std::string& text : cluster.newly_lost()) options.start_up.say(text);
}

}  // namespace

namespace {

// Of nodes that are apart in this process: true when one has to lead from now on. What its outbox has heard so far, is
// known.
bool look_for_leader(Company& company, const RunOptions& options, JobRef& job, RunResult& result) {
  bool leads = false;
  for (std::size_t n = 0; n < company.news.size(); ++n) {
    const GateNews::Board board = company.news[n]->read();
    if (!board.succession) continue;
    const auto own = [&](const std::string& path) {
      return path.empty() ? path : fmt::format("{}.{}", path, job->topology.nodes[n].name);
    };
    job = take_over(*job, *board.succession, company.nodes[n],
                    {own(options.log_path), own(options.trace_path), options.checkpoint_folder});
    company.leader = n;
    leads = true;
    for (const IterationReport& report : company.outbox().take_reports())
      if (result.iterations.empty() || report.iteration > result.iterations.back().iteration)
        add_report(result.iterations, report);
  }
  return leads;
}

}  // namespace

RunResult run_job(World& world, const Topology& topology, const RunOptions& options) {
  Start start = prepare(world, topology, options);
  JobRef job = start.job;
  const auto outbox = std::make_shared<Outbox>([&world] { world.news(); });
  RunResult result;
  result.resumed_from = options.resume_from;
  result.passed_over = options.passed_over;
  result.start_iteration = job->start.iteration;
  result.set_aside = std::move(start.set_aside);
  const Instant begin = world.now();
  Company company = spawn_company(start, outbox, options);
  start.checkpoint.reset();
  log_start(*job, options, company.cast().recorder());
  if (options.started) options.started(company.nodes);

  std::optional<Outbox::Ended> end;
  bool given_up = false, alive = false;
  std::optional<RunningJob> running(std::in_place, *job, company.cast(), company.outbox());
  const auto clean_up = [&] {
    if (FaultBoard* faults = world.faults()) faults->close();
    if (options.cluster) options.cluster->finish({result.ending, result.reason});
    const bool gone = end_all(world, company, options.cluster ? 1 : 0, topology.timeouts.node);
    STAGECRAFT_ASSERT(gone, "{} actors are left after the end", world.system().registry().running());
    world.close_streams();
  };
  try {
    alive = world.drive([&] {
      if (look_for_leader(company, options, job, result)) running.emplace(*job, company.cast(), company.outbox());
      for (const IterationReport& report : company.outbox().take_reports()) {
        add_report(result.iterations, report);
        running->note(report);
        if (options.on_iteration) options.on_iteration(report);
      }
      if (!running->stopping() && options.stop_asked && options.stop_asked()) running->stop();
      if (!given_up && options.deadline && world.now() - begin >= *options.deadline) {
        given_up = true;
        tell_from_outside(company.cast().coordinator(),
                          GiveUp{fmt::format("the run did not end within {}", format(*options.deadline))});
      }
      if (options.cluster) say_lost(*options.cluster, options);
      if (!end) end = company.outbox().take_end();
      if (end) running->note_end(end->job);
      if (options.attend) options.attend(*running);
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
