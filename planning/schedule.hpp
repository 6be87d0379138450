// A schedule as data: per stage the list of operators, with a text form that parses back. Values only; any thread.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "planning/operator.hpp"

namespace stagecraft {

enum class ScheduleKind : std::uint8_t {
  gpipe,
  one_f_one_b,
  interleaved,
  bfs,        ///< looped breadth-first
  zb_h1,      ///< zero bubble, the memory of 1f1b
  zb_h2,      ///< zero bubble, twice that
  zb_auto,    ///< the zero-bubble heuristic, within the caps
  zb_v,       ///< zero bubble, two chunks in a V
  v_half,     ///< two chunks in a V, half the memory
  v_min,      ///< two chunks in a V, a third of the memory
  pipemorph,  ///< the published planner for slow links (Algorithms 1 to 4)
  planned,    ///< ours: the best of all of these and of a search (planner.hpp)
};
enum class Dispatch : std::uint8_t {
  in_order,  ///< `static`: the list, in order
  reactive,  ///< no list: B, then F, then W, whatever is ready and within the caps
  follow,    ///< the list while in time, and what fits before its head while that waits
};

/// The names that files and messages use: gpipe, 1f1b, interleaved, bfs, zb-h1, ...; static, reactive, follow.
std::string_view name_of(ScheduleKind kind);
std::string_view name_of(Dispatch dispatch);
std::optional<ScheduleKind> parse_schedule_kind(std::string_view text);
std::optional<Dispatch> parse_dispatch(std::string_view text);

/// operators[s] is the list of stage s.
struct Schedule {
  std::vector<std::vector<Operator>> operators;
  bool operator==(const Schedule&) const = default;
};

/// One line per stage, operators separated by blanks.
std::string to_text(const Schedule& schedule);
/// Empty when a word is no operator.
std::optional<Schedule> parse_schedule(std::string_view text);

}  // namespace stagecraft
