// The decisions of the coordinator as a pure value: who has joined, who is ready, what becomes of an iteration, when it
// has taken too long, and how it goes on after a loss. Event and time in, effects out. One owner; not thread-safe.
//
//   joining -> running -> ... -> running -> reporting -> ended        asking: a deadline has passed, what is going on?
//   after a loss: recovering (until others stand in) -> [searching for a checkpoint] -> running again, by a new epoch
#pragma once

#include <limits>
#include <map>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "actors/job.hpp"
#include "actors/messages.hpp"
#include "actors/recovery.hpp"
#include "actors/save_wishes.hpp"
#include "config/topology.hpp"

namespace stagecraft {

namespace coordinator_effect {
/// To the checkpointer, before the Open of the same key.
struct Checkpoint {
  BeginCheckpoint begin;
};
/// To every stage.
struct Broadcast {
  Open open;
  MoveId not_over;  ///< the move that is not, decided or not; 0: none
  Minutes minutes;
};
/// Recorded before anyone is told: iteration `report.iteration` is decided.
struct Commit {
  Key key;
  IterationReport report;
};
/// To every stage: what are you waiting for?
struct AskAll {};
struct End {
  JobEnded ended;
};
/// Before the Open of `key`: to every stage, its part of a new plan.
struct Adopt {
  Key key;
  PlanProposal plan;
};
/// Layers begin to move, have moved, or do not: to be recorded.
struct MoveTold {
  Key key;
  std::string text;
};
/// To the node: what became of a wish from outside.
struct Answer {
  WishAnswer answer;
};
/// To the planner: another layout is in force, and this was planned for it.
struct InForce {
  std::shared_ptr<const JobPlan> plan;
};
/// Somebody is lost: to be recorded.
struct Missed {
  Lost lost;
};
/// No iteration opens for a while, or again: to be recorded.
struct PauseTold {
  Key key;
  std::string text;
};
/// To the node: the plan in force; none: that with which the job began.
struct TellPlan {
  WishId wish;
  std::optional<PlanProposal> plan;
};
/// An iteration is begun again: why.
struct BeginAgain {
  Key key;
  std::string why;
};
}  // namespace coordinator_effect
/// `Replace` goes to the node, `FindCheckpoint` to the checkpointer, `Restore` to every stage and twin, `Lead` to the
/// twin of the stage that has the layers, `AskVote` to both ends.
using CoordinatorEffect =
    std::variant<coordinator_effect::Checkpoint, coordinator_effect::Broadcast, coordinator_effect::Commit,
                 coordinator_effect::AskAll, coordinator_effect::End, coordinator_effect::Adopt,
                 coordinator_effect::Missed, coordinator_effect::BeginAgain, coordinator_effect::MoveTold,
                 coordinator_effect::Answer, coordinator_effect::InForce, coordinator_effect::PauseTold,
                 coordinator_effect::TellPlan, move_effect::Lead, move_effect::AskVote, Replace, FindCheckpoint,
                 Restore>;
using CoordinatorEvent = std::variant<Joined, IterationReady, TwinReady, StageReport, CheckpointOutcome,
                                      CheckpointFound, PlanProposal, MoveProposal, MoveVote, KeepCheckpoint, Pause,
                                      Resume, AskWaits, AskPlan, Lost, Replaced, Stop, GiveUp, Tick, Explanation>;

class CoordinatorMachine {
 public:
  /// When to keep checkpoints: `every` as in CheckpointSpec.
  struct Checkpoints {
    std::uint32_t every = 0;
  };
  /// `places`: every stage actor of the job. Without `checkpoints` none is kept. `handed_out`: the state of `start`,
  /// where it goes to everyone with the first Open.
  CoordinatorMachine(const Topology& topology, std::vector<Place> places, Instant now,
                     std::optional<Checkpoints> checkpoints = {}, StartPoint start = {},
                     std::shared_ptr<const LoadedCheckpoint> handed_out = nullptr);

  /// Before the first event: it goes on where another one left, whose minutes these are. Then it waits for losses, if
  /// there are any, and for a Replaced, which may be empty.
  void take_over(const Minutes& minutes, Instant now);

  std::vector<CoordinatorEffect> step(const CoordinatorEvent& event, Instant now);
  /// When the machine wants its next Tick at the latest; empty once the job has ended.
  std::optional<Instant> deadline() const;

 private:
  enum class Phase : std::uint8_t { joining, running, reporting, asking, recovering, searching, ended };
  /// How an iteration comes to be opened: after the one before; after an abort; with the layers of a move.
  enum class Opening : std::uint8_t { next, again, moved };
  using Effects = std::vector<CoordinatorEffect>;

  void on(const Joined& x, Instant now, Effects& effects);
  void on(const IterationReady& x, Instant now, Effects& effects);
  void on(const TwinReady& x, Instant now, Effects& effects);
  void on(const StageReport& x, Instant now, Effects& effects);
  void on(const CheckpointOutcome& x, Instant now, Effects& effects);
  void on(const CheckpointFound& x, Instant now, Effects& effects);
  void on(const Lost& x, Instant now, Effects& effects);
  void on(const Replaced& x, Instant now, Effects& effects);
  void on(const PlanProposal& x, Instant now, Effects& effects);
  void on(const MoveProposal& x, Instant now, Effects& effects);
  void on(const MoveVote& x, Instant now, Effects& effects);
  void on(const KeepCheckpoint& x, Instant now, Effects& effects);
  void on(const Pause& x, Instant now, Effects& effects);
  void on(const Resume& x, Instant now, Effects& effects);
  void on(const AskWaits& x, Instant now, Effects& effects);
  void on(const AskPlan& x, Instant now, Effects& effects);
  void on(const GiveUp& x, Instant now, Effects& effects);
  void on(const Stop& x, Instant now, Effects& effects);
  void on(const Tick& x, Instant now, Effects& effects);
  void on(const Explanation& x, Instant now, Effects& effects);

  bool wants_checkpoint(bool last);
  bool saves_again(bool last);
  void maybe_open_first(Instant now, Effects& effects);
  void maybe_commit(Instant now, Effects& effects);
  void resume(Instant now, Effects& effects);
  void restart(const CheckpointFound& from, Instant now, Effects& effects);
  void begin_again(std::string why, Instant now, Effects& effects);
  void try_again(Instant now, Effects& effects);
  void open_at(Decision decision, Instant due, Instant now, Opening opening, Effects& effects);
  void maybe_end(Effects& effects);
  void commit(Instant now, Effects& effects, bool flips = false);
  /// What the move under way has to say when everything of an iteration is held.
  enum class MoveVerdict : std::uint8_t { none, wait, flip };
  MoveVerdict ask_move(Instant now, Effects& effects);
  void tell_move(const MoveEvent& event, Effects& effects);
  void refuse(const MoveProposal& x, const std::string& why, Effects& effects);
  void give_up_move(const move_effect::GiveUp& e, Effects& effects);
  void tell_of_move(const MoveProposal& x, WishAnswer answer, Effects& effects) const;
  void flip(Effects& effects);
  void look_at_move(Instant now, Effects& effects);
  bool pauses(Instant now, Effects& effects);
  void go_on(const std::string& why, Instant now, Effects& effects);
  std::string held_text() const;
  void tell_waits(Effects& effects);
  /// Who has not done yet what the phase waits for; of many only so many by name.
  std::string missing_list(std::size_t most = std::numeric_limits<std::size_t>::max()) const;
  Minutes minutes_of(const Open& open);
  void ask(std::string why, Instant now, Effects& effects);
  void give_up(Effects& effects);
  std::string missing_text() const;

  Topology topology_;
  std::vector<Place> places_;
  Phase phase_ = Phase::joining;
  Key key_{Epoch{1}, Iteration{1}};
  std::set<Place> joined_;
  std::map<Place, IterationReady> ready_;
  std::set<Place> twins_ready_;
  std::optional<CheckpointFound> restart_;  // where the job went back to: until the next commit, everyone begins there
  Decision decision_;                       // on the iteration before the present one
  Recovery recovery_;
  std::map<Place, StageState> states_;
  std::map<Place, std::string> explanations_;
  std::set<Place> stuck_;                 // asking: their operator takes too long
  std::uint64_t steps_ = 0, tokens_ = 0;  // optimizer steps and tokens so far
  std::optional<Checkpoints> checkpoints_;
  std::map<Key, Instant> saving_;  // checkpoints under way: since when
  bool save_postponed_ = false;    // one was due while another was under way
  SaveWishes save_wishes_;
  std::uint32_t saved_ = 0;       // iteration of the newest checkpoint of this run
  std::string checkpoint_error_;  // of the last one that was wanted
  bool stop_asked_ = false;
  std::optional<IterationReport> decided_;  // by the next Open
  std::optional<PlanProposal> proposal_;    // for the next Open
  std::optional<PlanProposal> plan_;        // in force, if it is not the first one
  Layout layout_;                           // in force
  MigrationMachine move_;
  std::optional<MoveProposal> moving_;  // the one that is under way, or was the last
  MoveId newest_move_;                  // that was begun or refused
  std::uint64_t moves_made_ = 0;
  std::optional<Instant> move_until_;        // when it is given up
  bool holds_ = false;                       // an iteration is complete and waits for votes
  std::shared_ptr<const JobPlan> laid_out_;  // the plan of the layout in force, if it is not the first one
  /// What people want: no other iteration before they say so.
  struct Pausing {
    bool wanted = false;
    std::vector<WishId> wishes;       // to be told when the iteration that runs is complete
    std::optional<Instant> since;     // it is complete, and held
    std::optional<Instant> began;     // of the whole pause, whoever was lost in it
    std::optional<Instant> ended_at;  // of the last pause
  } pausing_;
  /// What they ask: what does everyone wait for?
  struct Asking {
    std::vector<WishId> wishes;
    std::map<Place, Explanation> answers;
    std::optional<Instant> until;
  } waits_;
  Instant opened_due_{}, opened_at_{}, deadline_{};
  std::optional<Instant> probe_at_;  // when to ask whether an operator takes too long
  std::string stuck_in_;             // what had not ended when the deadline passed
  Phase asked_in_ = Phase::joining;  // asking: the phase that took too long
};

}  // namespace stagecraft
