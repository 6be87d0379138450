#include "actors/coordinator_machine.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "actors/faults/planted.hpp"
#include "model/optimizer.hpp"
#include "planning/bug.hpp"

namespace stagecraft {

using coordinator_effect::Adopt;
using coordinator_effect::AskAll;
using coordinator_effect::BeginAgain;
using coordinator_effect::Broadcast;
using coordinator_effect::Checkpoint;
using coordinator_effect::Commit;
using coordinator_effect::End;

namespace {

// How long stages have to say what they wait for, once a deadline has passed.
constexpr Duration patience = std::chrono::seconds(1);

}  // namespace

CoordinatorMachine::CoordinatorMachine(const Topology& topology, std::vector<Place> places, Instant now,
                                       std::optional<Checkpoints> checkpoints, StartPoint start,
                                       std::shared_ptr<const LoadedCheckpoint> handed_out)
    : topology_(topology),
      places_(std::move(places)),
      key_{Epoch{1}, Iteration{start.iteration + 1}},
      recovery_(places_, topology.recovery.twins, topology.recovery.attempts),
      steps_(start.steps),
      tokens_(start.tokens),
      checkpoints_(checkpoints),
      layout_(topology.pipeline.layout),
      deadline_(now + topology.timeouts.stage),
      probe_at_(now + topology.timeouts.operation) {
  if (handed_out) restart_ = CheckpointFound{key_, std::move(handed_out), {}};
}

// What was planned meanwhile is not known: everyone gets the plan that the job has here.
void CoordinatorMachine::take_over(const Minutes& minutes, Instant now) {
  phase_ = Phase::recovering;
  key_ = minutes.key;
  decision_ = minutes.decision;
  newest_move_ = minutes.newest_move;
  joined_ = {places_.begin(), places_.end()};
  recovery_.inherit(minutes.followers, minutes.stateless, minutes.restores);
  stop_asked_ = minutes.last && minutes.key.iteration.value <= topology_.job.iterations;
  save_postponed_ = minutes.checkpoint;
  opened_due_ = opened_at_ = now;
  deadline_ = now + topology_.timeouts.stage;
  probe_at_.reset();
}

Minutes CoordinatorMachine::minutes_of(const Open& open) {
  Minutes minutes{open.key,
                  open.decision,
                  open.last,
                  open.restores,
                  open.checkpoint,
                  open.layout,
                  newest_move_,
                  steps_,
                  tokens_,
                  recovery_.followers(),
                  recovery_.stateless(),
                  decided_.has_value(),
                  decided_.value_or(IterationReport{})};
  decided_.reset();
  return minutes;
}

std::vector<CoordinatorEffect> CoordinatorMachine::step(const CoordinatorEvent& event, Instant now) {
  std::vector<CoordinatorEffect> effects;
  std::visit([&](const auto& e) { on(e, now, effects); }, event);
  return effects;
}

std::optional<Instant> CoordinatorMachine::deadline() const {
  if (phase_ == Phase::ended) return std::nullopt;
  if (pausing_.since) return waits_.until;
  return std::min(
      {deadline_, probe_at_.value_or(deadline_), move_until_.value_or(deadline_), waits_.until.value_or(deadline_)});
}

void CoordinatorMachine::on(const Joined& x, Instant now, Effects& effects) {
  joined_.insert(x.place);
  maybe_open_first(now, effects);
}

void CoordinatorMachine::maybe_open_first(Instant now, Effects& effects) {
  if (phase_ != Phase::joining || joined_.size() < places_.size() || !recovery_.complete()) return;
  if (recovery_.needs_checkpoint()) return resume(now, effects);
  if (restart_) effects.emplace_back(Restore{key_, restart_->checkpoint});
  open_at(Decision{}, now, now, Opening::next, effects);
}

// After an abort, and with a move: under a new epoch that has been claimed already.
void CoordinatorMachine::open_at(Decision decision, Instant due, Instant now, Opening opening, Effects& effects) {
  const bool again = opening == Opening::again;
  const bool last = stop_asked_ || key_.iteration.value > topology_.job.iterations;
  phase_ = last ? Phase::reporting : Phase::running;
  decision_ = decision;
  ready_.clear();
  twins_ready_.clear();
  states_.clear();
  pausing_.since.reset();
  if (!again || restart_) {  // an iteration that is begun again began with its first attempt
    opened_due_ = due;
    opened_at_ = now;
  }
  deadline_ = now + topology_.timeouts.iteration;
  probe_at_ = now + topology_.timeouts.operation;
  const bool planned = proposal_ && !last && opening == Opening::next;
  if (planned) {
    ++key_.epoch.value;
    plan_ = std::exchange(proposal_, std::nullopt);
  }
  if (plan_ && (planned || opening != Opening::next)) effects.emplace_back(Adopt{key_, *plan_});
  // Of a save that takes longer than an iteration may, a message was lost, or its disk is as good as dead.
  std::erase_if(saving_, [&](const auto& s) {
    return now - s.second > topology_.timeouts.iteration && s.first.iteration != key_.iteration;
  });
  // The first Open of a run decides nothing: what it would save is what the run began with.
  const bool save = decision.kind != Decision::Kind::none && (again ? saves_again(last) : wants_checkpoint(last));
  if (save) {
    saving_[key_] = now;
    save_wishes_.begun(key_.iteration);
    effects.emplace_back(Checkpoint{{key_, key_.iteration.value - 1, steps_, tokens_}});
  }
  const Open open{key_, decision, last, save, due, restart_.has_value(), layout_, move_.under_way()};
  effects.emplace_back(Broadcast{open, move_.not_over(), minutes_of(open)});
  if (opening == Opening::next) tell_move(move_event::Opened{key_}, effects);
}

// One at a time, but the last: whoever comes while another is being written waits for the next commit.
bool CoordinatorMachine::wants_checkpoint(bool last) {
  if (!checkpoints_) return false;
  const bool wished = save_wishes_.lacking(saving_);
  if (last) return checkpoints_->every > 0 || stop_asked_ || wished;
  const bool due = wished || (checkpoints_->every > 0 && (key_.iteration.value - 1) % checkpoints_->every == 0);
  if (!due && !save_postponed_) return false;
  save_postponed_ = !saving_.empty();
  return !save_postponed_;
}

// A checkpoint of this very state was under way when its iteration was aborted: its loans are gathered anew.
bool CoordinatorMachine::saves_again(bool last) {
  const auto aborted = std::find_if(saving_.begin(), saving_.end(),
                                    [this](const auto& s) { return s.first.iteration == key_.iteration; });
  if (aborted == saving_.end()) return last && wants_checkpoint(last);
  saving_.erase(aborted);
  return true;
}

void CoordinatorMachine::on(const IterationReady& x, Instant now, Effects& effects) {
  if (x.key != key_ || (phase_ != Phase::running && phase_ != Phase::asking)) return;
  if (!ready_.emplace(x.place, x).second && planted(PlantedBug::coordinator_counts_twice)) return commit(now, effects);
  recovery_.has_state(x.place);
  maybe_commit(now, effects);
}

void CoordinatorMachine::on(const TwinReady& x, Instant now, Effects& effects) {
  if (x.key != key_ || (phase_ != Phase::running && phase_ != Phase::asking)) return;
  twins_ready_.insert(x.place);
  recovery_.twin_follows(x.place);
  maybe_commit(now, effects);
}

void CoordinatorMachine::maybe_commit(Instant now, Effects& effects) {
  const std::size_t twins = topology_.recovery.twins ? places_.size() : 0;
  const bool followed = twins_ready_.size() == twins || planted(PlantedBug::coordinator_skips_twins);
  if (ready_.size() < places_.size() || !followed || pauses(now, effects)) return;
  const MoveVerdict verdict = ask_move(now, effects);
  if (verdict != MoveVerdict::wait) commit(now, effects, verdict == MoveVerdict::flip);
}

// The one decision for all: step with a clip factor, or skip. Sums are exact, so it does not depend on who came first.
void CoordinatorMachine::commit(Instant now, Effects& effects, bool flips) {
  ExactSum square_sum, loss;
  IterationReport report;
  report.iteration = key_.iteration;
  Instant due{};
  for (const auto& [place, ready] : ready_) {
    square_sum.add(ready.square_sum);
    loss.add(ready.loss);
    report.tokens += ready.tokens;
    due = std::max(due, ready.due);
  }
  const OptimizerSpec& optimizer = topology_.training.optimizer;
  Decision decision;
  decision.tokens = report.tokens;
  decision.clip = clip_factor(optimizer, square_sum, report.tokens);
  const bool sound = square_sum.valid() && loss.valid() && std::isfinite(decision.clip);
  decision.kind = sound ? Decision::Kind::step : Decision::Kind::skip;
  if (sound) decision.step = ++steps_;

  const double tokens = report.tokens > 0 ? static_cast<double>(report.tokens) : 1.0;
  report.loss = loss.value() / tokens;
  report.gradient_norm = std::sqrt(square_sum.value()) / tokens;
  report.clip = decision.clip;
  report.skipped = !sound;
  tokens_ += report.tokens;
  if (sound) report.learning_rate = learning_rate(optimizer, steps_, topology_.job.iterations);
  report.time = due - opened_due_;
  report.wall = now - opened_at_;
  report.at = now;
  report.layout = flips ? moving_->plan->layers : layout_;
  report.moves = moves_made_ + (flips ? 1 : 0);
  effects.emplace_back(Commit{key_, report});
  decided_ = report;
  recovery_.committed();
  restart_.reset();
  ++key_.iteration.value;
  if (flips) flip(effects);
  open_at(decision, std::max(due, pausing_.ended_at.value_or(due)), now, flips ? Opening::moved : Opening::next,
          effects);
}

void CoordinatorMachine::on(const StageReport& x, Instant, Effects& effects) {
  if (phase_ != Phase::reporting || x.key != key_) return;
  states_[x.state.place] = x.state;
  recovery_.has_state(x.state.place);
  maybe_end(effects);
}

void CoordinatorMachine::on(const CheckpointOutcome& x, Instant, Effects& effects) {
  std::erase_if(saving_, [&](const auto& s) { return s.first.iteration == x.key.iteration; });
  checkpoint_error_ = x.error;
  if (x.error.empty()) saved_ = x.iteration;
  for (WishAnswer& answer : save_wishes_.over(x)) effects.emplace_back(coordinator_effect::Answer{std::move(answer)});
  maybe_end(effects);
}

void CoordinatorMachine::on(const KeepCheckpoint& x, Instant, Effects& effects) {
  if (checkpoints_ && !pausing_.since) return save_wishes_.add(x.wish);
  effects.emplace_back(coordinator_effect::Answer{
      {WishAnswer::Fate::refused,
       x.wish,
       checkpoints_ ? "the job is paused, and a checkpoint is written when an iteration is decided; " + held_text()
                    : "this run keeps no checkpoints: it has no folder for them",
       {},
       {}}});
}

void CoordinatorMachine::maybe_end(Effects& effects) {
  if (phase_ != Phase::reporting || states_.size() < places_.size() || !saving_.empty()) return;
  phase_ = Phase::ended;
  JobEnded ended;
  const std::uint32_t run = key_.iteration.value - 1;
  ended.ending = run >= topology_.job.iterations ? Ending::done : Ending::stopped;
  ended.reason = ended.ending == Ending::done
                     ? fmt::format("all {} iterations are done", run)
                     : fmt::format("stopped on request after {} of {} iterations", run, topology_.job.iterations);
  ended.saved_iteration = saved_;
  ended.checkpoint_error = checkpoint_error_;
  ended.plan = laid_out_;
  ended.moves = moves_made_;
  for (auto& [place, state] : states_) ended.states.push_back(std::move(state));
  effects.emplace_back(End{std::move(ended)});
}

// A plan is in force from an Open on, and a new epoch with it.
void CoordinatorMachine::on(const PlanProposal& x, Instant, Effects&) {
  if (x.layout == layout_) proposal_ = x;
}

// An iteration in flight is finished first: its commit sees the wish.
void CoordinatorMachine::on(const Stop&, Instant now, Effects& effects) {
  stop_asked_ = true;
  if (pausing_.wanted) go_on("the job is to end", now, effects);
}

void CoordinatorMachine::on(const Lost& x, Instant now, Effects& effects) {
  if (phase_ == Phase::ended) return;
  recovery_.lost(x.who, x.why);
  if (x.who.role == Member::Role::stage) joined_.erase(x.who.place);
  tell_move(move_event::Disturbed{to_text(x.who) + " is lost"}, effects);
  effects.emplace_back(coordinator_effect::Missed{x});
  effects.emplace_back(Replace{{x.who}});
  if (phase_ == Phase::joining) return;
  phase_ = Phase::recovering;
  pausing_.since.reset();
  deadline_ = now + topology_.timeouts.stage;
  probe_at_.reset();
}

void CoordinatorMachine::on(const Replaced& x, Instant now, Effects& effects) {
  for (const Member& who : x.who) recovery_.replaced(who);
  maybe_open_first(now, effects);
  if (phase_ == Phase::recovering && recovery_.complete()) resume(now, effects);
}

// Everyone is there again. Where a stage's state is lost with its twin, the whole job goes back to a checkpoint.
void CoordinatorMachine::resume(Instant now, Effects& effects) {
  if (!recovery_.needs_checkpoint()) return begin_again(recovery_.history(), now, effects);
  if (restart_) return restart(CheckpointFound{*restart_}, now, effects);
  if (!checkpoints_) return restart({key_, nullptr, {}}, now, effects);
  phase_ = Phase::searching;
  deadline_ = now + topology_.timeouts.stage;
  probe_at_.reset();
  effects.emplace_back(FindCheckpoint{key_});
}

void CoordinatorMachine::on(const CheckpointFound& x, Instant now, Effects& effects) {
  if (phase_ == Phase::searching && x.key == key_) restart(x, now, effects);
}

void CoordinatorMachine::restart(const CheckpointFound& from, Instant now, Effects& effects) {
  // One of an iteration that is yet to come was under way when the job went back further than that.
  if (from.checkpoint && from.checkpoint->info.iteration >= key_.iteration.value)
    return restart({from.key, nullptr, from.passed_over}, now, effects);
  const CheckpointInfo start = from.checkpoint ? from.checkpoint->info : CheckpointInfo{};
  // What was to be saved when this iteration opened may lack the loans of those who are gone.
  std::erase_if(saving_, [this](const auto& s) { return s.first.iteration == key_.iteration; });
  key_.iteration = Iteration{start.iteration + 1};
  if (!planted(PlantedBug::coordinator_keeps_steps)) steps_ = start.steps;
  tokens_ = start.tokens;
  decision_ = {};
  recovery_.restored();
  restart_ = from;
  begin_again(fmt::format("{}; the job goes back to {}{}", recovery_.history(),
                          from.checkpoint ? fmt::format("the checkpoint after iteration {}", start.iteration)
                                          : std::string("its first parameters"),
                          from.passed_over.empty() ? "" : "; passed over " + from.passed_over),
              now, effects);
}

void CoordinatorMachine::begin_again(std::string why, Instant now, Effects& effects) {
  if (!recovery_.begin_again()) {
    phase_ = Phase::ended;
    JobEnded ended;
    ended.ending = Ending::fault;
    ended.reason = fmt::format("iteration {} was begun {} times and did not end: {}; see recovery.attempts",
                               key_.iteration.value, recovery_.attempts() + 1, why);
    effects.emplace_back(End{std::move(ended)});
    return;
  }
  if (!planted(PlantedBug::coordinator_keeps_epoch)) ++key_.epoch.value;
  tell_move(move_event::Disturbed{"the iteration is begun again"}, effects);
  effects.emplace_back(BeginAgain{key_, std::move(why)});
  if (restart_) effects.emplace_back(Restore{key_, restart_->checkpoint});
  open_at(decision_, now, now, Opening::again, effects);
}

void CoordinatorMachine::on(const GiveUp& x, Instant now, Effects& effects) {
  if (phase_ == Phase::ended) return;
  ask(x.why, now, effects);
  asked_in_ = Phase::asking;  // there is no other try
}

// An iteration that is still open after the time of one operation is probed, in case one of them hangs; one that is
// open after its own time is begun again, when the stages have said what they wait for, or given up if it was too
// often.
void CoordinatorMachine::on(const Tick&, Instant now, Effects& effects) {
  if (phase_ == Phase::ended) return;
  if (waits_.until && now >= *waits_.until) tell_waits(effects);
  if (pausing_.since) return;
  look_at_move(now, effects);
  if (now >= deadline_) {
    if (phase_ == Phase::asking) return try_again(now, effects);
    if (phase_ == Phase::searching) return resume(now, effects);
    return ask(missing_text(), now, effects);
  }
  if (!probe_at_ || now < *probe_at_) return;
  probe_at_ = now + topology_.timeouts.operation;
  effects.emplace_back(AskAll{});
}

void CoordinatorMachine::ask(std::string why, Instant now, Effects& effects) {
  stuck_in_ = std::move(why);
  explanations_.clear();
  stuck_.clear();
  pausing_.since.reset();
  asked_in_ = phase_;
  phase_ = Phase::asking;
  probe_at_.reset();
  deadline_ = now + patience;
  effects.emplace_back(AskAll{});
}

void CoordinatorMachine::on(const Explanation& x, Instant now, Effects& effects) {
  if (phase_ == Phase::ended) return;
  if (x.joined) on(Joined{x.place}, now, effects);
  if (waits_.until) {
    waits_.answers[x.place] = x;
    if (waits_.answers.size() == places_.size()) tell_waits(effects);
  }
  const bool stuck = x.busy >= topology_.timeouts.operation;
  if (phase_ == Phase::asking) {
    explanations_[x.place] = x.text;
    if (stuck) stuck_.insert(x.place);
    if (explanations_.size() == places_.size()) try_again(now, effects);
  } else if (stuck && phase_ != Phase::recovering) {
    ask(fmt::format("an operator of {} has been running for {}, it may take {}", to_text(Member{.place = x.place}),
                    format(x.busy), format(topology_.timeouts.operation)),
        now, effects);
  }
}

// Who does not answer, or never ends its operator, is as good as lost. If everyone is well, a message was lost.
void CoordinatorMachine::try_again(Instant now, Effects& effects) {
  if (asked_in_ != Phase::running && asked_in_ != Phase::reporting) return give_up(effects);
  if (!recovery_.may_begin_again()) return give_up(effects);
  phase_ = Phase::recovering;
  deadline_ = now + topology_.timeouts.stage;
  std::vector<Lost> lost;
  for (const Place p : places_) {
    const auto answer = explanations_.find(p);
    if (answer == explanations_.end()) lost.push_back({{Member::Role::stage, p}, "it does not answer"});
    if (stuck_.contains(p)) lost.push_back({{Member::Role::stage, p}, answer->second});
  }
  for (const Lost& x : lost) on(x, now, effects);
  if (lost.empty()) begin_again(stuck_in_, now, effects);
}

std::string CoordinatorMachine::missing_list(std::size_t most) const {
  std::vector<std::string> missing;
  for (const Place p : places_) {
    const bool here = phase_ == Phase::joining   ? joined_.contains(p)
                      : phase_ == Phase::running ? ready_.contains(p)
                                                 : states_.contains(p);
    if (!here) missing.push_back(to_text(Member{.place = p}));
    if (phase_ == Phase::running && topology_.recovery.twins && !twins_ready_.contains(p))
      missing.push_back(to_text(Member{Member::Role::twin, p}));
  }
  const std::size_t all = missing.size();
  if (all > most) missing.resize(most);
  return fmt::format("{}{}", fmt::join(missing, ", "), all > most ? fmt::format(", ... ({} in all)", all) : "");
}

std::string CoordinatorMachine::missing_text() const {
  if (phase_ == Phase::reporting && states_.size() == places_.size())
    return fmt::format("the checkpoint after iteration {} was not written within {}; see what its disk is doing",
                       key_.iteration.value - 1, format(topology_.timeouts.iteration));
  if (phase_ == Phase::joining)
    return fmt::format("start-up did not end within {}; missing: {}", format(topology_.timeouts.stage), missing_list());
  return fmt::format("iteration {} did not end within {}; not ready: {}", key_.iteration.value,
                     format(topology_.timeouts.iteration), missing_list());
}

void CoordinatorMachine::give_up(Effects& effects) {
  phase_ = Phase::ended;
  JobEnded ended;
  ended.ending = Ending::no_progress;
  ended.reason = stuck_in_;
  for (const Place p : places_) {
    const auto it = explanations_.find(p);
    ended.reason += fmt::format("\n  {}: {}", to_text(Member{.place = p}),
                                it == explanations_.end() ? "does not answer" : it->second);
  }
  effects.emplace_back(End{std::move(ended)});
}

}  // namespace stagecraft
