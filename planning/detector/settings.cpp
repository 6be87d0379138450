#include "planning/detector/settings.hpp"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <variant>

namespace stagecraft {

namespace {

struct Entry {
  std::string_view name;
  std::variant<double DetectorSettings::*, std::uint32_t DetectorSettings::*> member;
};

using S = DetectorSettings;
constexpr std::array<Entry, 24> entries{{{"smallest", &S::smallest},
                                         {"slack", &S::slack},
                                         {"alarm", &S::alarm},
                                         {"clip", &S::clip},
                                         {"guard", &S::guard},
                                         {"coarse", &S::coarse},
                                         {"least_deviation", &S::least_deviation},
                                         {"skipped", &S::skipped},
                                         {"calibration", &S::calibration},
                                         {"refinement", &S::refinement},
                                         {"smallest_block", &S::smallest_block},
                                         {"common", &S::common},
                                         {"rare", &S::rare},
                                         {"frequent", &S::frequent},
                                         {"most_per_block", &S::most_per_block},
                                         {"volatile_at", &S::volatile_at},
                                         {"far", &S::far},
                                         {"far_operator", &S::far_operator},
                                         {"flaps", &S::flaps},
                                         {"flaps_within", &S::flaps_within},
                                         {"calm", &S::calm},
                                         {"calm_share", &S::calm_share},
                                         {"window", &S::window},
                                         {"hold", &S::hold}}};

}  // namespace

std::vector<DetectorSetting> listed(const DetectorSettings& settings) {
  std::vector<DetectorSetting> all;
  for (const Entry& entry : entries)
    all.push_back(
        {entry.name, std::visit([&](auto member) { return static_cast<double>(settings.*member); }, entry.member)});
  return all;
}

bool set_by_name(DetectorSettings& settings, std::string_view name, double value) {
  constexpr double most = 1e6;
  for (const Entry& entry : entries) {
    if (entry.name != name) continue;
    if (const auto* real = std::get_if<double S::*>(&entry.member)) {
      settings.*(*real) = value;
      return std::isfinite(value);
    }
    if (!(value >= 0 && value < most && std::floor(value) == value)) return false;
    settings.*std::get<std::uint32_t S::*>(entry.member) = static_cast<std::uint32_t>(value);
    return true;
  }
  return false;
}

std::optional<std::string> complaint(const DetectorSettings& s) {
  constexpr double most = 1e6;
  const auto share = [](double x) { return x > 0 && x < 1; };
  for (const DetectorSetting& x : listed(s))
    if (!(x.value >= 0 && x.value <= most)) return fmt::format("{} {} is not from 0 to {:.0e}", x.name, x.value, most);
  if (!share(s.smallest)) return fmt::format("smallest change {} is no share between 0 and 1", s.smallest);
  if (!(s.slack > 0 && s.clip > s.slack))
    return fmt::format("clip {} is not above slack {}, or that is not above 0: nothing would ever be seen", s.clip,
                       s.slack);
  if (!(s.alarm > s.clip - s.slack))
    return fmt::format("alarm {} is not above clip {} - slack {}: one iteration alone would alarm", s.alarm, s.clip,
                       s.slack);
  if (!share(s.coarse) || !share(s.calm_share))
    return fmt::format("coarse {} and calm_share {} are not both shares between 0 and 1", s.coarse, s.calm_share);
  if (s.calibration < 4) return fmt::format("{} blocks are too few to calibrate on", s.calibration);
  if (s.smallest_block < 4) return fmt::format("blocks of {} micro-batches are too small", s.smallest_block);
  if (!(share(s.rare) && share(s.frequent) && s.rare < s.frequent))
    return fmt::format("rare {} and frequent {} are no rising shares", s.rare, s.frequent);
  if (!(s.most_per_block > 0 && s.volatile_at > s.most_per_block))
    return fmt::format("volatile at {} is not above the {} of one block", s.volatile_at, s.most_per_block);
  if (s.far < 1) return fmt::format("far {} is below 1", s.far);
  if (s.flaps < 2 || s.calm == 0 || s.window == 0) return "flaps below 2, or no blocks to be calm or to look at";
  return std::nullopt;
}

}  // namespace stagecraft
