// When measured operator times are worth a new plan, and that plan. Pure; one owner; not thread-safe.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "planning/plan.hpp"

namespace stagecraft {

/// Looks at the times of one iteration after the other, per chunk. Wants a plan once the first two iterations are
/// measured if the present plan was made without knowing any times, and whenever an operator has taken at least a
/// tenth more or less than planned in two iterations in a row (one may be an accident). The first iteration is not
/// looked at: it pays for everything that happens once.
class ReplanMachine {
 public:
  ReplanMachine() = default;
  /// `basis`: the times that the present plan was made for; empty: nobody knows any.
  explicit ReplanMachine(std::vector<OperatorTimes> basis) : basis_(std::move(basis)) {}

  /// Why a new plan is wanted, for exactly these times; they are the new basis then.
  std::optional<std::string> step(const std::vector<OperatorTimes>& measured);

 private:
  std::vector<OperatorTimes> basis_;
  std::uint32_t seen_ = 0;
  std::optional<std::size_t> suspect_;  // chunk x 3 + kind that had moved the last time
};

struct Replanned {
  PipelinePlan plan;
  Duration before{};   ///< an iteration under the present plan, at the measured times
  bool pays = false;   ///< at least a hundredth shorter
  std::string reason;  ///< the numbers
};

/// What the stages may hold under a plan: its caps, or, of a list that runs in order, what it holds.
std::vector<StageCaps> limits_of(const PipelinePlan& plan);

/// A plan for the measured times. `request`: what the first plan was made from, with the limits of that plan, for which
/// the memory is there. `present`: the plan in force.
Replanned replan(PlanRequest request, const PipelinePlan& present, const std::vector<OperatorTimes>& measured);

}  // namespace stagecraft
