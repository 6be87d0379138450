// The straggler detector: iteration after iteration the stamps of messages and the times of operators in, what became
// slow and what recovered out. Pure: no clock of its own. One owner; not thread-safe.
//
// It never looks at the time of an iteration, which slack masks and everything else moves. A block of samples (an
// iteration, or several short ones) is reduced to robust numbers per link, direction and stage first
// (detector/link_reading.hpp, detector/stage_detector.hpp); a CUSUM in units of the smallest change that matters
// decides (detector/level_stream.hpp); what is faster than iterations is counted (detector/volatility.hpp).
//
// It knows only what it has seen: healthy is what the first iterations were. What was slow before is found when it
// gets faster.
#pragma once

#include <cstddef>
#include <vector>

#include "planning/detector/event.hpp"
#include "planning/detector/link_detector.hpp"
#include "planning/detector/samples.hpp"
#include "planning/detector/settings.hpp"
#include "planning/detector/stage_detector.hpp"

namespace stagecraft {

class StragglerDetector {
 public:
  StragglerDetector(std::size_t links, std::size_t stages, const DetectorSettings& settings = {});

  /// What is found with the samples of one more iteration, those later than the last one.
  StragglerFindings step(const IterationSamples& samples);

  /// In force from the next iteration on. They must be such that `complaint` has none.
  void set(const DetectorSettings& settings);
  const DetectorSettings& settings() const { return settings_; }
  /// Another plan runs from the next iteration on: messages bunch otherwise, and are not counted as far at first.
  void plan_changed() { held_ = settings_.hold; }
  /// Other hardware or other layers: what was known of it is forgotten, and learned again.
  void forget_link(std::uint32_t link);
  void forget_stage(std::uint32_t stage);

  /// How far a direction's round trips, or a stage's operators, have been above healthy since an iteration, of the last
  /// blocks.
  Spread<Duration> spread(std::uint32_t link, Direction direction, Iteration since) const;
  Spread<double> spread(std::uint32_t stage, Iteration since) const;

 private:
  bool gather(const IterationSamples& samples);
  void look_at_stages(const Look& look);
  std::array<double, 3> common_of(const std::vector<StageReading>& readings, const Look& look);

  DetectorSettings settings_;
  std::vector<LinkDetector> links_;
  std::vector<StageDetector> stages_;
  StageDetector all_{std::nullopt};
  IterationSamples block_;    // of iterations that are too short alone
  Iteration last_;            // that was looked at
  double operator_time_ = 0;  // of a healthy F or B, in the mean of the median stage; ns
  std::uint32_t held_ = 0;    // blocks
};

}  // namespace stagecraft
