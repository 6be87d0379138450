// A plan with everything a person wants to know of it: how long an iteration takes when links are what they are (not
// what the plan was made for), what stages hold, what links could still bear. Pure; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "planning/bound.hpp"
#include "planning/idle.hpp"
#include "planning/plan.hpp"

namespace stagecraft {

struct StagePrice {
  std::uint32_t warmup = 0;  ///< forwards before the first backward, as they ran
  StagePeaks peaks;
  Bytes peak_bytes;  ///< activations and tensors in slots
  Duration busy{};
  Duration first_start{}, last_end{};
};

/// The link between two neighbouring stages. Latencies and budgets are those of one direction of a link that is equally
/// slow both ways; they are known for one chunk per stage whose warm-ups fall from stage to stage.
struct LinkPrice {
  StageId from, to;
  Duration latency{};  ///< the mean of both directions
  std::optional<std::int64_t> slack;
  std::optional<Duration> budget;  ///< largest latency at which a fixed order keeps its period; none: any, or unknown
  std::optional<Duration> published;  ///< the same by the published condition; may be negative
};

struct PricedPlan {
  PipelinePlan plan;
  SimulationResult result;  ///< the plan on the real links
  LowerBound bound;         ///< of any schedule on the real links within the caps of the request
  double idle = 0;          ///< share of all stages' time until the last of them ends
  std::vector<StagePrice> stages;
  std::vector<LinkPrice> links;
  IdleReport waits;  ///< what every idle gap waited for
  bool has_budgets = false;
};

/// Plans for `assumed` and runs it on the links of `real`; the two differ in nothing else.
PricedPlan price(const PlanRequest& assumed, const PlanRequest& real);

}  // namespace stagecraft
