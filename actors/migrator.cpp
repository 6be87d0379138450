#include "actors/migrator.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <deque>

#include "actors/mailbox_completions.hpp"
#include "model/memory_check.hpp"
#include "planning/bug.hpp"
#include "planning/partition.hpp"

namespace stagecraft {

Planned plan_for(const Job& job, const Layout& layout) {
  Topology topology = job.topology;
  topology.pipeline.layout = layout;
  std::uint32_t credits = job.plan.replicas.front().credits;
  for (const PipelinePlan& replica : job.plan.replicas) credits = std::min(credits, replica.credits);
  topology.links.credits = credits;
  auto plan = std::make_shared<JobPlan>(plan_job(topology, job.controls));
  if (const auto shortages = memory_shortages(topology, *plan); !shortages.empty())
    return {nullptr, fmt::format("{}", fmt::join(shortages, "; "))};
  for (PipelinePlan& replica : plan->replicas)
    for (StagePlan& stage : replica.stages) stage.rule = job.plan.replicas.front().stages.front().rule;
  return {std::move(plan), {}};
}

namespace {

// What a move costs and brings, in numbers.
std::string numbers_of(const JobPlan& before, const JobPlan& after) {
  std::vector<std::string> memory;
  for (std::size_t s = 0; s < after.memory.front().size(); ++s)
    memory.push_back(
        fmt::format("{} -> {}", format(before.memory.front()[s].total()), format(after.memory.front()[s].total())));
  return fmt::format("forecast of an iteration {} -> {}, memory by stage {}",
                     format(before.replicas.front().forecast.makespan),
                     format(after.replicas.front().forecast.makespan), fmt::join(memory, ", "));
}

struct MigratorState {
  static inline const char* name = "migrator";

  MigratorActor::pointer self = nullptr;
  JobRef job;
  RecorderActor recorder;
  MigratorWiring wiring;
  Stream* device = nullptr;
  std::uint64_t tickets = 0;
  std::deque<Move> wishes;              // in the order in which they came
  std::optional<IterationOpened> news;  // of the coordinator, the newest
  std::shared_ptr<const JobPlan> plan;  // of the layout in force, as far as it is known here
  MoveId last;                          // that was proposed

  // the wish that is being planned for, or has been proposed
  struct Present {
    Move wish;
    Layout from, to;
    std::shared_ptr<Planned> planned;  // written on the device, read after its completion
    bool proposed = false;
  };
  std::optional<Present> present;

  void on(MigratorWiring&& x) {
    wiring = std::move(x);
    device = &job->world.open_background_stream(
        "migrator", std::make_unique<MailboxCompletions<MigratorActor>>(job->world, MigratorActor{self}));
  }
  void on(Move&& x) {
    wishes.push_back(std::move(x));
    next();
  }
  void on(IterationOpened&& x) {
    if (news && x.key < news->key) return;
    news = std::move(x);
    // A proposal is dealt with when the coordinator knows of it, and nothing is under way.
    if (present && present->proposed && news->newest == last && news->under_way == MoveId{}) {
      if (news->layout == present->to) plan = present->planned->plan;
      present.reset();
    }
    next();
  }
  void next() {
    if (present || !news || !device) return;
    const auto due =
        std::find_if(wishes.begin(), wishes.end(), [this](const Move& m) { return m.at <= news->key.iteration; });
    if (due == wishes.end()) return;
    Move wish = std::move(*due);
    wishes.erase(due);
    const auto layout = layout_of(wish);
    if (const auto* why = std::get_if<std::string>(&layout)) {
      refuse(wish, *why);
      return next();
    }
    begin(std::move(wish), std::get<Layout>(layout));
  }
  std::variant<Layout, std::string> layout_of(const Move& wish) const {
    const PipelineShape shape = job->topology.pipeline.shape();
    if (!job->topology.recovery.twins)
      return "the job keeps no twins, and a twin is what follows the layers before they move; set recovery.twins: true";
    if (wish.layout.empty()) return with_layers_moved(shape, news->layout, wish.layers, wish.to);
    if (const auto problem = check_layout(wish.layout, job->topology.model.layers, shape.total_chunks()))
      return problem->kind == LayoutProblem::Kind::length
                 ? fmt::format("expected a layout of {} chunks, got {} of {}", problem->expected, to_text(wish.layout),
                               problem->got)
                 : fmt::format("expected a layout of {} layers, got {} of {}", problem->expected, to_text(wish.layout),
                               problem->got);
    if (wish.layout == news->layout) return fmt::format("the layout is {} already", to_text(wish.layout));
    return wish.layout;
  }
  void refuse(const Move& wish, const std::string& why) {
    const std::string text =
        fmt::format("refused: {}; the layout {} stays. Asked for: {}", why, to_text(news->layout), text_of(wish));
    tell(self, recorder, Event{.kind = EventKind::migrated, .at = job->world.now(), .key = news->key, .text = text});
    if (wish.wish != WishId{}) tell(self, wiring.node, WishAnswer{WishAnswer::Fate::refused, wish.wish, text, {}, {}});
  }
  static std::string text_of(const Move& wish) {
    const std::string what = wish.layout.empty() ? fmt::format("{} to stage {}", to_text(wish.layers), wish.to.value)
                                                 : "layout " + to_text(wish.layout);
    return wish.why.empty() ? what : fmt::format("{} ({})", what, wish.why);
  }
  void begin(Move wish, Layout to) {
    present = Present{std::move(wish), news->layout, std::move(to), std::make_shared<Planned>(), false};
    device->submit({++tickets, {}, {}, [job = job, out = present->planned, layout = present->to] {
                      *out = plan_for(*job, layout);
                    }});
  }
  void on(const OperatorDone& x) {
    STAGECRAFT_ASSERT(present && x.completion.ticket == tickets, "a plan came that nobody asked for");
    device->retire(x.completion.ticket);
    if (!x.completion.error.empty()) throw Bug("planning for a move failed: " + x.completion.error);
    if (!present->planned->plan) {
      refuse(present->wish, present->planned->refusal);
      present.reset();
      return next();
    }
    propose();
  }
  void propose() {
    ++last.value;
    present->proposed = true;
    MoveProposal proposal;
    proposal.order = {last, transfers_between(job->topology.pipeline.shape(), present->from, present->to),
                      job->topology.pipeline.replicas};
    proposal.from = present->from;
    proposal.plan = present->planned->plan;
    proposal.wish = present->wish.wish;
    proposal.why = fmt::format("asked for: {}; {}", text_of(present->wish), numbers_of(*plan, *proposal.plan));
    if (proposal.order.transfers.empty()) {
      refuse(present->wish, "no layer would change its stage");
      present.reset();
      --last.value;
      return next();
    }
    post(self, job->world, wiring.coordinator, std::move(proposal));
  }
};

MigratorActor::behavior_type migrator_behavior(MigratorActor::stateful_pointer<MigratorState> self, JobRef job,
                                               RecorderActor recorder, MoveId newest) {
  MigratorState& s = self->state;
  s.self = self;
  s.job = std::move(job);
  s.recorder = std::move(recorder);
  s.last = newest;
  s.plan = std::shared_ptr<const JobPlan>(s.job, &s.job->plan);
  for (const Move& wish : s.job->moves) s.wishes.push_back(wish);
  return behavior_of(MigratorActor{}, s);
}

}  // namespace

MigratorActor spawn_migrator(JobRef job, RecorderActor recorder, MoveId newest) {
  caf::actor_system& system = job->world.system();
  return system.spawn(migrator_behavior, std::move(job), std::move(recorder), newest);
}

}  // namespace stagecraft
