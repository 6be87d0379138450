#include "actors/checkpointer_machine.hpp"

#include "planning/bug.hpp"

namespace stagecraft {

std::vector<CheckpointerEffect> CheckpointerMachine::step(const CheckpointerEvent& event) {
  std::vector<CheckpointerEffect> effects;
  if (const auto* begun = std::get_if<checkpointer_event::Begun>(&event)) {
    waiting_[begun->begin.key].begin = begun->begin;
  } else if (const auto* lent = std::get_if<checkpointer_event::Lent>(&event)) {
    STAGECRAFT_ASSERT(waiting_[lent->key].lent.insert(lent->place).second,
                      "stage {} of replica {} lent its state twice for iteration {}", lent->place.stage.value,
                      lent->place.replica.value, lent->key.iteration.value);
  } else {
    STAGECRAFT_ASSERT(writing_, "a checkpoint was written that nobody began");
    effects.emplace_back(checkpointer_effect::Finish{*writing_, std::get<checkpointer_event::Written>(event).error});
    writing_.reset();
  }
  start_next(effects);
  return effects;
}

void CheckpointerMachine::start_next(std::vector<CheckpointerEffect>& effects) {
  if (writing_ || waiting_.empty()) return;
  const auto first = waiting_.begin();
  if (!first->second.begin || first->second.lent.size() < places_) return;
  writing_ = first->second.begin;
  waiting_.erase(first);
  effects.emplace_back(checkpointer_effect::Write{*writing_});
}

}  // namespace stagecraft
