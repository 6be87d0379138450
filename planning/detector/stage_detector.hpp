// One stage: finds that its operators take longer. Pure; one owner; not thread-safe.
//
// Only durations of operators enter, never how long a stage waits: a stage next to a slow one waits, and runs as fast
// as ever.
#pragma once

#include <array>
#include <optional>
#include <vector>

#include "planning/detector/event.hpp"
#include "planning/detector/level_stream.hpp"
#include "planning/detector/look.hpp"
#include "planning/detector/samples.hpp"
#include "planning/detector/volatility.hpp"

namespace stagecraft {

/// Logarithms of durations over what is expected of them: a share longer is a difference, whatever the operator takes.
struct StageReading {
  std::array<std::vector<double>, 3> operators;   ///< F, B, W
  std::array<std::optional<double>, 3> midmeans;  ///< of each kind; none: too few ran
  std::array<double, 3> expected{};               ///< mean of the kind, ns; 1 where nobody knows any
};
StageReading read_stage(const StageSamples& samples);

class StageDetector {
 public:
  /// Its number among the stages; none: what all stages have in common, of which healthy is 0.
  explicit StageDetector(std::optional<std::uint32_t> stage);

  /// A block of operators. `common`: what all stages have in common, which is taken off.
  void step(const StageReading& reading, const std::array<double, 3>& common, const Look& look);

  /// How far a kind of operator is above healthy, before anything common is taken off. None: not known yet.
  std::optional<double> excess(std::size_t kind, const StageReading& reading) const;
  /// The mean of a healthy F and B, ns. None: not known yet.
  std::optional<double> healthy_time(const StageReading& reading) const;
  /// How much longer the operators that are slow now took since `start`, 0.1 = a tenth; of all, if none is.
  Spread<double> spread(Iteration start) const;

 private:
  struct Kind {
    LevelStream stream;
    double far = 0;               // 97.5 % of healthy operators are no further above the reference
    std::vector<double> healthy;  // operators of the calibration
    FarCounter counter;
    RecentSamples recent;  // above the reference
  };

  void learn(Kind& kind, const std::vector<double>& operators, double midmean, const Look& look);
  void tell(Iteration start, const Look& look);
  void look_for_bursts(const StageReading& reading, const std::array<double, 3>& common, const Look& look);
  void turn_volatile(Iteration start, const Look& look);
  StageFinding event(Finding finding, Iteration start, const Look& look) const;
  double size() const;

  std::optional<std::uint32_t> stage_;
  std::array<Kind, 3> kinds_;  // F, B, W
  Volatility volatility_;
  double told_ = 0;  // the size in force; 0: not slow
  Iteration start_;  // of what is told
  std::array<bool, 3> told_kinds_{};
  std::uint32_t blocks_ = 0;
};

}  // namespace stagecraft
