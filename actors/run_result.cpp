#include "actors/run_result.hpp"

#include "actors/run_digest.hpp"

namespace stagecraft {

namespace {

// The plan is that of the layout in force at the end.
void fill_memory(const Job& job, const JobPlan& plan, const std::vector<StageState>& states, RunResult& result) {
  for (const StageState& s : states) {
    const Place p = s.place;
    result.memory.push_back(
        {p, plan.memory[p.replica.value][p.stage.value].total(), s.peak, job.topology.device(p).memory, s.overdrafts});
  }
}

}  // namespace

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

void add_report(std::vector<IterationReport>& iterations, const IterationReport& report) {
  while (!iterations.empty() && iterations.back().iteration >= report.iteration) iterations.pop_back();
  iterations.push_back(report);
}

}  // namespace stagecraft
