#include "planning/detector/settings.hpp"

#include <fmt/format.h>

namespace stagecraft {

std::optional<std::string> complaint(const DetectorSettings& s) {
  const auto share = [](double x) { return x > 0 && x < 1; };
  if (!share(s.smallest)) return fmt::format("smallest change {} is no share between 0 and 1", s.smallest);
  if (!(s.slack > 0 && s.clip > s.slack && s.alarm > s.clip - s.slack))
    return fmt::format("alarm {} is not above clip {} - slack {}: one iteration alone would alarm", s.alarm, s.clip,
                       s.slack);
  if (s.guard < 0 || s.coarse < 0 || s.coarse >= 1 || s.least_deviation < 0) return "a negative width of noise";
  if (s.calibration < 4) return fmt::format("{} blocks are too few to calibrate on", s.calibration);
  if (s.smallest_block < 4) return fmt::format("blocks of {} micro-batches are too small", s.smallest_block);
  if (!(share(s.rare) && share(s.frequent) && s.rare < s.frequent))
    return fmt::format("rare {} and frequent {} are no rising shares", s.rare, s.frequent);
  if (!(s.most_per_block > 0 && s.volatile_at > s.most_per_block))
    return fmt::format("volatile at {} is not above the {} of one block", s.volatile_at, s.most_per_block);
  if (s.far < 1 || s.far_operator < 0 || s.common < 0) return "a negative threshold, or far below 1";
  if (s.flaps < 2 || s.calm == 0 || s.window == 0) return "flaps below 2, or no blocks to be calm or to look at";
  return std::nullopt;
}

}  // namespace stagecraft
