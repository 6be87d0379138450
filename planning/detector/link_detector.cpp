#include "planning/detector/link_detector.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "planning/detector/statistics.hpp"

namespace stagecraft {

namespace {

constexpr std::size_t remembered = 8;    // blocks of history
constexpr double moving = 0.3;           // suspicion at which a level counts as on the move
constexpr double healthy_share = 0.975;  // of messages
constexpr double unrest_kept = 0.9;      // per block
constexpr std::array<Direction, 2> both{Direction::forward, Direction::backward};

std::size_t index(Direction direction) { return static_cast<std::size_t>(direction); }
Duration duration(double ns) { return Duration(std::llround(ns)); }

// What one-way delays are above the least of their block. The second smallest: one stamp may be wrong.
double unrest_of(const std::vector<double>& one_ways) {
  std::vector<double> sorted = one_ways;
  std::nth_element(sorted.begin(), sorted.begin() + 1, sorted.end());
  double sum = 0;
  for (const double value : one_ways) sum += std::max(0.0, value - sorted[1]);
  return sum;
}

std::optional<double> mean(const std::vector<double>& values) {
  if (values.empty()) return std::nullopt;
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

}  // namespace

void LinkDetector::step(const LinkSamples& samples, double operator_time, const Look& look) {
  for (std::size_t d = 0; d < 2; ++d)
    if (healthy_.bytes[d] == 0) healthy_.bytes[d] = reference_bytes(samples.messages[d]);
  const std::optional<LinkReading> reading = read_link(look.first, samples, healthy_);
  if (!reading) return;
  scale_ = {look.settings.smallest * operator_time, look.settings.least_deviation * operator_time};
  if (!learned_) return learn(*reading, look);
  if (operator_time <= 0) return;
  const std::array<double, 2> healthy{ways_[0].round_trip.reference(), ways_[1].round_trip.reference()};
  const std::optional<Iteration> start = feed(*reading, look);
  remember(*reading, look);
  if (start) {
    change(*start, healthy, look);
  } else if (!suspected()) {
    look_at_clocks(*reading, look);
  }
  look_for_bursts(*reading, look);
}

void LinkDetector::learn(const LinkReading& reading, const Look& look) {
  const bool counts = calibration_.blocks++ >= look.settings.skipped;
  for (std::size_t d = 0; d < 2; ++d) {
    Way& way = ways_[d];
    way.round_trip.step(reading.at, reading.round_trip[d], scale_, look.settings);
    if (reading.size_term[d]) way.size_term.step(reading.at, *reading.size_term[d], scale_, look.settings);
    if (!counts) continue;
    const std::vector<double>& messages = reading.round_trips[d];
    calibration_.round_trips[d].insert(calibration_.round_trips[d].end(), messages.begin(), messages.end());
    if (reading.service[d]) calibration_.services[d].push_back(*reading.service[d]);
    way.healthy_unrest += unrest_of(reading.one_ways[d]) / look.settings.calibration;
  }
  if (counts) ring_.add(reading.at, reading.one_way);
  if (!ways_[0].round_trip.calibrated()) return;
  for (std::size_t d = 0; d < 2; ++d) {
    Way& way = ways_[d];
    const std::vector<double> messages = robust::sorted(std::move(calibration_.round_trips[d]));
    way.far = robust::quantile(messages, healthy_share) - way.round_trip.reference();
    way.unrest = way.healthy_unrest / (1 - unrest_kept);
    healthy_.service[d] = way.size_term.reference();
    if (std::vector<double>& services = calibration_.services[d]; 2 * services.size() >= look.settings.calibration)
      healthy_.service[d] = robust::median(robust::sorted(std::move(services)));
  }
  calibration_ = {};
  learned_ = true;
}

// Since when something has changed, if a stream says so.
std::optional<Iteration> LinkDetector::feed(const LinkReading& reading, const Look& look) {
  std::optional<Iteration> start;
  const auto step = [&](LevelStream& stream, double value) {
    const auto alarm = stream.step(reading.at, value, scale_, look.settings);
    if (alarm && (!start || alarm->start < *start)) start = alarm->start;
  };
  for (std::size_t d = 0; d < 2; ++d) {
    step(ways_[d].round_trip, reading.round_trip[d]);
    if (reading.size_term[d]) step(ways_[d].size_term, *reading.size_term[d]);
  }
  return start;
}

void LinkDetector::remember(const LinkReading& reading, const Look& look) {
  for (std::size_t d = 0; d < 2; ++d) {
    Way& way = ways_[d];
    for (const double r : reading.round_trips[d])
      way.recent.add(reading.at, r - way.round_trip.reference(), look.settings);
  }
  history_.push_back(reading);
  history_.back().round_trips = {};
  history_.back().one_ways = {};
  if (history_.size() > remembered) history_.pop_front();
}

bool LinkDetector::suspected() const {
  return std::any_of(ways_.begin(), ways_.end(),
                     [](const Way& way) { return way.round_trip.suspicion() > 0 || way.size_term.suspicion() > 0; });
}

double LinkDetector::unit(const Look& look) const {
  return std::max(ways_[0].round_trip.unit(scale_, look.settings), ways_[1].round_trip.unit(scale_, look.settings));
}

// Over the blocks after the one that the change most likely began within.
LinkDetector::Means LinkDetector::means_of_change(Iteration start) const {
  Means means;
  for (std::size_t d = 0; d < 2; ++d) {
    std::vector<double> round_trips, moved, size_terms, services;
    for (const LinkReading& block : history_) {
      if (block.at <= start) continue;
      round_trips.push_back(block.round_trip[d]);
      moved.push_back(block.one_way[d] - ring_.expected(block.at, start)[d]);
      if (block.size_term[d]) size_terms.push_back(*block.size_term[d]);
      if (block.service[d]) services.push_back(*block.service[d]);
    }
    means.blocks = round_trips.size();
    means.round_trip[d] = mean(round_trips).value();
    means.moved[d] = mean(moved).value();
    means.size_term[d] = mean(size_terms);
    means.service[d] = mean(services);
  }
  return means;
}

// A delay can't fall below healthy: if one seems to, a clock has stepped in the same iteration. What the two have
// together is right whatever the clocks do.
void LinkDetector::move_levels(const Means& means, const Look& look) {
  const double half = unit(look) / 2;
  for (std::size_t d = 0; d < 2; ++d) {
    Way& way = ways_[d];
    way.level += means.moved[d];
    way.round_trip.settle(means.round_trip[d] - way.round_trip.reference(), means.blocks, scale_, look.settings);
    if (means.size_term[d])
      way.size_term.settle(*means.size_term[d] - way.size_term.reference(), means.blocks, scale_, look.settings);
  }
  for (std::size_t d = 0; d < 2; ++d) {
    if (ways_[d].level >= -half) continue;
    ways_[1 - d].level += ways_[d].level;
    ways_[d].level = 0;
  }
  const bool healthy = ways_[0].round_trip.level() == 0 && ways_[1].round_trip.level() == 0;
  for (Way& way : ways_)
    if (healthy || way.level < half) way.level = 0;
}

// Of one message. A wire that needs no longer for a tensor than in health is not slow, however long its queue.
double LinkDetector::size_of(std::size_t direction, const std::optional<double>& service, const Look& look) {
  Way& way = ways_[direction];
  const double term = way.size_term.level();
  if (way.level == 0) return 0;
  if (!way.size_term.calibrated()) return way.kind = DelayKind::unknown, way.level;
  if (term <= way.level / 2) return way.kind = DelayKind::latency, way.level;
  way.kind = DelayKind::occupancy;
  if (!service) return term;
  const double size = *service - healthy_.service[direction];
  return size < unit(look) / 2 ? 0 : size;
}

void LinkDetector::change(Iteration start, const std::array<double, 2>& healthy, const Look& look) {
  const Means means = means_of_change(start);
  move_levels(means, look);
  const double better =
      std::max(healthy[0] - ways_[0].round_trip.reference(), healthy[1] - ways_[1].round_trip.reference());
  if (better >= unit(look) / 2) {
    LinkFinding faster = event(Finding::faster, {}, start, look);
    faster.size = duration(better);
    look.events.links.push_back(faster);
  }
  for (const Direction d : both) {
    Way& w = way(d);
    const double size = size_of(index(d), means.service[index(d)], look);
    LinkFinding told = event(Finding::resize, d, start, look);
    told.round_trip = duration(means.round_trip[index(d)] - healthy[index(d)]);
    told.one_way = duration(means.moved[index(d)]);
    told.size_term = duration(w.size_term.level());
    tell(d, start, size, told, look);
  }
  ring_.clear();
  for (const LinkReading& block : history_)
    if (block.at > start) ring_.add(block.at, block.one_way);
}

// `size`: of a message now. Says so where that is news.
void LinkDetector::tell(Direction direction, Iteration start, double size, LinkFinding event, const Look& look) {
  Way& w = way(direction);
  const double before = w.told;
  if (w.volatility.active()) {
    w.told = size;
    return;
  }
  if (before == 0 && size == 0) return;
  const bool still_slow = before > 0 && size > 0;
  if (still_slow && std::abs(size - before) < std::max(look.settings.coarse * before, scale_.smallest)) return;
  if (before == 0) w.start = start;
  w.told = size;
  event.finding = still_slow ? Finding::resize : size > 0 ? Finding::start : Finding::end;
  event.size = duration(size > 0 ? size : before);
  event.spread = spread(direction, still_slow ? start : w.start);
  look.events.links.push_back(event);
  if (still_slow) return;
  if (const auto first = w.volatility.flap(start, look.settings)) turn_volatile(direction, *first, look);
}

void LinkDetector::look_at_clocks(const LinkReading& reading, const Look& look) {
  const double deviation = std::max(ways_[0].round_trip.deviation(scale_), ways_[1].round_trip.deviation(scale_));
  const double least = unit(look) / 4 + 3 * deviation;
  const auto moved = ring_.step(reading.at, reading.one_way, least, unit(look) / 2);
  if (!moved) return;
  LinkFinding clock = event(Finding::clock_step, {}, reading.at, look);
  clock.size = clock.one_way = duration(*moved);
  look.events.links.push_back(clock);
}

// Messages that are far above the present level. Not counted while that moves, nor while tensors queue: that is a
// level's own doing.
void LinkDetector::look_for_bursts(const LinkReading& reading, const Look& look) {
  bool counts = !look.held, calm = !suspected();
  std::array<std::size_t, 2> far{};
  for (std::size_t d = 0; d < 2; ++d) {
    Way& w = ways_[d];
    const LevelStream& stream = w.round_trip;
    const double above = stream.reference() + stream.level() +
                         std::max(stream.unit_now(scale_, look.settings), look.settings.far * w.far);
    const std::vector<double>& messages = reading.round_trips[d];
    far[d] =
        static_cast<std::size_t>(std::count_if(messages.begin(), messages.end(), [&](double r) { return r > above; }));
    calm = calm && static_cast<double>(far[d]) <= look.settings.calm_share * static_cast<double>(messages.size());
    counts = counts && stream.suspicion() < moving && w.size_term.suspicion() < moving && w.size_term.level() == 0;
    w.unrest = unrest_kept * w.unrest + unrest_of(reading.one_ways[d]);
  }
  for (const Direction d : both) {
    if (!way(d).volatility.step(calm, look.settings)) continue;
    const LinkFinding steady = event(Finding::turned_steady, d, way(d).start, look);
    look.events.links.push_back(steady);
  }
  if (!counts) return;
  std::optional<Iteration> start;
  for (std::size_t d = 0; d < 2; ++d) {
    FarCounter& counter = ways_[d].counter;
    if (counter.step(reading.at, far[d], reading.round_trips[d].size(), look.settings)) start = counter.start();
  }
  if (!start) return;
  // Acknowledgements come back over the other direction, so both may count; one-way delays tell which it is.
  std::array<double, 2> unrest{};
  for (std::size_t d = 0; d < 2; ++d) unrest[d] = ways_[d].unrest - ways_[d].healthy_unrest / (1 - unrest_kept);
  for (const Direction d : both)
    if (2 * unrest[index(d)] >= std::max(unrest[0], unrest[1])) turn_volatile(d, *start, look);
}

void LinkDetector::turn_volatile(Direction direction, Iteration start, const Look& look) {
  Way& w = way(direction);
  for (Way& each : ways_) each.counter.reset();
  if (w.volatility.active()) return;
  w.volatility.begin();
  if (w.told == 0) w.start = start;
  look.events.links.push_back(event(Finding::turned_volatile, direction, start, look));
}

LinkFinding LinkDetector::event(Finding finding, std::optional<Direction> direction, Iteration start,
                                const Look& look) const {
  LinkFinding event;
  event.finding = finding;
  event.link = link_;
  event.direction = direction;
  event.start = start;
  event.at = look.last;
  event.unit = duration(unit(look));
  if (!direction) return event;
  event.kind = way(*direction).kind;
  event.size = duration(way(*direction).told);
  event.spread = spread(*direction, way(*direction).start);
  return event;
}

Spread<Duration> LinkDetector::spread(Direction direction, Iteration start) const {
  const Way& mine = way(direction);
  const Way& theirs = ways_[1 - index(direction)];
  std::vector<double> samples = robust::sorted(mine.recent.since(start));
  if (samples.empty()) return {};
  // The acknowledgement's share, if it came over the other direction.
  const double back = std::clamp(mine.round_trip.level() - mine.level, 0.0, theirs.level);
  const auto at = [&](double q) { return duration(robust::quantile(samples, q) - back); };
  return {at(0.5), at(0.9), at(0.99), samples.size()};
}

}  // namespace stagecraft
