#include "actors/planner.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "actors/mailbox_completions.hpp"
#include "actors/routes.hpp"
#include "planning/bug.hpp"
#include "planning/replan.hpp"

namespace stagecraft {

namespace {

// The times of one chunk per stage, of the slowest replica; none while a kind has not run yet.
std::vector<OperatorTimes> times_of(const std::vector<StageProfile>& profile, std::uint32_t stages) {
  std::vector<OperatorTimes> times(stages);
  std::vector<bool> seen(stages, false);
  for (const StageProfile& p : profile) {
    if (p.forward.count == 0 || p.backward_input.count == 0 || p.backward_weight.count == 0) continue;
    OperatorTimes& t = times[p.place.stage.value];
    t.forward = std::max(t.forward, p.forward.median);
    t.backward_input = std::max(t.backward_input, p.backward_input.median);
    t.backward_weight = std::max(t.backward_weight, p.backward_weight.median);
    seen[p.place.stage.value] = true;
  }
  return std::find(seen.begin(), seen.end(), false) == seen.end() ? times : std::vector<OperatorTimes>{};
}

struct PlannerState {
  static inline const char* name = "planner";

  PlannerActor::pointer self = nullptr;
  JobRef job;
  RecorderActor recorder;
  PlannerWiring wiring;
  ReplanMachine machine;
  std::vector<PlanRequest> requests;  // per replica, within the limits of the first plan
  std::vector<PipelinePlan> present;  // per replica
  Stream* device = nullptr;
  std::uint64_t tickets = 0;
  std::shared_ptr<const JobPlan> plan;         // of the layout in force
  bool outdated = false;                       // the plan under way is for another layout
  Key key;                                     // of the iteration that is running
  std::vector<SlowLink> slow;                  // as far as the monitor has found
  std::optional<std::string> links_changed;    // and not been planned for: what was found
  std::string why;                             // the plan under way was wanted
  using Plans = std::vector<Replanned>;        // per replica
  std::shared_ptr<std::vector<Plans>> result;  // by preference; written on the device, read after its completion

  void on(PlannerWiring&& x) {
    wiring = std::move(x);
    device = &job->world.open_background_stream(
        "planner", std::make_unique<MailboxCompletions<PlannerActor>>(job->world, PlannerActor{self}));
  }
  void on(const IterationOpened& x) {
    key = x.key;
    post(self, job->world, wiring.monitor, AskWindow{x.key});
  }
  // What was measured and planned so far was of other chunks.
  void on(const LayoutInForce& x) {
    begin_with(x.plan);
    outdated = result != nullptr;
  }
  void on(SlowLinks&& x) {
    slow = std::move(x.links);
    links_changed = std::move(x.why);
    price_links();
  }
  void price_links() {
    for (std::size_t r = 0; r < requests.size(); ++r) {
      requests[r].forward_links = plan->requests[r].forward_links;
      requests[r].backward_links = plan->requests[r].backward_links;
      for (const SlowLink& link : slow) {
        auto& links = link.direction == Direction::forward ? requests[r].forward_links : requests[r].backward_links;
        links.resize(std::max<std::size_t>(links.size(), job->total_chunks() - 1));
        LinkCost& cost = links[link.boundary];
        cost.latency += link.latency;
        cost.occupancy += link.occupancy;
        if (link.rerouted) cost = over(Route::delegated, route_of(*job, link.boundary, link.direction), cost);
      }
    }
  }
  void begin_with(std::shared_ptr<const JobPlan> of_layout) {
    plan = std::move(of_layout);
    present = plan->replicas;
    requests = plan->requests;
    for (std::size_t r = 0; r < requests.size(); ++r) requests[r].limits = limits_of(present[r]);
    price_links();
    machine = ReplanMachine(plan->knows_times ? present.front().times : std::vector<OperatorTimes>{});
  }
  void on(const Window& x) {
    const auto times = times_of(x.stages, job->topology.pipeline.stages);
    if (result || times.empty()) return;
    auto reason = machine.step(times);
    if (links_changed) reason = std::exchange(links_changed, std::nullopt);
    if (!reason) return;
    why = std::move(*reason);
    result = std::make_shared<std::vector<Plans>>();
    // What is held during the delay of a slow link takes memory: as much as there is, or else what the first plan had.
    std::vector<std::vector<PlanRequest>> tries(1, requests);
    if (!slow.empty()) tries.insert(tries.begin(), requests);
    if (!slow.empty())
      for (PlanRequest& request : tries.front()) request.limits.clear();
    device->submit({++tickets, {}, {}, [tries, present = present, times, out = result] {
                      for (const std::vector<PlanRequest>& wanted : tries) {
                        out->emplace_back();
                        for (std::size_t r = 0; r < present.size(); ++r)
                          out->back().push_back(replan(wanted[r], present[r], times));
                      }
                    }});
  }
  void on(const OperatorDone& x) {
    STAGECRAFT_ASSERT(x.completion.ticket == tickets && result, "a plan came that nobody asked for");
    device->retire(x.completion.ticket);
    const auto tried = std::exchange(result, nullptr);
    if (!x.completion.error.empty()) throw Bug("planning failed: " + x.completion.error);
    if (std::exchange(outdated, false)) return;
    const auto has_paid = [](const Plans& each) {
      return std::any_of(each.begin(), each.end(), [](const Replanned& r) { return r.pays; });
    };
    auto plans =
        std::find_if(tried->begin(), tried->end(), [&](const Plans& each) { return has_paid(each) && fits(each); });
    if (plans == tried->end()) plans = std::prev(tried->end());
    const bool pays = has_paid(*plans), has_room = fits(*plans);
    note(fmt::format("{}: {}; {}", why, plans->front().reason,
                     !pays      ? "the present plan stays"
                     : has_room ? "in force from the next iteration on"
                                : "it needs more memory than there is, the present plan stays"));
    if (!pays || !has_room) return;
    for (std::size_t r = 0; r < plans->size(); ++r) {
      PipelinePlan& next = (*plans)[r].plan;
      for (StagePlan& stage : next.stages) {
        stage.rule = present[r].stages.front().rule;
        stage.free_weight_order = present[r].stages.front().free_weight_order;
      }
      present[r] = std::move(next);
    }
    post(self, job->world, wiring.coordinator, PlanProposal{present, plan->layers});
  }
  // Within the devices' memory, beside what does not change.
  bool fits(const std::vector<Replanned>& plans) const {
    for (const Place p : job->places()) {
      MemoryEstimate memory = plan->memory[p.replica.value][p.stage.value];
      memory.working = plans[p.replica.value].plan.forecast.peak_bytes[p.stage.value];
      const Bytes limit = job->topology.device(p).memory;
      if (limit.value > 0 && memory.total() > limit) return false;
    }
    return true;
  }
  void note(std::string text) {
    tell(self, recorder,
         Event{.kind = EventKind::planned, .at = job->world.now(), .key = key, .text = std::move(text)});
  }
};

PlannerActor::behavior_type planner_behavior(PlannerActor::stateful_pointer<PlannerState> self, JobRef job,
                                             RecorderActor recorder) {
  PlannerState& s = self->state;
  s.self = self;
  s.job = std::move(job);
  s.recorder = std::move(recorder);
  s.begin_with(std::shared_ptr<const JobPlan>(s.job, &s.job->plan));
  return behavior_of(PlannerActor{}, s);
}

}  // namespace

PlannerActor spawn_planner(JobRef job, RecorderActor recorder) {
  caf::actor_system& system = job->world.system();
  return system.spawn(planner_behavior, std::move(job), std::move(recorder));
}

}  // namespace stagecraft
