// What an iteration takes besides its pipeline (optimizer, launches, copies of delegated tensors), fitted to the
// published healthy iterations. Pure functions on values; any thread.
#pragma once

#include "planning/reproduce/experiment.hpp"
#include "planning/reproduce/published.hpp"

namespace stagecraft::reproduce {

struct FixedCosts {
  Duration one_f_one_b{};  ///< of the runtime that runs 1F1B
  Duration zero_bubble{};  ///< of the one that runs zero bubble, over its direct routes
  Duration delegated{};    ///< of the same with every transfer delegated
  /// While a link is slow every system but the first two pays for delegating all transfers, though it delegates only
  /// those of the slow link: no less than it would really pay. While none is, only `delegated` does.
  Duration of(System system, bool is_slow) const;
};

/// The model on its pipeline, no link slow.
Setting setting_of(const PublishedModel& model, Memory memory);

/// The published healthy iteration less the simulated one. 140B, of which none was published: those of 60B.
FixedCosts fixed_costs(ModelSize size);

/// 7B with two replicas: from the healthy point of Figure 3; delegating costs as much more as in Figure 21.
FixedCosts fixed_costs_of_replicas();

}  // namespace stagecraft::reproduce
