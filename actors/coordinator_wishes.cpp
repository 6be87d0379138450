// What the coordinator does when people want the job to pause, or ask how it stands: the rest of CoordinatorMachine.
#include <fmt/format.h>

#include "actors/coordinator_machine.hpp"
#include "actors/wait_chain.hpp"

namespace stagecraft {

namespace {

// How long stages have to say what they wait for.
constexpr Duration patience = std::chrono::seconds(1);
// Of those who are not ready: the rows say who does what.
constexpr std::size_t most_names = 6;

WishAnswer answer_to(WishId wish, WishAnswer::Fate fate, std::string text, Iteration iteration) {
  return {fate, wish, std::move(text), iteration, {}, {}};
}

}  // namespace

// The iteration that runs is finished, and held back from being decided.
void CoordinatorMachine::on(const Pause& x, Instant, Effects& effects) {
  using Fate = WishAnswer::Fate;
  if (stop_asked_ || phase_ == Phase::reporting || key_.iteration.value >= topology_.job.iterations)
    return void(effects.emplace_back(coordinator_effect::Answer{
        answer_to(x.wish, Fate::refused, "the iteration that runs is the last one", key_.iteration)}));
  if (!std::exchange(pausing_.wanted, true))
    effects.emplace_back(coordinator_effect::PauseTold{
        key_, fmt::format("once iteration {} has run, no other one opens: {}", key_.iteration.value, x.who)});
  if (!pausing_.since) return pausing_.wishes.push_back(x.wish);
  effects.emplace_back(coordinator_effect::Answer{
      answer_to(x.wish, Fate::done, "paused already: " + held_text(), {key_.iteration.value - 1})});
}

std::string CoordinatorMachine::held_text() const {
  return fmt::format("iteration {} has run and waits to be decided, {} is the last one that is; `resume` goes on",
                     key_.iteration.value, key_.iteration.value - 1);
}

// Everything of the iteration is there. Its deadline stands still with it.
bool CoordinatorMachine::pauses(Instant now, Effects& effects) {
  if (!pausing_.wanted || stop_asked_) return false;
  if (pausing_.since) return true;
  pausing_.since = now;
  if (!pausing_.began) pausing_.began = now;
  tell_move(move_event::Disturbed{"the job pauses"}, effects);
  for (const WishId wish : std::exchange(pausing_.wishes, {}))
    effects.emplace_back(coordinator_effect::Answer{
        answer_to(wish, WishAnswer::Fate::done, "paused: " + held_text(), {key_.iteration.value - 1})});
  return true;
}

void CoordinatorMachine::on(const Resume& x, Instant now, Effects& effects) {
  using Fate = WishAnswer::Fate;
  if (!pausing_.wanted)
    return void(effects.emplace_back(
        coordinator_effect::Answer{answer_to(x.wish, Fate::refused, "the job is not paused", key_.iteration)}));
  const std::string how_long = pausing_.began
                                   ? fmt::format("the job goes on after a pause of {}", format(now - *pausing_.began))
                                   : fmt::format("the job does not pause after iteration {}", key_.iteration.value);
  effects.emplace_back(coordinator_effect::Answer{answer_to(x.wish, Fate::done, how_long, key_.iteration)});
  go_on(fmt::format("{}: {}", how_long, x.who), now, effects);
}

void CoordinatorMachine::go_on(const std::string& why, Instant now, Effects& effects) {
  pausing_.wanted = false;
  pausing_.began.reset();
  for (const WishId wish : std::exchange(pausing_.wishes, {}))
    effects.emplace_back(coordinator_effect::Answer{
        answer_to(wish, WishAnswer::Fate::given_up, "the job did not pause: " + why, key_.iteration)});
  effects.emplace_back(coordinator_effect::PauseTold{key_, why});
  if (!pausing_.since) return;
  opened_at_ += now - *pausing_.since;  // nobody worked meanwhile
  pausing_.since.reset();
  pausing_.ended_at = now;
  deadline_ = now + topology_.timeouts.iteration;
  probe_at_ = now + topology_.timeouts.operation;
  if (phase_ == Phase::running) maybe_commit(now, effects);
}

void CoordinatorMachine::on(const AskWaits& x, Instant now, Effects& effects) {
  waits_.wishes.push_back(x.wish);
  if (waits_.until) return;
  waits_.until = now + patience;
  waits_.answers.clear();
  effects.emplace_back(coordinator_effect::AskAll{});
}

void CoordinatorMachine::tell_waits(Effects& effects) {
  waits_.until.reset();
  WaitChain chain = wait_chain(places_, waits_.answers);
  std::string text = pausing_.since                ? "paused: " + held_text()
                     : phase_ == Phase::joining    ? "start-up; not there: " + missing_list(most_names)
                     : phase_ == Phase::recovering ? "somebody is lost, and others are to stand in"
                     : phase_ == Phase::searching  ? "a checkpoint is looked for"
                     : phase_ == Phase::reporting
                         ? "the last iteration is over, and everyone reports"
                         : fmt::format("iteration {} runs; not ready: {}. {}", key_.iteration.value,
                                       missing_list(most_names), chain.text);
  for (const WishId wish : std::exchange(waits_.wishes, {}))
    effects.emplace_back(
        coordinator_effect::Answer{{WishAnswer::Fate::done, wish, text, key_.iteration, {}, chain.rows}});
}

void CoordinatorMachine::on(const AskPlan& x, Instant, Effects& effects) {
  effects.emplace_back(coordinator_effect::TellPlan{x.wish, plan_});
}

}  // namespace stagecraft
