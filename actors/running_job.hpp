// A job that runs, as the thread that drives it sees it: what people may know of it, and what they may ask of it.
//
// Who knocks: run_job, which keeps it up to date, and whoever attends to people (RunOptions::attend). What it answers:
// nothing at once; a wish has its answer when it is done, refused or given up. What it never does: wait. On the thread
// that owns the world.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "actors/cast.hpp"
#include "actors/node.hpp"

namespace stagecraft {

class RunningJob {
 public:
  /// `job`, `cast` and `outbox` outlive it.
  RunningJob(const Job& job, const Cast& cast, Outbox& outbox);

  const Topology& topology() const { return job_.topology; }
  World& world() const { return job_.world; }
  /// Since the job began.
  Duration age() const { return job_.world.now() - began_; }
  /// Where it keeps its checkpoints; empty: nowhere.
  std::string checkpoint_folder() const { return job_.checkpoint ? job_.checkpoint->folder : std::string(); }
  /// The newest iteration that is committed; none: the first one is running.
  const std::optional<IterationReport>& newest() const { return newest_; }
  /// That is decided: of the iteration that runs, or of the next one.
  const Layout& layout() const { return layout_; }
  std::uint64_t moves() const { return moves_; }
  Outbox::Losses losses() const { return outbox_.losses(); }
  /// The actors of this process that work for the job: their names, and how many of each there have been.
  std::map<std::string, std::uint32_t> actors() const;
  /// The iteration after which this run began: 0, or that of a checkpoint.
  Iteration start() const { return {job_.start.iteration}; }

  /// Layers are to move; `wish.wish` and `wish.at` are set here.
  WishId move(Move wish);
  /// The state after the iteration that runs is to be kept.
  WishId keep_checkpoint();
  /// No other iteration is to open, and again; `who` asks for it.
  WishId pause(std::string who);
  WishId resume(std::string who);
  /// What everyone waits for, or spends its time on; the plan in force; what has happened (`query.wish` is set here).
  WishId ask_waits();
  WishId ask_top();
  WishId ask_plan();
  WishId ask_events(AskEvents query);
  /// A threshold of the straggler detector; no name: what all are.
  WishId change_setting(std::string name, double value, std::string who);
  /// A fault strikes, or is over (`id` empty: all). Only where the world has a board of faults.
  WishId inject(FaultSpec fault, std::string who);
  WishId heal(std::string id, std::string who);
  bool takes_faults() const { return static_cast<bool>(cast_.injector()); }
  /// The iteration that runs is to be the last one. May be called again.
  void stop();
  bool stopping() const { return stopping_; }
  /// It is held after an iteration, as it was asked to be.
  bool paused() const { return paused_; }
  /// When the newest pause has ended; none: there was none.
  const std::optional<Instant>& resumed() const { return resumed_; }
  /// All answers since the last call, in the order in which they came.
  std::vector<WishAnswer> take_answers();

  /// How it ended; null: it runs.
  const JobEnded* end() const { return end_ ? &*end_ : nullptr; }

  // For run_job.
  void note(const IterationReport& report);
  void note_end(const JobEnded& end);

 private:
  const Job& job_;
  const Cast& cast_;
  Outbox& outbox_;
  Instant began_;
  Layout layout_;
  std::uint64_t moves_ = 0;
  std::optional<IterationReport> newest_;
  WishId last_wish_;
  bool stopping_ = false, paused_ = false;
  std::set<WishId> pauses_, resumes_;  // that have no answer yet
  std::optional<Instant> resumed_;
  std::optional<JobEnded> end_;
};

}  // namespace stagecraft
