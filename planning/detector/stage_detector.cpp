#include "planning/detector/stage_detector.hpp"

#include <algorithm>
#include <cmath>

#include "planning/detector/statistics.hpp"

namespace stagecraft {

namespace {

constexpr std::size_t fewest = 4;        // operators that a number is made of
constexpr double moving = 0.3;           // suspicion at which a level counts as on the move
constexpr double healthy_share = 0.975;  // of operators

LevelScale scale_of(const DetectorSettings& settings) {
  return {std::log1p(settings.smallest), settings.least_deviation};
}

}  // namespace

StageReading read_stage(const StageSamples& samples) {
  StageReading reading;
  for (std::size_t q = 0; q < 3; ++q) {
    double expected = 0;
    std::vector<double>& logs = reading.operators[q];
    for (const OperatorSample& sample : samples.operators[q]) {
      if (sample.took.count() <= 0) continue;
      const auto due = static_cast<double>(std::max<std::int64_t>(1, sample.expected.value_or(Duration(1)).count()));
      logs.push_back(std::log(static_cast<double>(sample.took.count()) / due));
      expected += due;
    }
    if (logs.size() < fewest) continue;
    reading.midmeans[q] = robust::midmean(robust::sorted(logs));
    reading.expected[q] = expected / static_cast<double>(logs.size());
  }
  return reading;
}

StageDetector::StageDetector(std::optional<std::uint32_t> stage) : stage_(stage) {
  if (stage) return;
  for (Kind& kind : kinds_) kind.stream = LevelStream(0);
}

void StageDetector::learn(Kind& kind, const std::vector<double>& operators, double midmean, const Look& look) {
  kind.stream.step(look.first, midmean, scale_of(look.settings), look.settings);
  if (blocks_ > look.settings.skipped) kind.healthy.insert(kind.healthy.end(), operators.begin(), operators.end());
  if (!kind.stream.calibrated()) return;
  kind.far = robust::quantile(robust::sorted(std::move(kind.healthy)), healthy_share) - kind.stream.reference();
  kind.healthy = {};
}

void StageDetector::step(const StageReading& reading, const std::array<double, 3>& common, const Look& look) {
  ++blocks_;
  std::optional<Iteration> start;
  double better = 0;
  for (std::size_t q = 0; q < 3; ++q) {
    if (!reading.midmeans[q]) continue;
    Kind& kind = kinds_[q];
    if (!kind.stream.calibrated()) {
      learn(kind, reading.operators[q], *reading.midmeans[q], look);
      continue;
    }
    for (const double y : reading.operators[q])
      kind.recent.add(look.first, y - common[q] - kind.stream.reference(), look.settings);
    const double value = *reading.midmeans[q] - common[q];
    const auto alarm = kind.stream.step(look.first, value, scale_of(look.settings), look.settings);
    if (!alarm) continue;
    if (!start || alarm->start < *start) start = alarm->start;
    better = std::min(better, alarm->to);
  }
  if (better < 0) {
    StageFinding faster = event(Finding::faster, *start, look);
    faster.size = -std::expm1(better);
    look.events.stages.push_back(faster);
  }
  if (start) tell(*start, look);
  if (stage_) look_for_bursts(reading, common, look);
}

// The mean of the kinds that are slow.
double StageDetector::size() const {
  double sum = 0, slow = 0;
  for (const Kind& kind : kinds_) {
    if (kind.stream.level() <= 0) continue;
    sum += std::expm1(kind.stream.level());
    ++slow;
  }
  return slow > 0 ? sum / slow : 0;
}

// A level has moved: says so where that is news.
void StageDetector::tell(Iteration start, const Look& look) {
  const double before = told_, now = size();
  const bool still_slow = before > 0 && now > 0;
  const double enough = std::max(look.settings.coarse * before, look.settings.smallest);
  if (volatility_.active() || (before == 0 && now == 0) || (still_slow && std::abs(now - before) < enough)) {
    if (volatility_.active()) told_ = now;
    return;
  }
  told_ = now;
  if (before == 0) start_ = start;
  StageFinding told = event(still_slow ? Finding::resize : now > 0 ? Finding::start : Finding::end, start, look);
  if (now == 0) told.size = before, told.kinds = told_kinds_;
  told_kinds_ = told.kinds;
  look.events.stages.push_back(told);
  if (still_slow) return;
  if (const auto first = volatility_.flap(start, look.settings)) turn_volatile(*first, look);
}

// Operators that are far above the present level; see LinkDetector.
void StageDetector::look_for_bursts(const StageReading& reading, const std::array<double, 3>& common,
                                    const Look& look) {
  bool calm = true;
  std::optional<Iteration> start;
  for (std::size_t q = 0; q < 3; ++q) {
    Kind& kind = kinds_[q];
    if (!reading.midmeans[q] || !kind.stream.calibrated()) continue;
    const std::vector<double>& operators = reading.operators[q];
    const double least = std::max({kind.stream.unit_now(scale_of(look.settings), look.settings),
                                   look.settings.far * kind.far, std::log1p(look.settings.far_operator)});
    const double above = common[q] + kind.stream.reference() + kind.stream.level() + least;
    const auto far = static_cast<std::size_t>(
        std::count_if(operators.begin(), operators.end(), [&](double y) { return y > above; }));
    calm = calm && kind.stream.suspicion() == 0 &&
           static_cast<double>(far) <= look.settings.calm_share * static_cast<double>(operators.size());
    if (look.held || kind.stream.suspicion() >= moving) continue;
    if (kind.counter.step(look.first, far, operators.size(), look.settings)) start = kind.counter.start();
  }
  if (volatility_.step(calm, look.settings)) {
    look.events.stages.push_back(event(Finding::turned_steady, start_, look));
  }
  if (start) turn_volatile(*start, look);
}

void StageDetector::turn_volatile(Iteration start, const Look& look) {
  for (Kind& kind : kinds_) kind.counter.reset();
  if (volatility_.active()) return;
  volatility_.begin();
  if (told_ == 0) start_ = start;
  look.events.stages.push_back(event(Finding::turned_volatile, start, look));
}

StageFinding StageDetector::event(Finding finding, Iteration start, const Look& look) const {
  StageFinding event;
  event.finding = finding;
  event.stage = stage_;
  event.start = start;
  event.at = look.last;
  event.size = told_;
  for (std::size_t q = 0; q < 3; ++q) {
    const LevelStream& stream = kinds_[q].stream;
    event.kinds[q] = stream.level() > 0;
    if (stream.calibrated())
      event.unit = std::max(event.unit, std::expm1(stream.unit(scale_of(look.settings), look.settings)));
  }
  event.spread = spread(start_);
  return event;
}

std::optional<double> StageDetector::excess(std::size_t kind, const StageReading& reading) const {
  const LevelStream& stream = kinds_[kind].stream;
  if (!stream.calibrated() || !reading.midmeans[kind]) return std::nullopt;
  return *reading.midmeans[kind] - stream.reference();
}

std::optional<double> StageDetector::healthy_time(const StageReading& reading) const {
  double sum = 0;
  for (std::size_t q = 0; q < 2; ++q) {
    if (!kinds_[q].stream.calibrated() || !reading.midmeans[q]) return std::nullopt;
    sum += std::exp(kinds_[q].stream.reference()) * reading.expected[q];
  }
  return sum / 2;
}

Spread<double> StageDetector::spread(Iteration start) const {
  const bool any = std::any_of(kinds_.begin(), kinds_.end(), [](const Kind& k) { return k.stream.level() > 0; });
  std::vector<double> samples;
  for (const Kind& kind : kinds_) {
    if (any && kind.stream.level() <= 0) continue;
    const std::vector<double> more = kind.recent.since(start);
    samples.insert(samples.end(), more.begin(), more.end());
  }
  if (samples.empty()) return {};
  samples = robust::sorted(std::move(samples));
  const auto at = [&](double q) { return std::expm1(robust::quantile(samples, q)); };
  return {at(0.5), at(0.9), at(0.99), samples.size()};
}

}  // namespace stagecraft
