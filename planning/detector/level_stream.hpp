// Follows the level of one number per block: healthy, or above it by so much. Pure; one owner; not thread-safe.
//
// A two-sided CUSUM (Page 1954) in units of the smallest change that matters instead of standard deviations: a dozen
// blocks do not fix a deviation well enough for a false alarm in many thousands, and noise that wanders has none. Each
// step is clipped, so that no single block can alarm: the second one verifies the first. After an alarm the test is
// centred on the new level, so growth, shrinking and the end are found by the same test.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "planning/detector/settings.hpp"
#include "planning/ids.hpp"

namespace stagecraft {

/// In the unit of the numbers.
struct LevelScale {
  double smallest = 0;         ///< the smallest change that matters
  double least_deviation = 0;  ///< of a block
};

class LevelStream {
 public:
  /// Learns what is healthy from its first blocks.
  LevelStream() = default;
  /// Is told.
  explicit LevelStream(double reference) : calibrated_(true), reference_(reference) {}

  /// The level changed. `start`: the first block that looked like it, most often one that the change began within.
  /// `to` is 0 where the number is healthy again, and negative where it is better than healthy: that is healthy now.
  struct Alarm {
    Iteration start;
    double from = 0, to = 0;
  };
  /// The number of the next block. Looked at before it is calibrated it only learns.
  std::optional<Alarm> step(Iteration at, double value, const LevelScale& scale, const DetectorSettings& settings);

  bool calibrated() const { return calibrated_; }
  double reference() const { return reference_; }  ///< healthy
  double level() const { return level_; }          ///< above healthy
  /// How near an alarm it is, 0 if nothing is suspected.
  double suspicion() const { return up_.sum > down_.sum ? up_.sum : down_.sum; }
  /// The change that counts as one in health, and now.
  double unit(const LevelScale& scale, const DetectorSettings& settings) const;
  double unit_now(const LevelScale& scale, const DetectorSettings& settings) const;
  double deviation(const LevelScale& scale) const {
    return deviation_ > scale.least_deviation ? deviation_ : scale.least_deviation;
  }
  /// Somebody who sees more says what the level is, as a mean of so many blocks; what was suspected is forgotten.
  /// Below healthy by half a unit or more: that is healthy now. Nearer than that: healthy.
  void settle(double level, std::size_t blocks, const LevelScale& scale, const DetectorSettings& settings);

 private:
  // The blocks since a sum last left zero.
  struct Run {
    double sum = 0;
    Iteration start;
    std::vector<double> later;  // values of the latest blocks but the first, at most 7
    void step(Iteration at, double value, double by);
  };

  void calibrate(double value, const DetectorSettings& settings);
  void refine(double value, const DetectorSettings& settings);

  std::vector<double> healthy_;  // while calibrating
  std::uint32_t skipped_ = 0;
  bool calibrated_ = false;
  double reference_ = 0, deviation_ = 0, level_ = 0;
  std::size_t reference_blocks_ = 0, level_blocks_ = 0;  // that they are means of
  Run up_, down_;
};

}  // namespace stagecraft
