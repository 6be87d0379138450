#include "actors/faults/judge.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "planning/bug.hpp"

namespace stagecraft {

namespace {

// The iterations that an expectation is about: [first, end).
struct IterationRange {
  std::uint32_t first = 1, end = 0;
};

const FaultMoment* moment_of(const ScenarioRecord& record, std::size_t fault, bool on) {
  const auto found = std::find_if(record.moments.begin(), record.moments.end(),
                                  [&](const FaultMoment& m) { return m.fault == fault && m.on == on; });
  return found == record.moments.end() ? nullptr : &*found;
}

std::size_t index_of(const Scenario& scenario, const std::string& id) {
  const auto found =
      std::find_if(scenario.faults.begin(), scenario.faults.end(), [&](const FaultSpec& f) { return f.id == id; });
  STAGECRAFT_ASSERT(found != scenario.faults.end(), "an expectation about the unknown fault {}", id);
  return static_cast<std::size_t>(found - scenario.faults.begin());
}

Duration mean_time(const RunResult& result, IterationRange window) {
  Duration sum{};
  std::int64_t count = 0;
  for (const IterationReport& i : result.iterations)
    if (i.iteration.value >= window.first && i.iteration.value < window.end) {
      sum += i.time;
      ++count;
    }
  return count == 0 ? Duration{} : sum / count;
}

class Judge {
 public:
  Judge(const Scenario& scenario, const ScenarioRecord& record, const RunResult& fault_free)
      : scenario_(scenario), record_(record), result_(record.result), fault_free_(fault_free) {}

  std::vector<Broken> broken() {
    always();
    for (const Expectation& e : scenario_.expect) expect(e);
    if (scenario_.calm) calm(*scenario_.calm);
    return std::move(broken_);
  }

 private:
  template <class... Args>
  void add(std::string what, Position at, fmt::format_string<Args...> text, Args&&... args) {
    broken_.push_back({std::move(what), fmt::format(text, std::forward<Args>(args)...), at});
  }
  static Position nowhere() {
    Position none;
    none.line = 0;
    return none;
  }

  void always() {
    for (const std::string& v : result_.violations) add("an invariant", nowhere(), "{}", v);
    if (!result_.log_error.empty()) add("the event log", nowhere(), "{}", result_.log_error);
    if (result_.ending != Ending::done)
      return add("the end", nowhere(), "the run did not end well: {}", result_.reason);
    const bool spoiled = std::any_of(scenario_.faults.begin(), scenario_.faults.end(),
                                     [](const FaultSpec& f) { return f.kind == FaultKind::nan; });
    if (!spoiled) same_bits("same bits", nowhere());
  }

  void same_bits(const std::string& what, Position at) {
    for (std::size_t i = 0; i < std::min(result_.iterations.size(), fault_free_.iterations.size()); ++i) {
      const IterationReport &mine = result_.iterations[i], &other = fault_free_.iterations[i];
      if (mine.loss == other.loss && mine.gradient_norm == other.gradient_norm) continue;
      return add(what, at, "iteration {}: loss {:a} and norm {:a}, without faults {:a} and {:a}", mine.iteration.value,
                 mine.loss, mine.gradient_norm, other.loss, other.gradient_norm);
    }
    if (result_.weights_sha256.empty()) return;  // a run that did not end well, as is said already
    if (result_.weights_sha256 != fault_free_.weights_sha256)
      add(what, at, "weights {}, without faults {}", result_.weights_sha256.substr(0, 16),
          fault_free_.weights_sha256.substr(0, 16));
    else if (result_.moments_sha256 != fault_free_.moments_sha256)
      add(what, at, "moments {}, without faults {}", result_.moments_sha256.substr(0, 16),
          fault_free_.moments_sha256.substr(0, 16));
  }

  void expect(const Expectation& e) {
    const std::string what(name_of(e.kind));
    switch (e.kind) {
      case Expectation::Kind::iteration_time:
        return iteration_time(e, what);
      case Expectation::Kind::progress:
        return progress(e, what);
      case Expectation::Kind::loss:
        return e.tolerance == 0 ? same_bits(what, e.at) : close_loss(e, what);
      case Expectation::Kind::never:
        return never(e, what);
      case Expectation::Kind::committed:
        if (result_.iterations.size() < e.at_least)
          add(what, e.at, "{} iterations, expected at least {}", result_.iterations.size(), e.at_least);
        return;
      case Expectation::Kind::checkpoint:
        if (record_.newest_checkpoint < e.at_least)
          add(what, e.at, "the newest sound checkpoint is {}, expected one after iteration {} or later",
              record_.newest_checkpoint == 0 ? "none"
                                             : fmt::format("that after iteration {}", record_.newest_checkpoint),
              e.at_least);
        return;
      case Expectation::Kind::moved:
        if (result_.moves < e.at_least)
          add(what, e.at, "{} moves were made, expected at least {}", result_.moves, e.at_least);
        return;
      case Expectation::Kind::shutdown:
        if (result_.shutdown > *e.within)
          add(what, e.at, "took {}, expected at most {}", format(result_.shutdown), format(*e.within));
        return;
    }
  }

  // Empty: the fault never struck, or has not healed.
  std::optional<IterationRange> window_of(const Expectation& e) const {
    const std::uint32_t past = static_cast<std::uint32_t>(result_.iterations.size()) + 1;
    if (e.fault.empty()) return IterationRange{1 + e.settle, past};
    const std::size_t fault = index_of(scenario_, e.fault);
    const FaultMoment* begin = moment_of(record_, fault, true);
    const FaultMoment* end = moment_of(record_, fault, false);
    if (!begin || (e.after && !end && !strikes_once(scenario_.faults[fault].kind))) return std::nullopt;
    if (e.after) return IterationRange{(end ? end : begin)->iteration.value + e.settle, past};
    return IterationRange{begin->iteration.value + e.settle, end ? end->iteration.value : past};
  }

  void iteration_time(const Expectation& e, const std::string& what) {
    const auto window = window_of(e);
    if (!window || window->first >= window->end)
      return add(what, e.at, "there is no iteration to look at: fault '{}' {}", e.fault,
                 window ? "left none after settling" : "did not strike, or did not heal");
    const Duration mean = mean_time(result_, *window);
    const Duration other = mean_time(fault_free_, *window);
    const Duration most =
        e.ratio ? Duration{static_cast<std::int64_t>(*e.ratio * static_cast<double>(other.count()))} : *e.within;
    if (mean > most)
      add(what, e.at, "{} on average over iterations {} to {}, expected at most {}; without faults {}", format(mean),
          window->first, window->end - 1, format(most), format(other));
  }

  void progress(const Expectation& e, const std::string& what) {
    if (e.fault.empty()) return every_iteration(1, *e.within, what, e.at);
    const std::size_t fault = index_of(scenario_, e.fault);
    if (!moment_of(record_, fault, true)) add(what, e.at, "fault '{}' did not strike", e.fault);
    for (const FaultMoment& m : record_.moments)
      if (m.fault == fault && m.on) after(m.at, *e.within, what, e.at, fmt::format("fault '{}' struck", e.fault));
  }
  // An iteration is committed in the time after `from`, unless the run was over before.
  void after(Instant from, Duration within, const std::string& what, Position at, const std::string& why) {
    const auto next = std::find_if(result_.iterations.begin(), result_.iterations.end(),
                                   [from](const IterationReport& i) { return i.at > from; });
    if (next == result_.iterations.end() && result_.ending == Ending::done) return;
    if (next == result_.iterations.end()) return add(what, at, "no iteration was committed after {}", why);
    if (next->at - from > within)
      add(what, at, "iteration {} was committed {} after {}, expected within {}", next->iteration.value,
          format(next->at - from), why, format(within));
  }

  void close_loss(const Expectation& e, const std::string& what) {
    for (std::size_t i = 0; i < std::min(result_.iterations.size(), fault_free_.iterations.size()); ++i) {
      const double mine = result_.iterations[i].loss, other = fault_free_.iterations[i].loss;
      if (std::abs(mine - other) <= e.tolerance * std::abs(other)) continue;
      return add(what, e.at, "iteration {}: {}, without faults {}", i + 1, mine, other);
    }
  }

  void never(const Expectation& e, const std::string& what) {
    for (const Invariant invariant : e.never)
      for (const std::string& v : result_.violations)
        if (v.starts_with(name_of(invariant))) add(fmt::format("{} {}", what, name_of(invariant)), e.at, "{}", v);
  }

  void calm(const Calm& c) { every_iteration(c.from.value, c.within, "calm", c.at); }
  void every_iteration(std::uint32_t from, Duration within, const std::string& what, Position at) {
    Instant before{};
    for (const IterationReport& i : result_.iterations) {
      if (i.iteration.value >= from && i.at - before > within)
        add(what, at, "iteration {} took {} from the one before, expected at most {}", i.iteration.value,
            format(i.at - before), format(within));
      before = i.at;
    }
  }

  const Scenario& scenario_;
  const ScenarioRecord& record_;
  const RunResult& result_;
  const RunResult& fault_free_;
  std::vector<Broken> broken_;
};

}  // namespace

std::vector<Broken> judge(const Scenario& scenario, const ScenarioRecord& record, const RunResult& fault_free) {
  return Judge(scenario, record, fault_free).broken();
}

}  // namespace stagecraft
