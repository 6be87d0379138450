#include "actors/faults/injector_machine.hpp"

#include <algorithm>
#include <utility>

#include "actors/faults/draws.hpp"

namespace stagecraft {

namespace {

bool matches(const EventPattern& pattern, const Happened& event) {
  if (pattern.event != event.event) return false;
  if (pattern.stage && (!event.place || event.place->stage != *pattern.stage)) return false;
  if (pattern.replica && (!event.place || event.place->replica != *pattern.replica)) return false;
  if (pattern.micro_batch && (!event.micro_batch || *event.micro_batch != *pattern.micro_batch)) return false;
  return !pattern.iteration || event.iteration == *pattern.iteration;
}

}  // namespace

InjectorMachine::InjectorMachine(std::vector<FaultSpec> faults, std::optional<Calm> calm, std::uint64_t seed)
    : faults_(std::move(faults)), calm_(calm), seed_(seed) {
  for (const FaultSpec& fault : faults_) states_.push_back(new_state(fault));
}

InjectorMachine::State InjectorMachine::new_state(const FaultSpec& fault) const {
  return {0, false, {}, {}, {}, Entropy(seed_, "fault " + fault.id)};
}

std::vector<FaultSwitch> InjectorMachine::inject(const FaultSpec& fault, Instant now) {
  faults_.push_back(fault);
  states_.push_back(new_state(fault));
  std::vector<FaultSwitch> out;
  strike(faults_.size() - 1, now, out);
  return out;
}

std::vector<FaultSwitch> InjectorMachine::heal(std::size_t fault) {
  std::vector<FaultSwitch> out;
  heal(fault, out);
  return out;
}

bool InjectorMachine::wants(RunEvent event) const {
  if (event == RunEvent::opened) return true;
  return std::any_of(faults_.begin(), faults_.end(), [event](const FaultSpec& f) {
    return f.trigger.kind == Trigger::Kind::event && f.trigger.event.event == event;
  });
}

std::vector<FaultSwitch> InjectorMachine::step(const Happened& event, Instant now) {
  std::vector<FaultSwitch> out;
  if (calm_now_) return out;
  if (!begun_) begin(now);
  if (event.event == RunEvent::opened) {
    iteration_ = event.iteration;
    calm_now_ = calm_ && iteration_ >= calm_->from;
    for (std::size_t i = 0; i < faults_.size(); ++i)
      if (calm_now_ || (states_[i].heal_before && iteration_ >= *states_[i].heal_before)) heal(i, out);
  }
  if (calm_now_) return out;
  for (std::size_t i = 0; i < faults_.size(); ++i)
    if (struck_by(faults_[i], event)) strike(i, now, out);
  return out;
}

// Waits that count from the first iteration.
void InjectorMachine::begin(Instant now) {
  begun_ = true;
  for (std::size_t i = 0; i < faults_.size(); ++i) {
    if (faults_[i].trigger.kind == Trigger::Kind::time) states_[i].strike_at = now + faults_[i].trigger.time;
    if (faults_[i].trigger.kind == Trigger::Kind::drawn) draw_next(i, now);
  }
}

bool InjectorMachine::struck_by(const FaultSpec& fault, const Happened& event) const {
  switch (fault.trigger.kind) {
    case Trigger::Kind::start:
      return event.event == RunEvent::opened;
    case Trigger::Kind::iteration:
      return event.event == RunEvent::opened && event.iteration >= fault.trigger.iteration;
    case Trigger::Kind::event:
      return matches(fault.trigger.event, event);
    case Trigger::Kind::time:
    case Trigger::Kind::drawn:
      return false;
  }
  return false;
}

void InjectorMachine::strike(std::size_t i, Instant now, std::vector<FaultSwitch>& out) {
  const FaultSpec& fault = faults_[i];
  State& s = states_[i];
  const std::uint32_t limit = fault.trigger.kind == Trigger::Kind::drawn ? fault.trigger.at_most : 1;
  if (s.strikes >= limit || s.active) return;
  ++s.strikes;
  s.active = !strikes_once(fault.kind);
  if (s.active && fault.time) s.heal_at = now + *fault.time;
  if (s.active && fault.iterations) s.heal_before = Iteration{iteration_.value + *fault.iterations};
  out.push_back({i, true});
}

void InjectorMachine::heal(std::size_t i, std::vector<FaultSwitch>& out) {
  State& s = states_[i];
  s.heal_at.reset();
  s.heal_before.reset();
  if (calm_now_) s.strike_at.reset();
  if (std::exchange(s.active, false)) out.push_back({i, false});
}

void InjectorMachine::draw_next(std::size_t i, Instant now) {
  states_[i].strike_at = now + exponential(states_[i].draws, faults_[i].trigger.time);
}

std::vector<FaultSwitch> InjectorMachine::tick(Instant now) {
  std::vector<FaultSwitch> out;
  if (calm_now_) return out;
  for (std::size_t i = 0; i < faults_.size(); ++i)
    if (states_[i].heal_at && *states_[i].heal_at <= now) heal(i, out);
  for (std::size_t i = 0; i < faults_.size(); ++i) {
    if (!states_[i].strike_at || *states_[i].strike_at > now) continue;
    states_[i].strike_at.reset();
    strike(i, now, out);
    if (faults_[i].trigger.kind == Trigger::Kind::drawn && states_[i].strikes < faults_[i].trigger.at_most)
      draw_next(i, now);
  }
  return out;
}

std::optional<Instant> InjectorMachine::deadline() const {
  std::optional<Instant> first;
  for (const State& s : states_)
    for (const auto& at : {s.strike_at, s.heal_at})
      if (at && (!first || *at < *first)) first = at;
  return first;
}

}  // namespace stagecraft
