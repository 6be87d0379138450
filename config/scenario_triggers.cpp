// When a fault strikes: the keys at, when and every.
#include <fmt/format.h>

#include "config/scenario_draft.hpp"

namespace stagecraft {
namespace {

void read_at(Section& fault, Trigger& trigger, Report& report) {
  Section at = fault.section("at", true);
  trigger.at = at.at();
  const auto chosen = choose_key(at, {"iteration", "time"}, true, report);
  if (chosen && chosen->key == "iteration") {
    trigger.kind = Trigger::Kind::iteration;
    const auto iteration = at.integer<std::uint32_t>("iteration", 1, most_iterations);
    trigger.iteration = {iteration.value};
    trigger.at = iteration.at;
  } else if (chosen) {
    trigger.kind = Trigger::Kind::time;
    const auto time = at.duration("time", waiting_time);
    trigger.time = time.value;
    trigger.at = time.at;
  }
  at.finish();
}

// Conditions that the event does not know.
void check_filters(const EventPattern& pattern, const std::string& path, Report& report) {
  const auto refuse = [&](std::string_view key, const Position& at, std::string_view instead) {
    report.add(ErrorCode::filter_not_of_event, at, fmt::format("{}.{}", path, key),
               fmt::format("expected no {} with the event {}, which does not have one, got one; remove it, or take {}",
                           key, name_of(pattern.event), instead));
  };
  const std::string_view on_a_stage = "an event of a stage (an operator, reduce_done, ready, stepped)";
  if (pattern.stage && !has_stage(pattern.event)) refuse("stage", pattern.stage_at, on_a_stage);
  if (pattern.replica && !has_stage(pattern.event)) refuse("replica", pattern.replica_at, on_a_stage);
  if (pattern.micro_batch && !has_micro_batch(pattern.event))
    refuse("micro_batch", pattern.micro_batch_at, "an event of an operator (forward_started, ..., weight_done)");
}

void read_when(Section& fault, Trigger& trigger, Report& report) {
  Section when = fault.section("when", true);
  trigger.kind = Trigger::Kind::event;
  EventPattern& pattern = trigger.event;
  const auto value = when.required_value("event", "for example committed");
  const auto event = value ? read_named<RunEvent>(*value, run_events, report) : std::nullopt;
  pattern.at = value ? value->at : when.at();
  pattern.stage = read_id<StageId>(when, "stage", 0, 1023, pattern.stage_at);
  pattern.replica = read_id<ReplicaId>(when, "replica", 0, 255, pattern.replica_at);
  pattern.micro_batch = read_id<MicroBatch>(when, "micro_batch", 0, 65535, pattern.micro_batch_at);
  pattern.iteration = read_id<Iteration>(when, "iteration", 1, most_iterations, pattern.iteration_at);
  when.finish();
  trigger.at = pattern.at;
  if (!event) return;
  pattern.event = *event;
  check_filters(pattern, when.path(), report);
}

void read_every(Section& fault, Trigger& trigger) {
  Section every = fault.section("every", true);
  trigger.kind = Trigger::Kind::drawn;
  const auto mtbf = every.duration("mtbf", waiting_time);
  trigger.time = mtbf.value;
  trigger.at = mtbf.at;
  trigger.at_most = every.integer<std::uint32_t>("at_most", 1, 1'000'000, usual_strikes).value;
  every.finish();
}

}  // namespace

Trigger read_trigger(Section& fault, Report& report) {
  Trigger trigger;
  trigger.at = fault.at();
  const auto chosen = choose_key(fault, {"at", "when", "every"}, false, report);
  if (!chosen) return trigger;
  if (chosen->key == "at") read_at(fault, trigger, report);
  if (chosen->key == "when") read_when(fault, trigger, report);
  if (chosen->key == "every") read_every(fault, trigger);
  return trigger;
}

std::optional<Iteration> begins_in(const FaultSpec& fault) {
  switch (fault.trigger.kind) {
    case Trigger::Kind::start:
      return Iteration{1};
    case Trigger::Kind::iteration:
      return fault.trigger.iteration;
    case Trigger::Kind::event:
      return fault.trigger.event.iteration;
    case Trigger::Kind::time:
    case Trigger::Kind::drawn:
      break;
  }
  return std::nullopt;
}

}  // namespace stagecraft
