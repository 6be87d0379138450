// What the straggler detector finds, as data with the numbers that decided. Values only; any thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "planning/ids.hpp"
#include "planning/units.hpp"

namespace stagecraft {

enum class Finding : std::uint8_t {
  start,            ///< slower than healthy since `start`
  resize,           ///< still slower, by a size that differs by a quarter or more
  end,              ///< as healthy again since `start`
  turned_volatile,  ///< changes faster than iterations: look at the quantiles, not at the size
  turned_steady,    ///< no longer; `size` is what remains, 0: nothing
  faster,           ///< better than what was taken for healthy, which it is from now on
  clock_step,       ///< for information: the clock of one end of a link stepped by `size`; nobody is slow
};
std::string_view name_of(Finding finding);

/// What a message of a slow link has to bear.
enum class DelayKind : std::uint8_t {
  latency,    ///< every message comes later, large and small alike
  occupancy,  ///< every tensor holds the wire for longer; bandwidth is lost, or an overhead per tensor was gained
  unknown,    ///< nothing small travels the same way: one or the other
};
std::string_view name_of(DelayKind kind);

/// How far samples were above healthy, over the last blocks of the change that is told.
template <class Amount>
struct Spread {
  Amount p50{}, p90{}, p99{};
  std::size_t samples = 0;  ///< neighbours are not independent: a p99 of slow bursts takes many
};

struct StageFinding {
  Finding finding = Finding::start;
  std::optional<std::uint32_t> stage;  ///< none: all of them alike, which is no stage's fault
  Iteration start, at;                 ///< of the change; of this report
  std::array<bool, 3> kinds{};         ///< F, B, W: which operators
  double size = 0;                     ///< how much longer they take, 0.1 = a tenth; of an end: took
  double unit = 0;                     ///< the change that counts as one, at the noise and level of this stage
  Spread<double> spread;               ///< as `size`
};

struct LinkFinding {
  Finding finding = Finding::start;
  std::uint32_t link = 0;
  std::optional<Direction> direction;  ///< none: of both together (faster, clock_step)
  Iteration start, at;                 ///< of the change; of this report
  DelayKind kind = DelayKind::unknown;
  Duration size{};  ///< how much more one message takes, without the queue of those before it; of an end: took
  Duration unit{};  ///< the change that counts as one, at the noise and level of this link
  /// What changed: the round trip said that something did, the one-way delay in which direction, and the delay of a
  /// tensor beyond that of its announcement of which kind it is.
  Duration round_trip{}, one_way{}, size_term{};
  Spread<Duration> spread;  ///< of round trips
};

struct StragglerFindings {
  std::vector<StageFinding> stages;
  std::vector<LinkFinding> links;
};

/// "stage 4 start: F B W take 10.2 % longer since iteration 25 (found in 27)".
std::string to_text(const StageFinding& event);
/// "link 3 forward start: latency 1 ms more since iteration 25 (found in 27)".
std::string to_text(const LinkFinding& event);

}  // namespace stagecraft
