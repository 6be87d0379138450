#include "planning/detector/level_stream.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "planning/detector/statistics.hpp"

namespace stagecraft {

namespace {

constexpr std::size_t remembered = 8;  // blocks of a run, the first included
constexpr double small_sample = 1.3;   // a dozen blocks tend to show too small a deviation

}  // namespace

void LevelStream::Run::step(Iteration at, double value, double by) {
  const bool fresh = sum == 0;
  sum = std::max(0.0, sum + by);
  if (fresh || sum == 0) {
    start = at;
    later.clear();
    return;
  }
  if (later.size() + 1 == remembered) later.erase(later.begin());
  later.push_back(value);
}

double LevelStream::unit(const LevelScale& scale, const DetectorSettings& settings) const {
  return std::max(scale.smallest, settings.guard * deviation(scale));
}

double LevelStream::unit_now(const LevelScale& scale, const DetectorSettings& settings) const {
  return std::max(unit(scale, settings), settings.coarse * level_);
}

void LevelStream::calibrate(double value, const DetectorSettings& settings) {
  if (skipped_ < settings.skipped) {
    ++skipped_;
    return;
  }
  healthy_.push_back(value);
  if (healthy_.size() < settings.calibration) return;
  healthy_ = robust::sorted(std::move(healthy_));
  reference_ = robust::median(healthy_);
  deviation_ = small_sample * robust::deviation(healthy_);
  reference_blocks_ = healthy_.size();
  healthy_ = {};
  calibrated_ = true;
}

void LevelStream::refine(double value, const DetectorSettings& settings) {
  std::size_t& blocks = level_ == 0 ? reference_blocks_ : level_blocks_;
  double& mean = level_ == 0 ? reference_ : level_;
  if (blocks >= settings.refinement) return;
  mean += (value - reference_ - level_) / static_cast<double>(++blocks);
}

std::optional<LevelStream::Alarm> LevelStream::step(Iteration at, double value, const LevelScale& scale,
                                                    const DetectorSettings& settings) {
  if (!calibrated_) {
    calibrate(value, settings);
    return std::nullopt;
  }
  const double z = std::clamp((value - reference_ - level_) / unit_now(scale, settings), -settings.clip, settings.clip);
  up_.step(at, value, z - settings.slack);
  down_.step(at, value, -z - settings.slack);
  if (up_.sum < settings.alarm && down_.sum < settings.alarm) {
    if (suspicion() == 0 && std::abs(z) < settings.slack) refine(value, settings);
    return std::nullopt;
  }
  const Run& run = up_.sum >= settings.alarm ? up_ : down_;
  const double sum = std::accumulate(run.later.begin(), run.later.end(), 0.0);
  Alarm alarm{run.start, level_, sum / static_cast<double>(run.later.size()) - reference_};
  if (std::abs(alarm.to) < unit(scale, settings) / 2) alarm.to = 0;
  settle(alarm.to, run.later.size(), scale, settings);
  return alarm;
}

void LevelStream::settle(double level, std::size_t blocks, const LevelScale& scale, const DetectorSettings& settings) {
  const double half = unit(scale, settings) / 2;
  if (level <= -half) reference_ += level;
  level_ = level < half ? 0 : level;
  level_blocks_ = blocks;
  up_ = {};
  down_ = {};
}

}  // namespace stagecraft
