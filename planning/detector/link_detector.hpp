// One link: finds that its round trip has changed, names the direction, the kind and the size. Pure; one owner; not
// thread-safe.
//
// Round trips are on one clock, so they find a change whatever the clocks do; one-way delays, which hold the offset of
// two clocks, only name the direction; a tensor's delay beyond that of its announcement tells occupancy from latency.
// Neither operators nor the waits of a producer or consumer enter, so a link is never blamed for a slow stage.
#pragma once

#include <array>
#include <deque>
#include <optional>
#include <vector>

#include "planning/detector/clock_ring.hpp"
#include "planning/detector/event.hpp"
#include "planning/detector/level_stream.hpp"
#include "planning/detector/link_reading.hpp"
#include "planning/detector/look.hpp"
#include "planning/detector/volatility.hpp"

namespace stagecraft {

class LinkDetector {
 public:
  /// Its number among the links.
  explicit LinkDetector(std::uint32_t link) : link_(link) {}

  /// A block of messages. `operator_time`: what sizes are compared with, ns; 0: not known yet, nothing is judged.
  void step(const LinkSamples& samples, double operator_time, const Look& look);

  /// How far the round trips of a direction were above healthy, in iterations from `start` on.
  Spread<Duration> spread(Direction direction, Iteration start) const;

 private:
  struct Way {  // one direction; all in ns
    LevelStream round_trip, size_term;
    double level = 0;  // of the one-way delay, above healthy
    double told = 0;   // the size in force; 0: not slow
    DelayKind kind = DelayKind::unknown;
    Iteration start;            // of what is told
    double far = 0;             // 97.5 % of healthy messages are no further above the reference
    double healthy_unrest = 0;  // of a block
    double unrest = 0;          // decayed sum of what one-way delays were above the least of their block
    FarCounter counter;
    Volatility volatility;
    RecentSamples recent;  // above the reference
  };
  struct Calibration {
    std::array<std::vector<double>, 2> round_trips, services;
    std::uint32_t blocks = 0;
  };
  // The mean of some blocks.
  struct Means {
    std::size_t blocks = 0;
    std::array<double, 2> round_trip{}, moved{};  // moved: the one-way delays, since before the change
    std::array<std::optional<double>, 2> size_term, service;
  };

  void learn(const LinkReading& reading, const Look& look);
  std::optional<Iteration> feed(const LinkReading& reading, const Look& look);
  void remember(const LinkReading& reading, const Look& look);
  void change(Iteration start, const std::array<double, 2>& healthy, const Look& look);
  Means means_of_change(Iteration start) const;
  void move_levels(const Means& means, const Look& look);
  double size_of(std::size_t direction, const std::optional<double>& service, const Look& look);
  void tell(Direction direction, Iteration start, double size, LinkFinding event, const Look& look);
  bool suspected() const;
  void look_at_clocks(const LinkReading& reading, const Look& look);
  void look_for_bursts(const LinkReading& reading, const Look& look);
  void turn_volatile(Direction direction, Iteration start, const Look& look);
  LinkFinding event(Finding finding, std::optional<Direction> direction, Iteration start, const Look& look) const;
  double unit(const Look& look) const;
  Way& way(Direction direction) { return ways_[static_cast<std::size_t>(direction)]; }
  const Way& way(Direction direction) const { return ways_[static_cast<std::size_t>(direction)]; }

  std::uint32_t link_;
  LevelScale scale_;
  HealthyLink healthy_;
  std::array<Way, 2> ways_;          // by Direction
  std::deque<LinkReading> history_;  // the last blocks, without their messages
  ClockRing ring_;
  Calibration calibration_;  // empty once it is done
  bool learned_ = false;
};

}  // namespace stagecraft
