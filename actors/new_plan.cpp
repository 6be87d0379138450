#include "actors/new_plan.hpp"

#include "planning/bug.hpp"
#include "planning/schedule.hpp"

namespace stagecraft {

namespace {

std::int64_t number(const std::optional<std::uint32_t>& cap) { return cap ? std::int64_t{*cap} : -1; }

std::optional<std::uint32_t> cap(std::int64_t number) {
  if (number < 0) return std::nullopt;
  return static_cast<std::uint32_t>(number);
}

}  // namespace

NewPlan to_message(Key key, const StagePlan& plan) {
  NewPlan message{key, plan.dispatch, to_text(Schedule{{plan.order}}), {}, {}};
  for (const Pace& pace : plan.paces)
    for (const Duration d : {pace.latest_start, pace.duration, pace.producer}) message.paces.push_back(d.count());
  message.caps = {number(plan.caps.activations), number(plan.caps.pending_weights), number(plan.caps.held)};
  return message;
}

StagePlan with(StagePlan present, const NewPlan& message) {
  auto schedule = parse_schedule(message.order);
  STAGECRAFT_ASSERT(
      schedule && schedule->operators.size() == 1 && message.caps.size() == 3 && message.paces.size() % 3 == 0,
      "a new plan with {} paces, {} caps and the list '{}'", message.paces.size(), message.caps.size(), message.order);
  present.dispatch = message.dispatch;
  present.order = std::move(schedule->operators.front());
  present.paces.clear();
  for (std::size_t i = 0; i < message.paces.size(); i += 3)
    present.paces.push_back(
        {Duration(message.paces[i]), Duration(message.paces[i + 1]), Duration(message.paces[i + 2])});
  present.caps = {cap(message.caps[0]), cap(message.caps[1]), cap(message.caps[2])};
  return present;
}

}  // namespace stagecraft
