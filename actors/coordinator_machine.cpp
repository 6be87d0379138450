#include "actors/coordinator_machine.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "model/optimizer.hpp"
#include "planning/bug.hpp"

namespace stagecraft {

using coordinator_effect::Adopt;
using coordinator_effect::AskAll;
using coordinator_effect::Broadcast;
using coordinator_effect::Checkpoint;
using coordinator_effect::Commit;
using coordinator_effect::End;

namespace {

// How long stages have to say what they wait for, once a deadline has passed.
constexpr Duration patience = std::chrono::seconds(1);

std::string name_of(Place place) {
  return fmt::format("stage {} of replica {}", place.stage.value, place.replica.value);
}

}  // namespace

CoordinatorMachine::CoordinatorMachine(const Topology& topology, std::vector<Place> places, Instant now,
                                       std::optional<Checkpoints> checkpoints, StartPoint start)
    : topology_(topology),
      places_(std::move(places)),
      key_{Epoch{1}, Iteration{start.iteration + 1}},
      steps_(start.steps),
      tokens_(start.tokens),
      checkpoints_(checkpoints),
      deadline_(now + topology.timeouts.stage) {}

std::vector<CoordinatorEffect> CoordinatorMachine::step(const CoordinatorEvent& event, Instant now) {
  std::vector<CoordinatorEffect> effects;
  std::visit([&](const auto& e) { on(e, now, effects); }, event);
  return effects;
}

std::optional<Instant> CoordinatorMachine::deadline() const {
  if (phase_ == Phase::ended) return std::nullopt;
  return probe_at_ ? std::min(*probe_at_, deadline_) : deadline_;
}

void CoordinatorMachine::on(const Joined& x, Instant now, std::vector<CoordinatorEffect>& effects) {
  joined_.insert(x.place);
  if (phase_ == Phase::joining && joined_.size() == places_.size()) open(Decision{}, now, now, effects);
}

void CoordinatorMachine::open(Decision decision, Instant due, Instant now, std::vector<CoordinatorEffect>& effects) {
  const bool last = stop_asked_ || key_.iteration.value > topology_.job.iterations;
  phase_ = last ? Phase::reporting : Phase::running;
  ready_.clear();
  states_.clear();
  opened_due_ = due;
  opened_at_ = now;
  deadline_ = now + topology_.timeouts.iteration;
  probe_at_ = now + topology_.timeouts.operation;
  if (proposal_ && !last) {
    ++key_.epoch.value;
    effects.emplace_back(Adopt{key_, *std::exchange(proposal_, std::nullopt)});
  }
  // The first Open of a run decides nothing: what it would save is what the run began with.
  const bool save = decision.kind != Decision::Kind::none && wants_checkpoint(last);
  if (save) {
    saving_.insert(key_);
    effects.emplace_back(Checkpoint{{key_, key_.iteration.value - 1, steps_, tokens_}});
  }
  effects.emplace_back(Broadcast{Open{key_, decision, last, save, due}});
}

// One at a time, but the last: whoever comes while another is being written waits for the next commit.
bool CoordinatorMachine::wants_checkpoint(bool last) {
  if (!checkpoints_) return false;
  if (last) return checkpoints_->every > 0 || stop_asked_;
  const bool due = checkpoints_->every > 0 && (key_.iteration.value - 1) % checkpoints_->every == 0;
  if (!due && !save_postponed_) return false;
  save_postponed_ = !saving_.empty();
  return !save_postponed_;
}

void CoordinatorMachine::on(const IterationReady& x, Instant now, std::vector<CoordinatorEffect>& effects) {
  if (phase_ != Phase::running || x.key != key_) return;
  STAGECRAFT_ASSERT(ready_.emplace(x.place, x).second, "{} was ready twice", name_of(x.place));
  if (ready_.size() == places_.size()) commit(now, effects);
}

// The one decision for all: step with a clip factor, or skip. Sums are exact, so it does not depend on who came first.
void CoordinatorMachine::commit(Instant now, std::vector<CoordinatorEffect>& effects) {
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
  effects.emplace_back(Commit{report});
  ++key_.iteration.value;
  open(decision, due, now, effects);
}

void CoordinatorMachine::on(const StageReport& x, Instant, std::vector<CoordinatorEffect>& effects) {
  if (phase_ != Phase::reporting || x.key != key_) return;
  states_[x.state.place] = x.state;
  maybe_end(effects);
}

void CoordinatorMachine::on(const CheckpointOutcome& x, Instant, std::vector<CoordinatorEffect>& effects) {
  saving_.erase(x.key);
  checkpoint_error_ = x.error;
  if (x.error.empty()) saved_ = x.iteration;
  maybe_end(effects);
}

void CoordinatorMachine::maybe_end(std::vector<CoordinatorEffect>& effects) {
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
  for (auto& [place, state] : states_) ended.states.push_back(std::move(state));
  effects.emplace_back(End{std::move(ended)});
}

// A plan is in force from an Open on, and a new epoch with it.
void CoordinatorMachine::on(const PlanProposal& x, Instant, std::vector<CoordinatorEffect>&) { proposal_ = x; }

// An iteration in flight is finished first: its commit sees the wish.
void CoordinatorMachine::on(const Stop&, Instant, std::vector<CoordinatorEffect>&) { stop_asked_ = true; }

// An iteration that is still open after the time of one operation is probed, in case one of them hangs; one that is
// open after its own time is given up, when the stages have said what they wait for.
void CoordinatorMachine::on(const Tick&, Instant now, std::vector<CoordinatorEffect>& effects) {
  if (phase_ == Phase::ended) return;
  if (now >= deadline_) {
    if (phase_ == Phase::asking) return give_up(effects);
    return ask(missing_text(), now, effects);
  }
  if (!probe_at_ || now < *probe_at_) return;
  probe_at_ = now + topology_.timeouts.operation;
  effects.emplace_back(AskAll{});
}

void CoordinatorMachine::ask(std::string why, Instant now, std::vector<CoordinatorEffect>& effects) {
  stuck_in_ = std::move(why);
  explanations_.clear();
  phase_ = Phase::asking;
  probe_at_.reset();
  deadline_ = now + patience;
  effects.emplace_back(AskAll{});
}

void CoordinatorMachine::on(const Explanation& x, Instant now, std::vector<CoordinatorEffect>& effects) {
  if (phase_ == Phase::ended) return;
  if (phase_ == Phase::asking) {
    explanations_[x.place] = x.text;
    if (explanations_.size() == places_.size()) give_up(effects);
  } else if (x.busy >= topology_.timeouts.operation) {
    ask(fmt::format("an operator of {} has been running for {}, it may take {}", name_of(x.place), format(x.busy),
                    format(topology_.timeouts.operation)),
        now, effects);
  }
}

std::string CoordinatorMachine::missing_text() const {
  std::vector<std::string> missing;
  if (phase_ == Phase::reporting && states_.size() == places_.size())
    return fmt::format("the checkpoint after iteration {} was not written within {}; see what its disk is doing",
                       key_.iteration.value - 1, format(topology_.timeouts.iteration));
  for (const Place p : places_) {
    const bool here = phase_ == Phase::joining   ? joined_.contains(p)
                      : phase_ == Phase::running ? ready_.contains(p)
                                                 : states_.contains(p);
    if (!here) missing.push_back(name_of(p));
  }
  if (phase_ == Phase::joining)
    return fmt::format("start-up did not end within {}; missing: {}", format(topology_.timeouts.stage),
                       fmt::join(missing, ", "));
  return fmt::format("iteration {} did not end within {}; not ready: {}", key_.iteration.value,
                     format(topology_.timeouts.iteration), fmt::join(missing, ", "));
}

void CoordinatorMachine::give_up(std::vector<CoordinatorEffect>& effects) {
  phase_ = Phase::ended;
  JobEnded ended;
  ended.ending = Ending::no_progress;
  ended.reason = stuck_in_;
  for (const Place p : places_) {
    const auto it = explanations_.find(p);
    ended.reason += fmt::format("\n  {}: {}", name_of(p), it == explanations_.end() ? "does not answer" : it->second);
  }
  effects.emplace_back(End{std::move(ended)});
}

}  // namespace stagecraft
