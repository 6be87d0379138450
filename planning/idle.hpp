// Why the stages of a simulated pipeline idle: every gap with its reason. Pure; any thread.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "planning/problem.hpp"
#include "planning/schedule.hpp"
#include "planning/simulate.hpp"

namespace stagecraft {

enum class IdleReason : std::uint8_t {
  fill,       ///< nothing has got here yet
  computing,  ///< the input of the next operator was not finished where it comes from
  link,       ///< that input was on its way
  sending,    ///< a device-ordered link had no place for what the stage wanted to send
  order,      ///< another operator could have run, but the list, or the rule that follows it, held the stage back
  cap,        ///< another operator was ready, but not allowed under the caps
  drain,      ///< nothing was left to run
};
constexpr std::size_t idle_reasons = 7;
/// "fill", "computing", "link", "sending", "order", "cap", "drain".
std::string_view name_of(IdleReason reason);

/// A stretch of idle time with one reason; a gap between two operators may have several.
struct IdleGap {
  StageId stage;
  Instant begin, end;
  IdleReason reason{};
  std::optional<Operator> next;  ///< what ran after it; none after the last
  /// computing, link: the operator whose result was missing; sending: whose result found no place; order, cap: what
  /// was ready.
  std::optional<Operator> cause;
};

struct IdleReport {
  std::vector<IdleGap> gaps;                                  ///< by stage, then by time
  std::vector<std::array<Duration, idle_reasons>> per_stage;  ///< indexed by reason
  Duration makespan{};
};

/// `result` is a run of `plans` on the problem that did not hang, from time 0 to its makespan. When inputs arrived is
/// worked out from the ends of the operators and the links' service, lanes and latency: exact where no stage ever
/// waited for a credit and nothing was disturbed, else a little early, so that some of `link` may read as `order` or
/// `cap`. What else could have run is what could go in front of all that the stage ran before it: within the caps of
/// its plan, or with dispatch `static` within those of the problem. About operators x gaps steps per stage.
IdleReport explain_idle(const PipelineProblem& problem, const std::vector<StagePlan>& plans,
                        const SimulationResult& result);
/// The same for a replay of the schedule.
IdleReport explain_idle(const PipelineProblem& problem, const Schedule& schedule, const SimulationResult& result);

/// "stage 1 idles 10 ms from 30 ms: 1B0 waits for 2B0 of stage 2, which is being computed".
std::string to_text(const PipelineShape& shape, const IdleGap& gap);
/// A table, one row per stage and one for all, one column per reason that occurs, and the idle share.
std::string to_text(const IdleReport& report);

}  // namespace stagecraft
