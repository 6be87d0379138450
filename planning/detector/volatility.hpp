// What changes faster than iterations: samples that are far above the present level, levels that come and go, and how
// the samples are spread. Pure; one owner each; not thread-safe.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "planning/detector/settings.hpp"
#include "planning/detector/statistics.hpp"
#include "planning/ids.hpp"

namespace stagecraft {

/// Counts samples that are far above the level: a CUSUM of the log-likelihood ratio of two shares (Wald 1945).
class FarCounter {
 public:
  /// `far` of `all` samples of a block; true: too many. Blocks count as 24 samples, whatever their size.
  bool step(Iteration at, std::size_t far, std::size_t all, const DetectorSettings& settings);
  void reset() { sum_ = 0; }
  Iteration start() const { return start_; }  ///< since when more than usual are far

 private:
  double sum_ = 0;
  Iteration start_;
};

/// Whether something is volatile: from the first reason on until it is calm.
class Volatility {
 public:
  bool active() const { return active_; }
  /// Once per block. `calm`: no change is suspected, and few samples are far. True: it is over.
  bool step(bool calm, const DetectorSettings& settings);
  /// A start or an end in this block. The start of the first one, if there were too many lately.
  std::optional<Iteration> flap(Iteration start, const DetectorSettings& settings);
  void begin() { active_ = true, calm_ = 0, flaps_.clear(); }

 private:
  struct Flap {
    std::uint64_t block;
    Iteration start;
  };
  std::uint64_t block_ = 0;
  std::deque<Flap> flaps_;
  bool active_ = false;
  std::uint32_t calm_ = 0;
};

/// The last samples, in the order in which they came.
class RecentSamples {
 public:
  void add(Iteration at, double value, const DetectorSettings& settings);
  /// Of iterations after `start`, where there are any, else from `start` on.
  std::vector<double> since(Iteration start) const;

 private:
  struct Sample {
    Iteration at;
    float value;
  };
  static constexpr std::size_t per_block = 24;  // larger iterations fill the window sooner
  std::deque<Sample> samples_;
};

}  // namespace stagecraft
