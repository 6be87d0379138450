#include "planning/reproduce/changing.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <numbers>
#include <optional>
#include <utility>

#include "planning/bug.hpp"
#include "planning/random.hpp"
#include "planning/replay.hpp"

namespace stagecraft::reproduce {

namespace {

constexpr Duration horizon = std::chrono::seconds(20);  // of the steps that one iteration is shown

// Strictly between 0 and 1.
double uniform(Entropy& draws) { return (static_cast<double>(draws.next() >> 11) + 0.5) * 0x1p-53; }

// To the microsecond: the last bits of the library's functions reach nothing.
Duration from_ms(double ms) { return std::chrono::microseconds(std::llround(std::max(ms, 0.0) * 1000)); }
double to_ms(Duration d) { return static_cast<double>(d.count()) / 1e6; }

template <class Draw>
DelayCourse course_of(Entropy& draws, const HoldTimes& holds, Instant end, const Draw& draw) {
  DelayCourse course;
  for (Instant now{}; now < end;) {
    course.push_back({now, draw()});
    now += Duration(static_cast<std::int64_t>(draws.between(static_cast<std::uint64_t>(holds.shortest.count()),
                                                            static_cast<std::uint64_t>(holds.longest.count()))));
  }
  return course;
}

std::size_t index_at(const DelayCourse& course, Instant now) {
  const auto next =
      std::upper_bound(course.begin(), course.end(), now, [](Instant at, const Hold& hold) { return at < hold.from; });
  return next == course.begin() ? 0 : static_cast<std::size_t>(next - course.begin()) - 1;
}

constexpr std::uint32_t past_iterations = 24;  // that `ours` looks at

using Plans = std::vector<StagePlan>;

class Run {
 public:
  Run(const ChangingSetting& changing, System system)
      : changing_(changing), system_(system), links_(links_of(believing(Duration{}), system)) {
    const bool is_ours = system == System::ours || system == System::hindsight;
    if (system != System::pipemorph)
      plans_ = {plan_for(believing(Duration{}), is_ours ? System::follow : system).plans};
    if (!is_ours) return;
    for (const Duration belief : changing.beliefs) plans_.push_back(plan_for(believing(belief), system).plans);
    if (system == System::ours) plans_ = {best_in_the_past()};
  }

  ChangingOutcome run(Duration fixed) {
    ChangingOutcome all;
    Instant now{};
    for (; now < changing_.span; ++all.iterations) {
      const Outcome outcome = iteration(now);
      all.activations = std::max(all.activations, outcome.activations);
      all.held = std::max(all.held, outcome.held);
      now += outcome.makespan + fixed;
    }
    if (all.iterations > 0) all.mean_ms = to_ms(now) / all.iterations;
    return all;
  }

 private:
  Setting believing(Duration delay) const {
    Setting setting = changing_.setting;
    setting.frugal = false;
    for (SlowLink& slow : setting.slow) slow.delay = delay;
    return setting;
  }
  Setting believing_in(Instant now) const {
    Setting setting = changing_.setting;
    for (std::size_t i = 0; i < setting.slow.size(); ++i) setting.slow[i].delay = delay_at(changing_.courses[i], now);
    return setting;
  }

  std::vector<std::vector<LinkStep>> steps_from(Instant now, const std::vector<DelayCourse>& courses) const {
    const Setting& setting = changing_.setting;
    std::vector<std::vector<LinkStep>> steps(setting.shape.stages - 1);
    for (std::size_t i = 0; i < setting.slow.size(); ++i) {
      const DelayCourse& course = courses[i];
      for (std::size_t k = index_at(course, now); k < course.size() && course[k].from < now + horizon; ++k) {
        LinkStep step{std::max(course[k].from - now, Instant{}), {}, {}};
        (setting.injection == Injection::latency ? step.latency : step.occupancy) = course[k].delay;
        steps[setting.slow[i].link].push_back(step);
      }
    }
    return steps;
  }

  Outcome iteration(Instant now) {
    if (system_ == System::pipemorph) plans_ = {plan_for(believing_in(now), system_).plans};
    std::optional<Outcome> best;
    SimulationInput input = simulation_of(links_, {});
    input.steps = steps_from(now, changing_.courses);
    for (const Plans& plans : plans_) {
      input.plans = plans;
      const Outcome outcome = outcome_of(input);
      if (!best || outcome.makespan < best->makespan) best = outcome;
    }
    STAGECRAFT_ASSERT(best.has_value(), "{} has no plan", name_of(system_));
    return *best;
  }

  // One iteration every second, so that they see different delays.
  const Plans& best_in_the_past() const {
    std::vector<Duration> sums(plans_.size());
    SimulationInput input = simulation_of(links_, {});
    for (std::uint32_t i = 0; i < past_iterations; ++i) {
      input.steps = steps_from(std::chrono::seconds(i), changing_.past);
      for (std::size_t k = 0; k < plans_.size(); ++k) {
        input.plans = plans_[k];
        sums[k] += outcome_of(input).makespan;
      }
    }
    return plans_[static_cast<std::size_t>(std::min_element(sums.begin(), sums.end()) - sums.begin())];
  }

  const ChangingSetting& changing_;
  System system_;
  PipelineProblem links_;
  std::vector<Plans> plans_;
};

}  // namespace

DelayCourse normal_course(std::uint64_t seed, std::string_view name, Duration mean, Duration deviation,
                          const HoldTimes& holds, Instant end) {
  Entropy draws(seed, name);
  return course_of(draws, holds, end, [&] {  // Box and Muller
    const double radius = std::sqrt(-2 * std::log(uniform(draws)));
    return from_ms(to_ms(mean) + to_ms(deviation) * radius * std::cos(2 * std::numbers::pi * uniform(draws)));
  });
}

DelayQuantiles::DelayQuantiles(double median_ms, double mean_ms, double p99_ms, double most_ms)
    : median_(median_ms), p99_(p99_ms), most_(most_ms), least_(0) {
  const double middle = 0.49 * (p99_ - median_) / std::log(p99_ / median_);
  const double top = 0.01 * (p99_ + most_) / 2;
  least_ = (mean_ms - middle - top) / 0.25 - median_;
  STAGECRAFT_ASSERT(least_ >= 0 && least_ <= median_, "no delays of that kind have a mean of {} ms", mean_ms);
}

double DelayQuantiles::at(double share) const {
  if (share <= 0.5) return least_ + (median_ - least_) * share / 0.5;
  if (share <= 0.99) return median_ * std::pow(p99_ / median_, (share - 0.5) / 0.49);
  return p99_ + (most_ - p99_) * (share - 0.99) / 0.01;
}

DelayCourse quantile_course(std::uint64_t seed, std::string_view name, const DelayQuantiles& quantiles,
                            const HoldTimes& holds, Instant end) {
  Entropy draws(seed, name);
  return course_of(draws, holds, end, [&] { return from_ms(quantiles.at(uniform(draws))); });
}

Duration delay_at(const DelayCourse& course, Instant now) { return course[index_at(course, now)].delay; }

ChangingOutcome play_changing(const ChangingSetting& changing, System system, Duration fixed) {
  const std::size_t links = changing.setting.slow.size();
  STAGECRAFT_ASSERT(changing.courses.size() == links && changing.past.size() == links,
                    "{} and {} courses for {} slow links", changing.courses.size(), changing.past.size(), links);
  return Run(changing, system).run(fixed);
}

}  // namespace stagecraft::reproduce
