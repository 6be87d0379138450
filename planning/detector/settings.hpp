// The thresholds of the straggler detector, all of which may change while it runs. Values only; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace stagecraft {

struct DetectorSettings {
  /// The smallest change that matters, as a share of an operator's time: of a stage, its own operator; of a link, the
  /// mean of F and B over all stages.
  double smallest = 0.08;
  /// CUSUM, in units of that change: deviations below `slack` are never seen, one block counts at most `clip`, the
  /// alarm is at `alarm`. alarm > clip - slack, so that one block alone never alarms.
  double slack = 0.5, alarm = 0.75, clip = 1.1;
  double guard = 5;                ///< the unit is at least so many standard deviations of a block
  double coarse = 0.25;            ///< and at least this share of the present level
  double least_deviation = 0.004;  ///< of a block, as a share of an operator's time: nobody is more regular

  std::uint32_t skipped = 2;         ///< blocks at the beginning that nobody looks at
  std::uint32_t calibration = 12;    ///< blocks that the healthy level is learned from
  std::uint32_t refinement = 64;     ///< quiet blocks after which it is frozen; an adapting one would swallow ramps
  std::uint32_t smallest_block = 8;  ///< micro-batches; shorter iterations are taken together

  double common = 0.02;  ///< a slowdown of the median stage beyond this is nobody's fault

  /// Faster than iterations: a binomial CUSUM between the share `rare` and the share `frequent` of samples that are far
  /// above the present level, at most `most_per_block` a block, alarm at `volatile_at`.
  double rare = 0.03, frequent = 0.12, most_per_block = 7, volatile_at = 14;
  double far = 1.5;                 ///< far: so many times the 97.5 % quantile of healthy samples
  double far_operator = 0.12;       ///< and at least so much of an operator's time
  std::uint32_t flaps = 4;          ///< so many starts and ends ...
  std::uint32_t flaps_within = 40;  ///< ... within so many blocks are volatile too
  std::uint32_t calm = 16;          ///< blocks in a row that end it,
  double calm_share = 0.15;         ///< each with at most this share far above the level
  std::uint32_t window = 32;        ///< blocks that quantiles are taken over
  std::uint32_t hold = 2;           ///< blocks after a change of plan in which nothing is counted as far
};

/// Why these can't be used; none: they can.
std::optional<std::string> complaint(const DetectorSettings& settings);

/// All of them by name, in the order in which they stand above.
struct DetectorSetting {
  std::string_view name;
  double value = 0;
};
std::vector<DetectorSetting> listed(const DetectorSettings& settings);
/// False: there is none of this name, or it counts and the value is no whole number below a million.
bool set_by_name(DetectorSettings& settings, std::string_view name, double value);

}  // namespace stagecraft
