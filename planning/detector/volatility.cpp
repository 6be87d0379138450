#include "planning/detector/volatility.hpp"

namespace stagecraft {

bool FarCounter::step(Iteration at, std::size_t far, std::size_t all, const DetectorSettings& settings) {
  constexpr double nominal = 24;
  const double share = static_cast<double>(far) / static_cast<double>(all);
  const double gain = nominal * (share * std::log(settings.frequent / settings.rare) +
                                 (1 - share) * std::log((1 - settings.frequent) / (1 - settings.rare)));
  if (sum_ == 0) start_ = at;
  sum_ = std::max(0.0, sum_ + std::min(settings.most_per_block, gain));
  return sum_ >= settings.volatile_at;
}

bool Volatility::step(bool calm, const DetectorSettings& settings) {
  ++block_;
  if (!active_) return false;
  calm_ = calm ? calm_ + 1 : 0;
  if (calm_ < settings.calm) return false;
  active_ = false;
  return true;
}

std::optional<Iteration> Volatility::flap(Iteration start, const DetectorSettings& settings) {
  if (active_) return std::nullopt;
  flaps_.push_back({block_, start});
  while (flaps_.front().block + settings.flaps_within <= block_ || flaps_.size() > settings.flaps) flaps_.pop_front();
  if (flaps_.size() < settings.flaps) return std::nullopt;
  return flaps_.front().start;
}

void RecentSamples::add(Iteration at, double value, const DetectorSettings& settings) {
  samples_.push_back({at, static_cast<float>(value)});
  while (samples_.size() > std::size_t{settings.window} * per_block) samples_.pop_front();
}

std::vector<double> RecentSamples::since(Iteration start) const {
  std::vector<double> all, full;
  for (const Sample& sample : samples_) {
    if (sample.at >= start) all.push_back(sample.value);
    if (sample.at > start) full.push_back(sample.value);
  }
  return full.empty() ? all : full;
}

}  // namespace stagecraft
