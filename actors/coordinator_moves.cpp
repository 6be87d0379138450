// What the coordinator does about layers on their way: the rest of CoordinatorMachine. The decisions are
// MigrationMachine's.
#include <fmt/format.h>

#include "actors/coordinator_machine.hpp"

namespace stagecraft {

namespace {

// How long an iteration that is complete waits for the votes of a move.
constexpr Duration vote_patience = std::chrono::seconds(1);

}  // namespace

void CoordinatorMachine::refuse(const MoveProposal& x, const std::string& why, Effects& effects) {
  newest_move_ = std::max(newest_move_, x.order.id);
  tell_of_move(x,
               {WishAnswer::Fate::refused,
                {},
                fmt::format("move {} is not begun: {}; the layout {} stays. It was: {}", x.order.id.value, why,
                            to_text(layout_), x.why),
                {},
                {}},
               effects);
}

// To be recorded, and told to whoever asked for the move.
void CoordinatorMachine::tell_of_move(const MoveProposal& x, WishAnswer answer, Effects& effects) const {
  effects.emplace_back(coordinator_effect::MoveTold{key_, answer.text});
  answer.wish = x.wish;
  if (x.wish != WishId{}) effects.emplace_back(coordinator_effect::Answer{std::move(answer)});
}

void CoordinatorMachine::on(const MoveProposal& x, Instant now, Effects& effects) {
  if (phase_ == Phase::ended) return;
  if (phase_ != Phase::running) return refuse(x, "no iteration is running", effects);
  if (move_.phase() != MigrationMachine::Phase::idle)
    return refuse(x, fmt::format("move {} is not over", moving_->order.id.value), effects);
  if (x.from != layout_) return refuse(x, "it was planned for the layout " + to_text(x.from), effects);
  moving_ = x;
  newest_move_ = x.order.id;
  move_until_ = now + topology_.timeouts.stage;
  effects.emplace_back(coordinator_effect::MoveTold{
      key_, fmt::format("move {} begins, from layout {} to {}: {}; {}", x.order.id.value, to_text(layout_),
                        to_text(x.plan->layers), to_text(x.order.transfers), x.why)});
  tell_move(move_event::Begin{x.order, key_}, effects);
}

void CoordinatorMachine::on(const MoveVote& x, Instant now, Effects& effects) {
  tell_move(x, effects);
  if (holds_ && (phase_ == Phase::running || phase_ == Phase::asking)) maybe_commit(now, effects);
}

CoordinatorMachine::MoveVerdict CoordinatorMachine::ask_move(Instant now, Effects& effects) {
  if (stop_asked_ || key_.iteration.value >= topology_.job.iterations)
    tell_move(move_event::Disturbed{"the job ends with this iteration"}, effects);
  MoveVerdict verdict = MoveVerdict::none;
  for (const MoveEffect& e : move_.step(move_event::Boundary{})) {
    if (std::holds_alternative<move_effect::Wait>(e)) verdict = MoveVerdict::wait;
    if (std::holds_alternative<move_effect::Flip>(e)) verdict = MoveVerdict::flip;
    if (const auto* g = std::get_if<move_effect::GiveUp>(&e)) give_up_move(*g, effects);
    if (std::holds_alternative<move_effect::Close>(e))
      effects.emplace_back(coordinator_effect::MoveTold{
          key_,
          fmt::format("move {} is over: iteration {} has run with it", moving_->order.id.value, key_.iteration.value)});
  }
  if (verdict == MoveVerdict::wait && !holds_)
    move_until_ = std::min(move_until_.value_or(now + vote_patience), now + vote_patience);
  holds_ = verdict == MoveVerdict::wait;
  return verdict;
}

void CoordinatorMachine::tell_move(const MoveEvent& event, Effects& effects) {
  for (const MoveEffect& e : move_.step(event)) {
    if (const auto* lead = std::get_if<move_effect::Lead>(&e)) effects.emplace_back(*lead);
    if (const auto* ask = std::get_if<move_effect::AskVote>(&e)) effects.emplace_back(*ask);
    if (const auto* g = std::get_if<move_effect::GiveUp>(&e)) give_up_move(*g, effects);
  }
}

void CoordinatorMachine::give_up_move(const move_effect::GiveUp& e, Effects& effects) {
  move_until_.reset();
  holds_ = false;
  tell_of_move(*moving_,
               {WishAnswer::Fate::given_up,
                {},
                fmt::format("move {} is given up: {}; the layout {} stays", e.move.value, e.why, to_text(layout_)),
                {},
                {}},
               effects);
}

// Decided with the iteration before, in the same message: whoever acts on the one acts on the other.
void CoordinatorMachine::flip(Effects& effects) {
  ++key_.epoch.value;
  ++moves_made_;
  laid_out_ = moving_->plan;
  layout_ = laid_out_->layers;
  plan_ = PlanProposal{laid_out_->replicas, layout_};
  proposal_.reset();  // it was made for the layout before
  move_until_.reset();
  holds_ = false;
  tell_of_move(
      *moving_,
      {WishAnswer::Fate::done,
       {},
       fmt::format("move {} is made: layout {} from iteration {} on, the digests are the same: {}",
                   moving_->order.id.value, to_text(layout_), key_.iteration.value, to_text(moving_->order.transfers)),
       key_.iteration,
       layout_},
      effects);
  effects.emplace_back(coordinator_effect::InForce{laid_out_});
}

// Votes that do not come hold nothing up for long.
void CoordinatorMachine::look_at_move(Instant now, Effects& effects) {
  if (!move_until_ || now < *move_until_) return;
  const bool held = holds_;
  tell_move(move_event::TimeUp{}, effects);
  move_until_.reset();
  if (held && (phase_ == Phase::running || phase_ == Phase::asking)) maybe_commit(now, effects);
}

}  // namespace stagecraft
