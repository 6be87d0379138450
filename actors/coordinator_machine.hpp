// The decisions of the coordinator as a pure value: who has joined, who is ready, what becomes of an iteration, when it
// has taken too long. Event and time in, effects out. One owner; not thread-safe.
#pragma once

#include <map>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "actors/job.hpp"
#include "actors/messages.hpp"
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
};
/// Recorded before anyone is told: iteration `report.iteration` is decided.
struct Commit {
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
}  // namespace coordinator_effect
using CoordinatorEffect =
    std::variant<coordinator_effect::Checkpoint, coordinator_effect::Broadcast, coordinator_effect::Commit,
                 coordinator_effect::AskAll, coordinator_effect::End, coordinator_effect::Adopt>;
using CoordinatorEvent =
    std::variant<Joined, IterationReady, StageReport, CheckpointOutcome, PlanProposal, Stop, Tick, Explanation>;

class CoordinatorMachine {
 public:
  /// When to keep checkpoints: `every` as in CheckpointSpec.
  struct Checkpoints {
    std::uint32_t every = 0;
  };
  /// `places`: every stage actor of the job. Without `checkpoints` none is kept.
  CoordinatorMachine(const Topology& topology, std::vector<Place> places, Instant now,
                     std::optional<Checkpoints> checkpoints = {}, StartPoint start = {});

  std::vector<CoordinatorEffect> step(const CoordinatorEvent& event, Instant now);
  /// When the machine wants its next Tick at the latest; empty once the job has ended.
  std::optional<Instant> deadline() const;

 private:
  enum class Phase : std::uint8_t { joining, running, reporting, asking, ended };

  void on(const Joined& x, Instant now, std::vector<CoordinatorEffect>& effects);
  void on(const IterationReady& x, Instant now, std::vector<CoordinatorEffect>& effects);
  void on(const StageReport& x, Instant now, std::vector<CoordinatorEffect>& effects);
  void on(const CheckpointOutcome& x, Instant now, std::vector<CoordinatorEffect>& effects);
  void on(const PlanProposal& x, Instant now, std::vector<CoordinatorEffect>& effects);
  void on(const Stop& x, Instant now, std::vector<CoordinatorEffect>& effects);
  void on(const Tick& x, Instant now, std::vector<CoordinatorEffect>& effects);
  void on(const Explanation& x, Instant now, std::vector<CoordinatorEffect>& effects);

  bool wants_checkpoint(bool last);
  void maybe_end(std::vector<CoordinatorEffect>& effects);
  void open(Decision decision, Instant due, Instant now, std::vector<CoordinatorEffect>& effects);
  void commit(Instant now, std::vector<CoordinatorEffect>& effects);
  void ask(std::string why, Instant now, std::vector<CoordinatorEffect>& effects);
  void give_up(std::vector<CoordinatorEffect>& effects);
  std::string missing_text() const;

  Topology topology_;
  std::vector<Place> places_;
  Phase phase_ = Phase::joining;
  Key key_{Epoch{1}, Iteration{1}};
  std::set<Place> joined_;
  std::map<Place, IterationReady> ready_;
  std::map<Place, StageState> states_;
  std::map<Place, std::string> explanations_;
  std::uint64_t steps_ = 0, tokens_ = 0;  // optimizer steps and tokens so far
  std::optional<Checkpoints> checkpoints_;
  std::set<Key> saving_;          // checkpoints under way
  bool save_postponed_ = false;   // one was due while another was under way
  std::uint32_t saved_ = 0;       // iteration of the newest checkpoint of this run
  std::string checkpoint_error_;  // of the last one that was wanted
  bool stop_asked_ = false;
  std::optional<PlanProposal> proposal_;  // for the next Open
  Instant opened_due_{}, opened_at_{}, deadline_{};
  std::optional<Instant> probe_at_;  // when to ask whether an operator takes too long
  std::string stuck_in_;             // what had not ended when the deadline passed
};

}  // namespace stagecraft
