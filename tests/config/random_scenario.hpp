// Scenarios by seed, as values: every one is legal by itself, and together they have everything that a file can say.
#pragma once

#include <string>
#include <utility>

#include "config/scenario.hpp"
#include "planning/random.hpp"

namespace stagecraft {

class RandomScenario {
 public:
  explicit RandomScenario(std::uint64_t seed) : draws_(seed, "scenarios") {}

  Scenario draw() {
    Scenario s;
    s.file = pick({"s.yaml", "a/s.yaml", "a/b/s.yaml", "/x/y/s.yaml"});
    s.topology = s.file[0] == '/' ? pick({"/t.yaml", "/x/t.yaml", "/x/y/z/t.yaml"})
                                  : pick({"t.yaml", "a/t.yaml", "a/b/t.yaml", "b/t.yaml", "/x/t.yaml"});
    s.name = line();
    if (coin()) s.shows = line();
    for (std::uint64_t n = below(3); n > 0; --n) s.set.push_back(line() + "=" + line());
    s.set_at.resize(s.set.size());
    if (coin()) s.world = ScenarioWorld::real;
    s.deadline = coin() ? usual_deadline(s.world) : time(3600);
    s.first_seed = coin() ? 1 : draws_.next() >> below(64);
    s.last_seed = s.first_seed + (coin() ? 0 : below(std::min<std::uint64_t>(1'000'000, ~s.first_seed)));
    for (std::uint64_t n = 1 + below(6); n > 0; --n) s.faults.push_back(fault(s));
    for (std::uint64_t n = below(3); n > 0; --n) s.moves.push_back(move());
    for (std::uint64_t n = below(6); n > 0; --n) s.expect.push_back(expectation(s));
    if (coin()) s.calm = Calm{{number(1000, 1'000'000'000)}, time(168 * 3600), {}};
    return s;
  }

 private:
  std::uint64_t below(std::uint64_t n) { return draws_.below(n); }
  bool coin() { return below(2) == 0; }
  std::uint32_t number(std::uint32_t low, std::uint32_t high) {
    return static_cast<std::uint32_t>(draws_.between(low, high));
  }
  std::string pick(std::initializer_list<const char*> words) { return *(words.begin() + below(words.size())); }
  double fraction() { return static_cast<double>(draws_.next() >> 11) * 0x1p-53; }

  // From 1us to so many seconds, round and odd ones, long and short.
  Duration time(std::int64_t seconds) {
    const Duration most = std::chrono::seconds(seconds);
    const Duration d{static_cast<std::int64_t>(below(static_cast<std::uint64_t>(most.count())) >> below(40))};
    const Duration unit = coin() ? Duration{1} : std::chrono::milliseconds(1);
    return std::max<Duration>(d / unit * unit, std::chrono::milliseconds(2));
  }
  std::string line() {
    std::string text = pick({"null", "plain", "1e3", "{ a: b }", "- x", "caf\xc3\xa9 # 3", "\"quoted\" \\", "~", "'"});
    return coin() ? text : text + pick({" ", ": ", "#", "!", "%", ", "}) + std::to_string(below(1000));
  }
  template <class I>
  std::optional<I> maybe(std::uint32_t low, std::uint32_t high) {
    if (coin()) return std::nullopt;
    return I{number(low, high)};
  }

  MoveSpec move() {
    MoveSpec m;
    m.iteration = {number(1, 1'000'000'000)};
    if (coin()) {
      for (std::uint64_t n = 1 + below(4); n > 0; --n) m.layout.push_back(number(0, 9));
      return m;
    }
    m.layers.begin = number(0, 99);
    m.layers.end = m.layers.begin + number(1, 5);
    m.to = {number(0, 9)};
    return m;
  }
  FaultSpec fault(const Scenario& s) {
    FaultSpec f;
    f.id = pick({"null", "true", "1e3", "slow", "a-b_c.d"}) + std::to_string(s.faults.size());
    do {
      f.kind = static_cast<FaultKind>(below(fault_kinds));
    } while (s.world == ScenarioWorld::real && !is_possible_in_real_world(f.kind));
    f.on = target(f.kind);
    f.trigger = trigger(s);
    if (!strikes_once(f.kind)) {
      const bool again = f.trigger.kind == Trigger::Kind::drawn && f.trigger.at_most > 1;
      if (coin()) f.time = time(3600);
      if (!f.time && (again || coin())) f.iterations = number(1, 1'000'000'000);
    }
    arguments(f);
    return f;
  }

  void arguments(FaultSpec& f) {
    using enum FaultKind;
    if (f.kind == reorder || (f.kind == delay && coin())) f.mean = time(3600);
    if (f.kind == delay && f.mean.count() == 0) f.constant = time(3600);
    if (f.kind == throttle || f.kind == slow) f.factor = coin() ? number(2, 1000) : 1.001 + 998 * fraction();
    if (f.kind == drop || f.kind == duplicate || f.kind == reorder)
      f.probability = coin() ? 1 : fraction() * (coin() ? 1e-9 : 1) + 1e-12;
    if (f.kind == skew) f.offset = coin() ? time(3600) : -time(3600);
    if (is_disk_fault(f.kind) && coin()) f.operation = number(1, 1'000'000);
  }

  FaultTarget target(FaultKind kind) {
    using enum FaultKind;
    FaultTarget t;
    const bool message = kind == drop || kind == duplicate || kind == reorder;
    if (is_disk_fault(kind)) t.kind = FaultTarget::Kind::disk;
    if (is_disk_fault(kind) || (message && coin())) return t;
    if (kind == skew || kind == partition) {
      t.kind = FaultTarget::Kind::nodes;
      t.node_names = {"n0"};
      if (kind == partition) t.node_names.emplace_back(pick({"n1", "null", "2"}));
      return t;
    }
    t.stage = {number(0, 1023)};
    t.replica = maybe<ReplicaId>(0, 255);
    t.kind = kind == kill && coin() ? FaultTarget::Kind::twin : FaultTarget::Kind::stage;
    if (kind == delay || kind == throttle || kind == link_down) {
      t.kind = FaultTarget::Kind::link;
      t.other = {number(0, 1023)};
      if (coin()) t.direction = coin() ? Direction::forward : Direction::backward;
    }
    return t;
  }

  // Before the calm and the deadline; the first fault of a file does not wait for a recovery from another one.
  Trigger trigger(const Scenario& s) {
    Trigger t;
    t.kind = static_cast<Trigger::Kind>(below(5));
    if (t.kind == Trigger::Kind::iteration) t.iteration = {number(1, 999)};
    if (t.kind == Trigger::Kind::time) t.time = std::min(time(600), s.deadline - std::chrono::microseconds(1));
    if (t.kind == Trigger::Kind::drawn) {
      t.time = time(168 * 3600);
      t.at_most = coin() ? usual_strikes : number(1, 1'000'000);
    }
    if (t.kind != Trigger::Kind::event) return t;
    EventPattern& e = t.event;
    do {
      e.event = static_cast<RunEvent>(below(run_events));
    } while (e.event == RunEvent::recovered && s.faults.empty());
    if (has_stage(e.event)) e.stage = maybe<StageId>(0, 1023);
    if (has_stage(e.event)) e.replica = maybe<ReplicaId>(0, 255);
    if (has_micro_batch(e.event)) e.micro_batch = maybe<MicroBatch>(0, 65535);
    e.iteration = maybe<Iteration>(1, 999);
    return t;
  }

  Expectation expectation(const Scenario& s) {
    using enum Expectation::Kind;
    Expectation e;
    e.kind = static_cast<Expectation::Kind>(below(expectation_kinds));
    const FaultSpec& f = s.faults[below(s.faults.size())];
    if (e.kind == iteration_time) measure(e, f);
    if (e.kind == progress || e.kind == shutdown) e.within = time(168 * 3600);
    if (e.kind == progress && coin()) e.fault = f.id;
    if (e.kind == progress) e.after = !e.fault.empty();
    if (e.kind == loss && coin()) e.tolerance = fraction() * (coin() ? 1e-9 : 1) + 1e-12;
    if (e.kind == never)
      for (std::uint64_t n = 1 + below(invariants); n > 0; --n) e.never.push_back(Invariant(below(invariants)));
    if (e.kind == committed || e.kind == checkpoint || e.kind == moved) e.at_least = number(1, 1'000'000'000);
    return e;
  }

  // Only where there is an iteration to look at.
  void measure(Expectation& e, const FaultSpec& f) {
    (coin() ? e.within.emplace(time(168 * 3600)), 0 : (e.ratio.emplace(coin() ? 1.1 : 1 + 999 * fraction()), 0));
    const bool ends = strikes_once(f.kind) || f.iterations || f.time;
    e.after = ends && coin();
    if (e.after || (!strikes_once(f.kind) && coin())) e.fault = f.id;
    if (e.fault.empty() || e.after) e.settle = coin() ? 0 : number(1, 1'000'000);
    if (e.fault.empty()) e.after = false;
  }

  Entropy draws_;
};

}  // namespace stagecraft
