// What is wrong with a scenario across its sections: names, faults that can't strike, spans without an iteration.
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>

#include "config/scenario_draft.hpp"

namespace stagecraft {
namespace {

std::string path_of(std::size_t fault, std::string_view key) { return fmt::format("faults[{}].{}", fault, key); }

void check_ids(const Scenario& scenario, Report& report) {
  std::map<std::string_view, Position> first;
  for (std::size_t i = 0; i < scenario.faults.size(); ++i) {
    const FaultSpec& fault = scenario.faults[i];
    if (fault.id.empty()) continue;
    const auto [where, is_first] = first.emplace(fault.id, fault.at);
    if (is_first) continue;
    report.add(ErrorCode::duplicate_fault, fault.at, path_of(i, "id"),
               fmt::format("expected an id of its own, got {} again (first {}); give it another one", quoted(fault.id),
                           describe_position(where->second)));
  }
}

void check_calm(const Scenario& scenario, std::size_t i, Report& report) {
  const FaultSpec& fault = scenario.faults[i];
  const auto begin = begins_in(fault);
  if (!scenario.calm || !begin || *begin < scenario.calm->from) return;
  const bool by_event = fault.trigger.kind == Trigger::Kind::event;
  const Position& at = by_event ? fault.trigger.event.iteration_at : fault.trigger.at;
  report.add(ErrorCode::never_fires, at, path_of(i, by_event ? "when.iteration" : "at.iteration"),
             fmt::format("expected an iteration below calm.iteration = {}, from which on no fault begins, got {}; let "
                         "the calm begin later",
                         scenario.calm->from.value, begin->value));
}

void check_deadline(const Scenario& scenario, std::size_t i, Report& report) {
  const Trigger& trigger = scenario.faults[i].trigger;
  if (trigger.kind != Trigger::Kind::time || trigger.time < scenario.deadline) return;
  report.add(ErrorCode::never_fires, trigger.at, path_of(i, "at.time"),
             fmt::format("expected a time before the deadline of {}, got {}; raise deadline", format(scenario.deadline),
                         format(trigger.time)));
}

void check_recovery(const Scenario& scenario, std::size_t i, Report& report) {
  const Trigger& trigger = scenario.faults[i].trigger;
  const bool waits = trigger.kind == Trigger::Kind::event && trigger.event.event == RunEvent::recovered;
  if (!waits || scenario.faults.size() > 1) return;
  report.add(ErrorCode::never_fires, trigger.event.at, path_of(i, "when.event"),
             "expected another fault from which a run could recover, got none; add one, or wait for another event");
}

void check_world(const Scenario& scenario, std::size_t i, Report& report) {
  const FaultSpec& fault = scenario.faults[i];
  if (scenario.world != ScenarioWorld::real || is_possible_in_real_world(fault.kind)) return;
  report.add(
      ErrorCode::not_in_real_world, fault.kind_at, path_of(i, "do"),
      fmt::format("expected a fault that the real world can make (delay, throttle, link_down, pause, kill, slow, "
                  "oom, nan), got {}, which needs the simulated control plane, clock or disk; write world: "
                  "virtual",
                  name_of(fault.kind)));
}

constexpr std::uint64_t no_end = std::numeric_limits<std::uint64_t>::max();

// Iterations from `first` up to, but not including, `end`.
struct Span {
  std::uint64_t first = 1, end = no_end;
  std::uint64_t length() const { return end > first ? end - first : 0; }
};

// The most iterations that an expectation could look at, before any settles.
Span span_of(const Scenario& scenario, const Expectation& e, const FaultSpec* fault, std::uint64_t end_of_run) {
  Span span{1, end_of_run};
  if (!fault) return span;
  span.first = begins_in(*fault).value_or(Iteration{1}).value;
  const std::uint64_t calm = scenario.calm ? scenario.calm->from.value : no_end;
  const bool once = strikes_once(fault->kind);
  // One that lasts for a time may be over within an iteration.
  const std::uint64_t over = fault->iterations ? span.first + *fault->iterations : fault->time ? span.first : no_end;
  if (e.after) {
    if (!once) span.first = std::min(over, calm);
    return span;
  }
  if (once) return {1, 1};
  span.end = std::min(end_of_run, calm);
  if (fault->iterations) span.end = std::min(span.end, over);
  return span;
}

std::string why_so_few(const Expectation& e, const FaultSpec* fault) {
  if (!fault) return "the job has no more";
  if (!e.after && strikes_once(fault->kind)) return fmt::format("{} strikes once; write after", name_of(fault->kind));
  if (e.after && !fault->iterations && !fault->time && !strikes_once(fault->kind))
    return "it lasts to the end, or to the calm; write how long with for";
  return "lower settle, or change how long the fault lasts";
}

}  // namespace

void check_names(const ScenarioDraft& draft, Report& report) {
  const Scenario& scenario = draft.scenario;
  check_ids(scenario, report);
  if (!draft.all_ids_known) return;
  std::vector<std::string> ids;
  for (const FaultSpec& fault : scenario.faults) ids.push_back(fault.id);
  for (std::size_t i = 0; i < scenario.expect.size(); ++i) {
    const Expectation& e = scenario.expect[i];
    if (e.fault.empty() || find_fault(scenario, e.fault) < scenario.faults.size()) continue;
    const std::string hint = closest(e.fault, ids) ? did_you_mean(e.fault, ids) : "; name a fault of this file";
    report.add(ErrorCode::unknown_fault, e.fault_at, fmt::format("expect[{}].{}", i, name_of(e.kind)),
               fmt::format("expected the id of a fault ({}), got {}{}", ids.empty() ? "there are none" : joined(ids),
                           quoted(e.fault), hint));
  }
}

void check_faults(const ScenarioDraft& draft, Report& report) {
  const Scenario& scenario = draft.scenario;
  for (std::size_t i = 0; i < scenario.faults.size(); ++i) {
    check_world(scenario, i, report);
    if (draft.damaged.contains(i)) continue;
    check_calm(scenario, i, report);
    check_deadline(scenario, i, report);
    check_recovery(scenario, i, report);
  }
}

void check_spans(const Scenario& scenario, const std::set<std::size_t>& damaged,
                 std::optional<std::uint32_t> last_iteration, Report& report) {
  const std::uint64_t end_of_run = last_iteration ? std::uint64_t{*last_iteration} + 1 : no_end;
  for (std::size_t i = 0; i < scenario.expect.size(); ++i) {
    const Expectation& e = scenario.expect[i];
    if (e.kind != Expectation::Kind::iteration_time) continue;
    const std::size_t named = find_fault(scenario, e.fault);
    const FaultSpec* fault = named < scenario.faults.size() ? &scenario.faults[named] : nullptr;
    if (damaged.contains(named) || (!fault && !e.fault.empty())) continue;
    const Span span = span_of(scenario, e, fault, end_of_run);
    if (span.length() > e.settle) continue;
    report.add(
        ErrorCode::nothing_to_measure, e.number_at, fmt::format("expect[{}].iteration_time", i),
        fmt::format("expected at least one iteration to look at, got {} {}, of which {} settle: {}", span.length(),
                    fault ? fmt::format("{} {}", e.after ? "after" : "during", quoted(fault->id)) : "in all", e.settle,
                    why_so_few(e, fault)));
  }
}

}  // namespace stagecraft
