#include "planning/detector/event.hpp"

#include <fmt/format.h>

#include "planning/bug.hpp"

namespace stagecraft {

std::string_view name_of(Finding finding) {
  switch (finding) {
    case Finding::start:
      return "start";
    case Finding::resize:
      return "resize";
    case Finding::end:
      return "end";
    case Finding::turned_volatile:
      return "volatile";
    case Finding::turned_steady:
      return "steady";
    case Finding::faster:
      return "faster";
    case Finding::clock_step:
      return "clock";
  }
  STAGECRAFT_ASSERT(false, "finding {}", static_cast<int>(finding));
}

std::string_view name_of(DelayKind kind) {
  switch (kind) {
    case DelayKind::latency:
      return "latency";
    case DelayKind::occupancy:
      return "occupancy";
    case DelayKind::unknown:
      return "delay";
  }
  STAGECRAFT_ASSERT(false, "kind of delay {}", static_cast<int>(kind));
}

std::string to_text(const StageFinding& e) {
  std::string kinds;
  for (std::size_t q = 0; q < 3; ++q)
    if (e.kinds[q]) kinds += fmt::format(" {}", "FBW"[q]);
  const std::string who = e.stage ? fmt::format("stage {}", *e.stage) : "all stages";
  const char* than = e.finding == Finding::faster ? "shorter" : "longer";
  return fmt::format("{} {}:{} {:.1f} % {} since iteration {} (found in {}; p50 {:.1f} %, p90 {:.1f} %, p99 {:.1f} %)",
                     who, name_of(e.finding), kinds, 100 * e.size, than, e.start.value, e.at.value, 100 * e.spread.p50,
                     100 * e.spread.p90, 100 * e.spread.p99);
}

std::string to_text(const LinkFinding& e) {
  const char* way = !e.direction ? "" : *e.direction == Direction::forward ? " forward" : " backward";
  const bool slow = e.finding != Finding::clock_step && e.finding != Finding::faster;
  std::string text =
      fmt::format("link {}{} {}: {}{} since iteration {} (found in {})", e.link, way, name_of(e.finding),
                  slow ? fmt::format("{} ", name_of(e.kind)) : "", format(e.size), e.start.value, e.at.value);
  if (slow)
    text += fmt::format("; round trip {}, one way {}, size term {}; p50 {}, p90 {}, p99 {}", format(e.round_trip),
                        format(e.one_way), format(e.size_term), format(e.spread.p50), format(e.spread.p90),
                        format(e.spread.p99));
  return text;
}

}  // namespace stagecraft
