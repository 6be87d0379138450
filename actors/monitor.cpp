#include "actors/monitor.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "actors/busy_times.hpp"
#include "actors/routes.hpp"
#include "actors/straggler_watch.hpp"

namespace stagecraft {

namespace {

// Sum over the run, and a ring of recent durations for the median.
struct Samples {
  static constexpr std::size_t kept = 512;
  std::uint64_t count = 0;
  Duration total{};
  std::vector<Duration> recent;

  void add(Duration time) {
    if (recent.size() < kept) {
      recent.push_back(time);
    } else {
      recent[count % kept] = time;
    }
    ++count;
    total += time;
  }
  StageProfile::Row row() const {
    if (recent.empty()) return {};
    std::vector<Duration> sorted = recent;
    const auto middle = sorted.begin() + static_cast<std::ptrdiff_t>(sorted.size() / 2);
    std::nth_element(sorted.begin(), middle, sorted.end());
    return {count, total, *middle};
  }
};

struct MonitorState {
  static inline const char* name = "monitor";

  MonitorActor::pointer self = nullptr;
  JobRef job;
  NodeActor node;
  RecorderActor recorder;
  PlannerActor planner;  // none: nobody asks for windows
  std::map<std::pair<std::uint32_t, Direction>, std::vector<LinkActor>> senders;
  Routes routes;
  std::optional<StragglerWatch> watch;
  BusyTimes busy;
  using ByPlace = std::map<Place, std::map<std::optional<OperatorKind>, Samples>>;
  ByPlace samples, window;  // of the run; since the planner asked last

  // A monitor in the place of another one does not know what that one had decided.
  void on(MonitorWiring&& x) {
    planner = std::move(x.planner);
    senders = std::move(x.senders);
    for (const auto& [way, ends] : senders)
      for (const LinkActor& end : ends) post(self, job->world, end, NewRoute{routes.of(way.first, way.second), {}});
  }
  void on(const Timings& x) {
    add(samples, x.timings);
    if (planner) add(window, x.timings);
    for (const Timing& timing : x.timings) {
      watch->add(timing);
      busy.add(timing);
    }
  }
  void on(const LinkTimings& x) {
    watch->add(x);
    if (const auto route = routes.add(x))
      post(self, job->world, senders[{x.boundary, x.direction}].at(x.replica.value), NewRoute{*route, {}});
  }
  void on(const IterationOpened& x) {
    busy.opened(x.key, job->world.now());
    const StragglerWatch::Found found = watch->opened(x);
    for (const std::string& text : found.texts)
      tell(self, recorder, Event{.kind = EventKind::straggler, .at = job->world.now(), .key = x.key, .text = text});
    std::vector<std::string> why = found.links ? found.texts : std::vector<std::string>{};
    for (const Routes::Change& change : routes.step(x.key.iteration)) {
      tell(self, recorder,
           Event{.kind = EventKind::rerouted, .at = job->world.now(), .key = x.key, .text = change.text});
      why.push_back(change.text);
      if (change.route == Route::direct) watch->well(change.boundary, change.direction);
      for (const LinkActor& end : senders[{change.boundary, change.direction}])
        post(self, job->world, end, NewRoute{change.route, {x.key.iteration.value + 1}});
    }
    if (!planner || why.empty()) return;
    std::vector<SlowLink> slow = watch->slow_links();
    routes.note_in(slow);
    post(self, job->world, planner, SlowLinks{std::move(slow), fmt::format("{}", fmt::join(why, "; "))});
  }
  void on(const AskTop& x) { tell(self, node, busy.table(x.wish)); }
  void on(const ChangeSetting& x) {
    DetectorSettings wanted = watch->settings();
    const double before = value_of(wanted, x.name);
    WishAnswer answer{WishAnswer::Fate::done, x.wish, {}, {}, {}, {}};
    if (x.name.empty()) {
      answer.text = "the thresholds of the straggler detector";
    } else if (!set_by_name(wanted, x.name, x.value)) {
      answer.fate = WishAnswer::Fate::refused;
      answer.text = fmt::format("{} is a whole number from 0 to 1000000, and can't be {}", x.name, x.value);
    } else if (const auto why = complaint(wanted)) {
      answer.fate = WishAnswer::Fate::refused;
      answer.text = *why;
    } else {
      watch->set(wanted);
      answer.text = fmt::format("{} was {} and is {} from the next iteration on", x.name, before, x.value);
      tell(self, recorder,
           Event{.kind = EventKind::set,
                 .at = job->world.now(),
                 .text = fmt::format("straggler detector: {}, {}", answer.text, x.who)});
    }
    for (const DetectorSetting& s : listed(watch->settings()))
      answer.rows.push_back({.who = std::string(s.name), .what = fmt::format("{}", s.value)});
    tell(self, node, std::move(answer));
  }
  static double value_of(const DetectorSettings& settings, std::string_view name) {
    for (const DetectorSetting& s : listed(settings))
      if (s.name == name) return s.value;
    return 0;
  }
  void on(const AskWindow& x) {
    tell(self, planner, Window{x.key, rows(window)});
    window.clear();
  }
  void on(const AskProfile&) { tell(self, node, Profile{rows(samples)}); }
  // They come by the dozen, and each dozen from one place.
  static void add(ByPlace& by_place, const std::vector<Timing>& timings) {
    auto at = by_place.end();
    for (const Timing& t : timings) {
      if (at == by_place.end() || at->first != t.place) at = by_place.try_emplace(t.place).first;
      at->second[t.kind].add(t.time);
    }
  }
  static std::vector<StageProfile> rows(ByPlace& by_place) {
    std::vector<StageProfile> profile;
    for (auto& [place, kinds] : by_place) {
      StageProfile stage;
      stage.place = place;
      stage.forward = kinds[OperatorKind::forward].row();
      stage.backward_input = kinds[OperatorKind::backward_input].row();
      stage.backward_weight = kinds[OperatorKind::backward_weight].row();
      stage.backward = kinds[OperatorKind::backward].row();
      stage.service = kinds[std::nullopt].row();
      profile.push_back(stage);
    }
    return profile;
  }
};

MonitorActor::behavior_type monitor_behavior(MonitorActor::stateful_pointer<MonitorState> self, JobRef job,
                                             NodeActor node, RecorderActor recorder) {
  MonitorState& s = self->state;
  s.self = self;
  s.job = std::move(job);
  s.node = std::move(node);
  s.recorder = std::move(recorder);
  s.routes = Routes(s.job->topology);
  s.watch.emplace(s.job->topology.pipeline.shape(), s.job->topology.pipeline.replicas);
  return behavior_of(MonitorActor{}, s);
}

}  // namespace

MonitorActor spawn_monitor(JobRef job, NodeActor node, RecorderActor recorder) {
  caf::actor_system& system = job->world.system();
  return system.spawn(monitor_behavior, std::move(job), std::move(node), std::move(recorder));
}

}  // namespace stagecraft
