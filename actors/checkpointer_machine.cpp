#include "actors/checkpointer_machine.hpp"

#include <algorithm>

#include "actors/faults/planted.hpp"
#include "planning/bug.hpp"

namespace stagecraft {

std::vector<CheckpointerEffect> CheckpointerMachine::step(const CheckpointerEvent& event) {
  std::vector<CheckpointerEffect> effects;
  if (const auto* begun = std::get_if<checkpointer_event::Begun>(&event)) {
    const BeginCheckpoint& begin = begun->begin;
    newest_ = std::max(newest_, begin.key.epoch);
    if (!(writing_ && writing_->key == begin.key)) waiting_[begin.key].begin = begin;
  } else if (const auto* lent = std::get_if<checkpointer_event::Lent>(&event)) {
    STAGECRAFT_ASSERT(waiting_[lent->key].lent.insert(lent->place).second,
                      "stage {} of replica {} lent its state twice for iteration {}", lent->place.stage.value,
                      lent->place.replica.value, lent->key.iteration.value);
  } else {
    STAGECRAFT_ASSERT(writing_, "a checkpoint was written that nobody began");
    effects.emplace_back(checkpointer_effect::Finish{*writing_, std::get<checkpointer_event::Written>(event).error});
    writing_.reset();
  }
  drop_aborted(effects);
  start_next(effects);
  return effects;
}

// Every abort raises the epoch, so what is incomplete under an older one stays so.
void CheckpointerMachine::drop_aborted(std::vector<CheckpointerEffect>& effects) {
  for (auto it = waiting_.begin(); it != waiting_.end();) {
    const bool waits = planted(PlantedBug::checkpointer_waits_forever);
    if (it->first.epoch < newest_ && it->second.lent.size() < places_ && !waits) {
      effects.emplace_back(checkpointer_effect::Drop{it->first});
      it = waiting_.erase(it);
    } else {
      ++it;
    }
  }
}

// The oldest that has all its parts. What is older than that lacks something that was lost.
void CheckpointerMachine::start_next(std::vector<CheckpointerEffect>& effects) {
  if (writing_) return;
  const auto complete = std::find_if(waiting_.begin(), waiting_.end(), [this](const auto& w) {
    return w.second.begin && w.second.lent.size() == places_;
  });
  if (complete == waiting_.end()) return;
  if (planted(PlantedBug::checkpointer_waits_forever) && complete != waiting_.begin()) return;
  for (auto it = waiting_.begin(); it != complete; it = waiting_.erase(it))
    effects.emplace_back(checkpointer_effect::Drop{it->first});
  writing_ = complete->second.begin;
  waiting_.erase(complete);
  effects.emplace_back(checkpointer_effect::Write{*writing_});
}

}  // namespace stagecraft
