#include "actors/faults/swarm.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "actors/faults/draws.hpp"

namespace stagecraft {

namespace {

// Every fault that a run can survive without a change of bits. A NaN costs a step, so it is for scenarios of its own.
constexpr FaultKind survivable[] = {
    FaultKind::delay,     FaultKind::throttle,  FaultKind::drop,       FaultKind::duplicate, FaultKind::reorder,
    FaultKind::partition, FaultKind::link_down, FaultKind::pause,      FaultKind::kill,      FaultKind::slow,
    FaultKind::oom,       FaultKind::disk_full, FaultKind::torn_write, FaultKind::flip,      FaultKind::skew};

class Swarm {
 public:
  Swarm(const SwarmSpace& space, std::uint64_t seed) : space_(space), draws_(seed, "swarm") {}

  Scenario draw(std::uint64_t seed) {
    Scenario s;
    s.name = fmt::format("swarm {}", seed);
    s.topology = space_.topology;
    s.first_seed = s.last_seed = seed;
    draw_job(s);
    for (const FaultKind kind : survivable)
      if (possible(kind) && chance(draws_, 0.3)) draw_fault(s, kind);
    if (twins_ && chance(draws_, 0.25)) draw_pair(s);
    if (s.faults.empty()) draw_fault(s, FaultKind::kill);
    s.calm = Calm{{iterations_ * 7 / 10 + 1}, times(500), {}};
    s.deadline = times(100'000);
    Expectation all;
    all.kind = Expectation::Kind::committed;
    all.at_least = iterations_;
    s.expect.push_back(all);
    return s;
  }

 private:
  // So many iterations; never less than the format takes.
  Duration times(double factor) const {
    const Duration t{static_cast<std::int64_t>(factor * static_cast<double>(space_.iteration.count()))};
    return std::max(t, Duration{std::chrono::microseconds(1)});
  }
  std::uint32_t below(std::uint32_t n) { return static_cast<std::uint32_t>(draws_.below(n)); }
  void set(Scenario& s, std::string text) {
    s.set.push_back(std::move(text));
    s.set_at.emplace_back();
  }

  void draw_job(Scenario& s) {
    iterations_ = 6 + below(10);
    stages_ = 1 + below(std::min<std::uint32_t>(4, space_.base.model.layers));
    replicas_ = space_.base.training.logical_shards >= 2 ? 1 + below(2) : 1;
    twins_ = chance(draws_, 0.7);
    saves_ = chance(draws_, 0.5);
    set(s, fmt::format("job.iterations={}", iterations_));
    set(s, fmt::format("pipeline.stages={}", stages_));
    set(s, fmt::format("pipeline.replicas={}", replicas_));
    set(s, fmt::format("pipeline.dispatch={}", chance(draws_, 0.5) ? "reactive" : "static"));
    set(s, fmt::format("recovery.twins={}", twins_));
    set(s, "recovery.attempts=100");
    set(s, fmt::format("checkpoint.every={}", saves_ ? 1 + below(3) : 0));
    for (const auto& [key, factor] :
         {std::pair{"node", 400.0}, {"stage", 300.0}, {"iteration", 200.0}, {"operation", 100.0}})
      set(s, fmt::format("timeouts.{}={}ns", key, times(factor).count()));
  }

  bool possible(FaultKind kind) const {
    if (is_disk_fault(kind)) return saves_;
    if (kind == FaultKind::partition) return space_.base.nodes.size() > 1;
    const bool of_link = kind == FaultKind::delay || kind == FaultKind::throttle || kind == FaultKind::link_down;
    return !of_link || stages_ > 1;
  }

  void draw_fault(Scenario& s, FaultKind kind) {
    FaultSpec f;
    f.kind = kind;
    f.id = fmt::format("{}-{}", name_of(kind), s.faults.size());
    f.on = target(kind);
    f.trigger = trigger(kind);
    if (!strikes_once(kind)) f.time = times(std::max(0.01, 3 * unit_draw(draws_)));
    if (kind == FaultKind::pause && chance(draws_, 0.2)) f.time = times(150);  // longer than an operator may take
    if (kind == FaultKind::delay || kind == FaultKind::reorder) f.mean = times(0.001 + 0.5 * unit_draw(draws_));
    if (kind == FaultKind::slow || kind == FaultKind::throttle) f.factor = 1.2 + 8 * unit_draw(draws_);
    if (kind == FaultKind::drop) f.probability = 0.05 * unit_draw(draws_);
    if (kind == FaultKind::duplicate || kind == FaultKind::reorder) f.probability = 0.5 * unit_draw(draws_);
    if (kind == FaultKind::skew) f.offset = chance(draws_, 0.5) ? times(1000) : -times(1000);
    if (is_disk_fault(kind)) f.operation = 1 + below(12);
    s.faults.push_back(std::move(f));
  }

  // A twin, and soon after it the stage whose state it has: at once, or when a new twin has just taken over.
  void draw_pair(Scenario& s) {
    const StageId stage{below(stages_)};
    const ReplicaId replica{below(replicas_)};
    const std::uint32_t first = 1 + below(iterations_ / 2), gap = below(2);
    for (const bool of_twin : {true, false}) {
      FaultSpec f;
      f.kind = FaultKind::kill;
      f.id = of_twin ? "twin-of-pair" : "stage-of-pair";
      f.on.kind = of_twin ? FaultTarget::Kind::twin : FaultTarget::Kind::stage;
      f.on.stage = stage;
      f.on.replica = replica;
      f.trigger.kind = Trigger::Kind::iteration;
      f.trigger.iteration = Iteration{first + (of_twin ? 0 : gap)};
      s.faults.push_back(std::move(f));
    }
  }

  FaultTarget target(FaultKind kind) {
    FaultTarget t;
    switch (kind) {
      case FaultKind::drop:
      case FaultKind::duplicate:
      case FaultKind::reorder:
        if (chance(draws_, 0.5)) return t;  // the whole job
        break;
      case FaultKind::delay:
      case FaultKind::throttle:
      case FaultKind::link_down:
        t.kind = FaultTarget::Kind::link;
        t.stage = StageId{below(stages_ - 1)};
        t.other = StageId{t.stage.value + 1};
        if (chance(draws_, 0.5)) t.direction = chance(draws_, 0.5) ? Direction::forward : Direction::backward;
        return t;
      case FaultKind::partition:
        t.kind = FaultTarget::Kind::nodes;
        t.nodes = {0, 1};
        t.node_names = {space_.base.nodes[0].name, space_.base.nodes[1].name};
        return t;
      case FaultKind::skew:
        t.kind = FaultTarget::Kind::nodes;
        t.nodes = {below(static_cast<std::uint32_t>(space_.base.nodes.size()))};
        t.node_names = {space_.base.nodes[t.nodes[0]].name};
        return t;
      case FaultKind::disk_full:
      case FaultKind::torn_write:
      case FaultKind::flip:
        t.kind = FaultTarget::Kind::disk;
        return t;
      default:
        break;
    }
    t.kind =
        kind == FaultKind::kill && twins_ && chance(draws_, 0.3) ? FaultTarget::Kind::twin : FaultTarget::Kind::stage;
    t.stage = StageId{below(stages_)};
    t.replica = ReplicaId{below(replicas_)};
    return t;
  }

  Trigger trigger(FaultKind kind) {
    Trigger t;
    const std::uint32_t last = iterations_ * 7 / 10;
    const double which = unit_draw(draws_);
    if (which < 0.2) {
      t.kind = Trigger::Kind::iteration;
      t.iteration = Iteration{1 + below(last)};
    } else if (which < 0.4) {
      t.kind = Trigger::Kind::time;
      t.time = times(unit_draw(draws_) * last);
    } else if (which < 0.7) {
      t.kind = Trigger::Kind::event;
      static constexpr RunEvent events[] = {RunEvent::forward_started, RunEvent::backward_done, RunEvent::reduce_done,
                                            RunEvent::ready,           RunEvent::stepped,       RunEvent::committed};
      t.event.event = events[below(std::size(events))];
      if (has_stage(t.event.event)) t.event.stage = StageId{below(stages_)};
      t.event.iteration = Iteration{1 + below(last)};
    } else {
      t.kind = Trigger::Kind::drawn;
      t.time = times(1 + 4 * unit_draw(draws_));
      t.at_most = is_disk_fault(kind) ? 1 + below(6) : 1 + below(4);
    }
    return t;
  }

  const SwarmSpace& space_;
  Entropy draws_;
  std::uint32_t iterations_ = 1, stages_ = 1, replicas_ = 1;
  bool twins_ = false, saves_ = false;
};

// The value of the last override of a key, if it is a number.
std::optional<std::uint32_t> number_of(const Scenario& s, const std::string& key) {
  for (auto it = s.set.rbegin(); it != s.set.rend(); ++it) {
    if (!it->starts_with(key + "=")) continue;
    std::uint32_t value = 0;
    const char* begin = it->data() + key.size() + 1;
    if (std::from_chars(begin, it->data() + it->size(), value).ec == std::errc()) return value;
  }
  return std::nullopt;
}

Scenario with(Scenario s, const std::string& key, std::uint32_t value) {
  std::erase_if(s.set, [&](const std::string& text) { return text.starts_with(key + "="); });
  s.set.push_back(fmt::format("{}={}", key, value));
  s.set_at.assign(s.set.size(), {});
  return s;
}

}  // namespace

Scenario draw_swarm(const SwarmSpace& space, std::uint64_t seed) { return Swarm(space, seed).draw(seed); }

Scenario shrink(Scenario scenario, const Topology& topology, const std::function<bool(const Scenario&)>& fails,
                std::uint32_t tries) {
  const auto still_fails = [&](const Scenario& smaller) {
    if (tries == 0) return false;
    --tries;
    return fails(smaller);
  };
  for (std::size_t i = 0; i < scenario.faults.size();) {
    Scenario smaller = scenario;
    const std::string id = smaller.faults[i].id;
    smaller.faults.erase(smaller.faults.begin() + static_cast<std::ptrdiff_t>(i));
    std::erase_if(smaller.expect, [&](const Expectation& e) { return e.fault == id; });
    if (still_fails(smaller)) {
      scenario = std::move(smaller);
    } else {
      ++i;
    }
  }
  struct Number {
    std::string key;
    std::uint32_t now;
  };
  for (Number n :
       {Number{"job.iterations", topology.job.iterations}, Number{"pipeline.replicas", topology.pipeline.replicas},
        Number{"pipeline.stages", topology.pipeline.stages}}) {
    n.now = number_of(scenario, n.key).value_or(n.now);
    while (n.now > 1) {
      const std::uint32_t next = n.key == "job.iterations" ? n.now * 2 / 3 : n.now - 1;
      Scenario smaller = with(scenario, n.key, next);
      if (!still_fails(smaller)) break;
      scenario = std::move(smaller);
      n.now = next;
    }
  }
  return scenario;
}

}  // namespace stagecraft
