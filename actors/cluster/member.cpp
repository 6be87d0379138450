#include "actors/cluster/member.hpp"

#include <fmt/format.h>

#include "actors/company.hpp"
#include "actors/run_result.hpp"
#include "actors/running_job.hpp"
#include "actors/runtime.hpp"
#include "actors/take_over.hpp"
#include "model/memory_check.hpp"
#include "planning/bug.hpp"

namespace stagecraft {

namespace {

JobRef job_of(World& world, const Topology& topology, const BeginJob& begin) {
  JobPlan plan = plan_job(topology, {});
  if (const auto shortages = memory_shortages(topology, plan); !shortages.empty())
    throw CannotStart(fmt::format("{}", fmt::join(shortages, "\n")));
  // The text and the checkpoints are where the job is led: here, what is said of them is enough.
  std::optional<CheckpointPlan> checkpoint;
  if (begin.checkpoints) checkpoint = CheckpointPlan{};
  return std::make_shared<const Job>(
      Job{world, topology, std::move(plan), {}, nullptr, {}, {}, {}, std::move(checkpoint), begin.start, {}});
}

class MemberRun {
 public:
  MemberRun(World& world, const Topology& topology, Cluster& cluster, const BeginJob& begin,
            const MemberOptions& options)
      : world_(world), cluster_(cluster), begin_(begin), options_(options), job_(job_of(world, topology, begin)) {
    const auto outbox = std::make_shared<Outbox>([&world] { world.news(); });
    company_ = {{spawn_node(job_, outbox, cluster.part())}, {}, {outbox}, {}};
  }

  MemberEnd run() {
    const Instant begin = world_.now();
    world_.drive([this] { return is_over(); });
    if (leads_) cluster_.finish(end_);
    const bool gone = end_all(world_, company_, 1, job_->topology.timeouts.node);
    STAGECRAFT_ASSERT(gone, "{} actors are left after the end", world_.system().registry().running());
    world_.close_streams();
    if (!ended_) return {end_, std::nullopt};
    result_.start_iteration = begin_.start.iteration;
    result_.elapsed = world_.now() - begin;
    fill_end(*job_, *ended_, result_);
    if (const DiskStatus error = world_.flush_logs()) result_.log_error = error->text();
    return {end_, std::move(result_)};
  }

 private:
  bool is_over() {
    pass_stop_on();
    maybe_lead();
    for (const IterationReport& report : company_.outbox().take_reports()) {
      add_report(result_.iterations, report);
      if (!running_) continue;
      running_->note(report);
      options_.on_iteration(report);
    }
    if (leads_)
      for (const std::string& text : cluster_.newly_lost()) options_.say(text);
    if (!ended_ && (ended_ = company_.outbox().take_end())) end_ = {ended_->job.ending, ended_->job.reason};
    attend();
    if (ended_) return true;
    const auto end = cluster_.finished();
    if (end) end_ = *end;
    return end.has_value() || failed_;
  }
  // To people, where this node leads.
  void attend() {
    if (!running_ || !options_.attend) return;
    if (ended_) running_->note_end(ended_->job);
    options_.attend(*running_);
  }
  // To whoever leads; again, when that is somebody else.
  void pass_stop_on() {
    if (!options_.stop_asked() && !stopping_) return;
    if (std::exchange(stopping_, true) && told_ == cluster_.leader()) return;
    told_ = cluster_.leader();
    tell_from_outside(company_.cast().coordinator(), Stop{});
  }
  void maybe_lead() {
    const auto succession = cluster_.succession();
    if (!succession) return;
    const std::string& name = job_->topology.nodes[cluster_.index()].name;
    try {
      job_ = take_over(*job_, *succession, company_.nodes.front(), files(name));
      leads_ = true;
      running_.emplace(*job_, company_.cast(), company_.outbox());
      options_.say(
          fmt::format("node '{}' leads the job from iteration {} on", name, succession->newest.key.iteration.value));
    } catch (const CannotStart& problem) {
      failed_ = true;
      end_ = {Ending::fault, fmt::format("it was to lead the job from now on, and can't: {}", problem.what())};
    }
  }
  LeaderFiles files(const std::string& name) const {
    LeaderFiles files{{}, {}, options_.checkpoint_folder};
    if (begin_.folder.empty() || world_.disk().make_directories(begin_.folder)) return files;
    files.log = fmt::format("{}/events-{}.jsonl", begin_.folder, name);
    files.trace = fmt::format("{}/trace-{}.json", begin_.folder, name);
    return files;
  }

  World& world_;
  Cluster& cluster_;
  const BeginJob& begin_;
  const MemberOptions& options_;
  JobRef job_;
  Company company_;
  RunResult result_;
  std::optional<RunningJob> running_;   // where this node leads it
  std::optional<Outbox::Ended> ended_;  // of the job, where this node leads it
  FinishJob end_;
  bool stopping_ = false, leads_ = false, failed_ = false;
  std::uint32_t told_ = 0;  // of the stop: the node that led then
};

}  // namespace

MemberEnd run_member(World& world, const Topology& topology, Cluster& cluster, const BeginJob& begin,
                     const MemberOptions& options) {
  return MemberRun(world, topology, cluster, begin, options).run();
}

}  // namespace stagecraft
