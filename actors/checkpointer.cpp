#include "actors/checkpointer.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "actors/checkpointer_machine.hpp"
#include "actors/mailbox_completions.hpp"
#include "actors/state_view.hpp"
#include "model/checkpoint/set_aside.hpp"
#include "planning/bug.hpp"

namespace stagecraft {

namespace {

/// Bytes per second that the cost model believes a disk writes. Only the virtual world's clock depends on it.
constexpr std::uint64_t assumed_disk_rate = 1'000'000'000;

std::string layout_text(const PipelineSpec& p) {
  return fmt::format("{} stages x {} chunks x {} replicas", p.stages, p.chunks, p.replicas);
}

// What the states take on a disk, as the cost model charges it.
Duration write_time(const Arithmetic& arithmetic) {
  std::uint64_t bytes = 0;
  for (const ParameterInfo& p : arithmetic.parameters()) bytes += 3 * arithmetic.charged(p.group, p.elements()).value;
  return Duration{static_cast<std::int64_t>(bytes * (1'000'000'000 / assumed_disk_rate))};
}

// Those that are newer than the one found, and not sound, make room for what the run is about to save again. Where
// nothing can be read, the job begins anew: its bits are the same.
CheckpointFound find_newest(const Job& job, Key key) {
  CheckpointFound found{key, nullptr, {}};
  Disk& disk = job.world.disk();
  const std::string& folder = job.checkpoint->folder;
  const CheckpointChoice choice = newest_verified(disk, folder);
  std::vector<std::string> passed_over;
  for (const PassedOver& p : choice.passed_over) passed_over.push_back(fmt::format("{}: {}", p.path, p.why));
  if (choice.path) {
    auto loaded = load_checkpoint(disk, *choice.path, job.plan.arithmetic[0]->parameters());
    if (auto* checkpoint = std::get_if<LoadedCheckpoint>(&loaded)) {
      found.checkpoint = std::make_shared<LoadedCheckpoint>(std::move(*checkpoint));
    } else {
      passed_over.push_back(std::get<std::string>(loaded));
    }
  }
  const auto aside = set_aside_after(disk, folder, found.checkpoint ? found.checkpoint->info.iteration : 0);
  if (const auto* error = std::get_if<DiskError>(&aside)) passed_over.push_back(error->text());
  found.passed_over = fmt::format("{}", fmt::join(passed_over, "; "));
  return found;
}

struct CheckpointerState {
  static inline const char* name = "checkpointer";

  CheckpointerActor::pointer self = nullptr;
  JobRef job;
  RecorderActor recorder;
  CheckpointerWiring wiring;
  CheckpointerMachine machine{0};
  Stream* disk_stream = nullptr;
  std::map<Key, std::vector<StageState>> loans;
  Instant latest_loan{};
  std::uint64_t tickets = 0;
  std::shared_ptr<CheckpointStatus> outcome;  // written on the disk's device, read after its completion
  std::map<std::uint64_t, std::shared_ptr<CheckpointFound>> searches;  // so are these, by ticket

  void on(CheckpointerWiring&& x) {
    wiring = std::move(x);
    disk_stream = &job->world.open_background_stream(
        "checkpoints", std::make_unique<MailboxCompletions<CheckpointerActor>>(job->world, CheckpointerActor{self}));
  }
  void on(const BeginCheckpoint& x) {
    job->world.tell({RunEvent::saving, Iteration{x.iteration}, {}, {}});
    act(checkpointer_event::Begun{x});
  }
  void on(StateLoan&& x) {
    latest_loan = std::max(latest_loan, x.due);
    const Place place = x.state.place;
    loans[x.key].push_back(std::move(x.state));
    act(checkpointer_event::Lent{x.key, place});
  }
  void on(const NewStage& x) {
    const auto places = job->places();
    wiring.stages[static_cast<std::size_t>(std::find(places.begin(), places.end(), x.place) - places.begin())] =
        x.stage;
  }
  void on(const FindCheckpoint& x) {
    auto found = std::make_shared<CheckpointFound>(CheckpointFound{x.key, nullptr, {}});
    searches[++tickets] = found;
    disk_stream->submit({tickets, {}, write_time(*job->plan.arithmetic[0]), [job = job, found] {
                           *found = find_newest(*job, found->key);
                         }});
  }
  void on(const OperatorDone& x) {
    disk_stream->retire(x.completion.ticket);
    if (auto search = searches.extract(x.completion.ticket)) {
      if (!x.completion.error.empty()) search.mapped()->passed_over = x.completion.error;
      return post(self, job->world, wiring.coordinator, std::move(*search.mapped()));
    }
    const CheckpointStatus error = x.completion.error.empty() ? *outcome : x.completion.error;
    act(checkpointer_event::Written{error.value_or("")});
  }

  void act(const CheckpointerEvent& event) {
    for (const CheckpointerEffect& effect : machine.step(event))
      std::visit([this](const auto& e) { apply(e); }, effect);
  }
  void apply(const checkpointer_effect::Write& e) {
    auto states = std::make_shared<std::vector<StageState>>(loans.extract(e.begin.key).mapped());
    outcome = std::make_shared<CheckpointStatus>();
    const CheckpointInfo info{job->topology.job.name,
                              job->checkpoint->identity,
                              job->topology.training.optimizer,
                              e.begin.iteration,
                              e.begin.steps,
                              e.begin.tokens,
                              layout_text(job->topology.pipeline)};
    disk_stream->submit({++tickets, latest_loan, write_time(*job->plan.arithmetic[0]),
                         [job = job, out = outcome, states = std::move(states), info] {
                           *out = write_checkpoint(job->world.disk(), job->checkpoint->folder, info,
                                                   job->plan.arithmetic[0]->parameters(), view_of(*job, *states),
                                                   job->checkpoint->keep);
                           states->clear();
                         }});
  }
  void apply(const checkpointer_effect::Drop& e) {
    loans.erase(e.key);
    for (const StageActor& stage : wiring.stages) post(self, job->world, stage, LoanOver{e.key});
  }
  void apply(const checkpointer_effect::Finish& e) {
    tell(self, recorder,
         Event{.kind = EventKind::saved,
               .at = job->world.now(),
               .key = Key{e.begin.key.epoch, Iteration{e.begin.iteration}},
               .text = e.error});
    job->world.tell({RunEvent::saved, Iteration{e.begin.iteration}, {}, {}});
    for (const StageActor& stage : wiring.stages) post(self, job->world, stage, LoanOver{e.begin.key});
    post(self, job->world, wiring.coordinator, CheckpointOutcome{e.begin.key, e.begin.iteration, e.error});
  }
};

CheckpointerActor::behavior_type checkpointer_behavior(CheckpointerActor::stateful_pointer<CheckpointerState> self,
                                                       JobRef job, RecorderActor recorder) {
  CheckpointerState& s = self->state;
  s.self = self;
  s.job = std::move(job);
  s.recorder = std::move(recorder);
  s.machine = CheckpointerMachine(s.job->places().size());
  return behavior_of(CheckpointerActor{}, s);
}

}  // namespace

CheckpointerActor spawn_checkpointer(JobRef job, RecorderActor recorder) {
  caf::actor_system& system = job->world.system();
  return system.spawn(checkpointer_behavior, std::move(job), std::move(recorder));
}

}  // namespace stagecraft
