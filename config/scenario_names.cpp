// The words of the scenario's enumerations, and what follows from the words alone.
#include <array>

#include "config/scenario.hpp"

namespace stagecraft {
namespace {

constexpr std::array<std::string_view, fault_kinds> fault_names{
    "delay", "throttle", "drop", "duplicate", "reorder",   "partition",  "link_down", "pause",
    "kill",  "slow",     "oom",  "nan",       "disk_full", "torn_write", "flip",      "skew"};
constexpr std::array<std::string_view, target_kinds> target_names{"link", "stage", "twin", "nodes", "disk", "job"};
constexpr std::array<std::string_view, run_events> event_names{
    "opened",      "forward_started", "forward_done", "backward_started", "backward_done", "weight_started",
    "weight_done", "reduce_done",     "ready",        "committed",        "stepped",       "saving",
    "saved",       "recovered"};
constexpr std::array<std::string_view, invariants> invariant_names{
    "stale_epoch_accepted", "micro_batch_lost", "micro_batch_twice", "credit_leak",       "step_before_commit",
    "epoch_went_back",      "unanswered",       "left_behind",       "damaged_checkpoint"};
constexpr std::array<std::string_view, expectation_kinds> expectation_names{
    "iteration_time", "progress", "loss", "never", "committed", "checkpoint", "moved", "shutdown"};

}  // namespace

std::string_view name_of(FaultKind kind) { return fault_names.at(static_cast<std::size_t>(kind)); }
std::string_view name_of(FaultTarget::Kind kind) { return target_names.at(static_cast<std::size_t>(kind)); }
std::string_view name_of(RunEvent event) { return event_names.at(static_cast<std::size_t>(event)); }
std::string_view name_of(Invariant invariant) { return invariant_names.at(static_cast<std::size_t>(invariant)); }
std::string_view name_of(Expectation::Kind kind) { return expectation_names.at(static_cast<std::size_t>(kind)); }
std::string_view name_of(ScenarioWorld world) { return world == ScenarioWorld::real ? "real" : "virtual"; }
Duration usual_deadline(ScenarioWorld world) { return std::chrono::seconds(world == ScenarioWorld::real ? 120 : 600); }

bool is_disk_fault(FaultKind kind) {
  using enum FaultKind;
  return kind == disk_full || kind == torn_write || kind == flip;
}

bool strikes_once(FaultKind kind) {
  using enum FaultKind;
  return kind == kill || kind == oom || kind == nan || is_disk_fault(kind);
}

bool is_possible_in_real_world(FaultKind kind) {
  using enum FaultKind;
  const bool needs_the_simulation =
      kind == drop || kind == duplicate || kind == reorder || kind == partition || kind == skew || is_disk_fault(kind);
  return !needs_the_simulation;
}

bool has_stage(RunEvent event) {
  using enum RunEvent;
  return has_micro_batch(event) || event == reduce_done || event == ready || event == stepped;
}

bool has_micro_batch(RunEvent event) {
  using enum RunEvent;
  return event == forward_started || event == forward_done || event == backward_started || event == backward_done ||
         event == weight_started || event == weight_done;
}

}  // namespace stagecraft
