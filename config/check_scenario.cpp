// A scenario against the topology that it names.
#include <fmt/format.h>

#include <algorithm>

#include "config/load_scenario.hpp"
#include "config/scenario_draft.hpp"
#include "planning/generate.hpp"

namespace stagecraft {
namespace {

// One fault or expectation while it is looked at.
struct Subject {
  const Topology& topology;
  std::string path;
  Report& report;
  std::size_t moves = 0;  ///< of layers, in the file

  void refuse(ErrorCode code, const Position& at, std::string_view key, const std::string& message) const {
    report.add(code, at, fmt::format("{}.{}", path, key), message);
  }
  /// A number of something that counts from 0.
  template <class I>
  void need(const std::optional<I>& id, std::uint32_t count, const Position& at, std::string_view key,
            std::string_view what) const {
    if (!id || id->value < count) return;
    const std::string_view name = key.substr(key.find('.') + 1);
    refuse(ErrorCode::no_such_place, at, key,
           fmt::format("expected a {} from 0 to {} ({} = {}), got {}; choose one of those", name, count - 1, what,
                       count, id->value));
  }
};

void check_link(const FaultTarget& target, const Subject& subject) {
  const auto& links = subject.topology.links.links;
  const bool joined = std::any_of(links.begin(), links.end(), [&](const LinkSpec& link) {
    return (link.from == target.stage && link.to == target.other) ||
           (link.from == target.other && link.to == target.stage);
  });
  if (joined) return;
  subject.refuse(ErrorCode::no_such_link, target.at, "on.link",
                 fmt::format("expected two neighbouring stages of 0 to {}, got [{}, {}]; name stages that follow each "
                             "other",
                             subject.topology.pipeline.stages - 1, target.stage.value, target.other.value));
}

void find_nodes(FaultTarget& target, const Subject& subject) {
  std::vector<std::string> names;
  for (const NodeSpec& node : subject.topology.nodes) names.push_back(node.name);
  target.nodes.clear();
  for (const std::string& name : target.node_names) {
    const auto found = std::find(names.begin(), names.end(), name);
    if (found != names.end()) {
      target.nodes.push_back(static_cast<std::uint32_t>(found - names.begin()));
      continue;
    }
    const std::string hint = closest(name, names) ? did_you_mean(name, names) : "; choose one of those";
    subject.refuse(ErrorCode::no_such_node, target.at, target.node_names.size() == 1 ? "on.node" : "on.nodes",
                   fmt::format("expected nodes of {}, got {}{}", joined(names), quoted(name), hint));
  }
}

void check_target(FaultSpec& fault, const Subject& subject) {
  const PipelineSpec& pipeline = subject.topology.pipeline;
  FaultTarget& target = fault.on;
  using enum FaultTarget::Kind;
  if (target.kind == link) check_link(target, subject);
  if (target.kind == stage || target.kind == twin) {
    subject.need(std::optional(target.stage), pipeline.stages, target.at, target.kind == twin ? "on.twin" : "on.stage",
                 "pipeline.stages");
  }
  if (target.kind == twin && !subject.topology.recovery.twins)
    subject.refuse(ErrorCode::no_such_place, target.at, "on.twin",
                   "expected a twin of this job, but it keeps none (recovery.twins: false); set recovery.twins: true");
  subject.need(target.replica, pipeline.replicas, target.replica_at, "on.replica", "pipeline.replicas");
  if (target.kind == nodes) find_nodes(target, subject);
}

void check_iteration(Iteration iteration, const Position& at, std::string_view key, const Subject& subject) {
  const std::uint32_t last = subject.topology.job.iterations;
  if (iteration.value <= last) return;
  subject.refuse(ErrorCode::never_fires, at, key,
                 fmt::format("expected an iteration from 1 to job.iterations = {}, got {}; take an earlier one", last,
                             iteration.value));
}

void check_event(const EventPattern& pattern, const Subject& subject) {
  const Topology& t = subject.topology;
  subject.need(pattern.stage, t.pipeline.stages, pattern.stage_at, "when.stage", "pipeline.stages");
  subject.need(pattern.replica, t.pipeline.replicas, pattern.replica_at, "when.replica", "pipeline.replicas");
  subject.need(pattern.micro_batch, t.training.micro_batches, pattern.micro_batch_at, "when.micro_batch",
               "training.micro_batches");
  if (pattern.iteration) check_iteration(*pattern.iteration, pattern.iteration_at, "when.iteration", subject);
  using enum RunEvent;
  const bool fused = t.pipeline.dispatch != Dispatch::reactive && is_fused(t.pipeline.schedule);
  if ((pattern.event == weight_started || pattern.event == weight_done) && fused) {
    subject.refuse(ErrorCode::never_fires, pattern.at, "when.event",
                   fmt::format("expected an event of this job, got {}, but schedule {} with {} dispatch runs each "
                               "backward in one piece; take a backward event, or dispatch: reactive",
                               name_of(pattern.event), name_of(t.pipeline.schedule), name_of(t.pipeline.dispatch)));
  }
  if ((pattern.event == saving || pattern.event == saved) && t.checkpoint.every == 0) {
    subject.refuse(ErrorCode::never_fires, pattern.at, "when.event",
                   fmt::format("expected an event of this job, got {}, but the job keeps no checkpoints "
                               "(checkpoint.every = 0); set checkpoint.every",
                               name_of(pattern.event)));
  } else if ((pattern.event == saving || pattern.event == saved) && pattern.iteration &&
             pattern.iteration->value % t.checkpoint.every != 0 && pattern.iteration->value < t.job.iterations) {
    subject.refuse(ErrorCode::never_fires, pattern.iteration_at, "when.iteration",
                   fmt::format("expected an iteration whose state is saved (each checkpoint.every = {}, and the last "
                               "one, {}), got {}",
                               t.checkpoint.every, t.job.iterations, pattern.iteration->value));
  }
}

void check_fault(FaultSpec& fault, const Subject& subject) {
  check_target(fault, subject);
  if (fault.trigger.kind == Trigger::Kind::iteration)
    check_iteration(fault.trigger.iteration, fault.trigger.at, "at.iteration", subject);
  if (fault.trigger.kind == Trigger::Kind::event) check_event(fault.trigger.event, subject);
  if (fault.kind == FaultKind::nan && subject.topology.emulated()) {
    subject.refuse(ErrorCode::nothing_computed, fault.kind_at, "do",
                   "expected a fault of emulated devices, which compute nothing, got nan; take cpu devices, or another "
                   "fault");
  }
  if (is_disk_fault(fault.kind) && subject.topology.checkpoint.every == 0) {
    subject.refuse(ErrorCode::no_checkpoints, fault.kind_at, "do",
                   fmt::format("expected a fault of a job without checkpoints (checkpoint.every = 0), got {}; set "
                               "checkpoint.every",
                               name_of(fault.kind)));
  }
}

void check_expectation(const Expectation& e, const Subject& subject) {
  const Topology& t = subject.topology;
  using enum Expectation::Kind;
  if (e.kind == checkpoint && t.checkpoint.every == 0) {
    subject.refuse(ErrorCode::no_checkpoints, e.at, name_of(e.kind),
                   "expected no checkpoints of a job that keeps none (checkpoint.every = 0); set checkpoint.every, or "
                   "remove the expectation");
  }
  if (e.kind == moved && e.at_least > subject.moves) {
    subject.refuse(ErrorCode::impossible_move, e.number_at, "moved.at_least",
                   fmt::format("expected at most {}, as the file has so many moves, got {}; lower it, or add moves",
                               subject.moves, e.at_least));
  }
  if ((e.kind == committed || e.kind == checkpoint) && e.at_least > t.job.iterations) {
    subject.refuse(ErrorCode::beyond_the_job, e.number_at, fmt::format("{}.at_least", name_of(e.kind)),
                   fmt::format("expected at most job.iterations = {}, got {}; lower it, or run more iterations",
                               t.job.iterations, e.at_least));
  }
}

}  // namespace

std::vector<Diagnostic> check_against(Scenario& scenario, const Topology& topology) {
  Report report(scenario.file, {});
  for (std::size_t i = 0; i < scenario.faults.size(); ++i)
    check_fault(scenario.faults[i], {topology, fmt::format("faults[{}]", i), report});
  for (std::size_t i = 0; i < scenario.expect.size(); ++i)
    check_expectation(scenario.expect[i], {topology, fmt::format("expect[{}]", i), report, scenario.moves.size()});
  check_moves(scenario, topology, report);
  if (scenario.calm && scenario.calm->from.value > topology.job.iterations) {
    report.add(ErrorCode::beyond_the_job, scenario.calm->at, "calm.iteration",
               fmt::format("expected at most job.iterations = {}, got {}; let it begin earlier",
                           topology.job.iterations, scenario.calm->from.value));
  }
  // A fault that can't strike has been reported, and nothing is measured of it.
  if (!report.has_errors()) check_spans(scenario, {}, topology.job.iterations, report);
  return report.sorted();
}

}  // namespace stagecraft
