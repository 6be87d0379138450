#include "planning/replan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>

#include "planning/bug.hpp"
#include "planning/forecast.hpp"

namespace stagecraft {

namespace {

constexpr std::array<OperatorKind, 3> kinds{OperatorKind::forward, OperatorKind::backward_input,
                                            OperatorKind::backward_weight};

double change(Duration measured, Duration planned) {
  if (planned.count() == 0) return measured.count() == 0 ? 0 : 1;
  return static_cast<double>(measured.count()) / static_cast<double>(planned.count()) - 1;
}

}  // namespace

std::optional<std::string> ReplanMachine::step(const std::vector<OperatorTimes>& measured) {
  if (++seen_ == 1) return std::nullopt;
  if (basis_.empty()) {
    basis_ = measured;
    return "the first operators are measured";
  }
  STAGECRAFT_ASSERT(measured.size() == basis_.size(), "times of {} chunks instead of {}", measured.size(),
                    basis_.size());
  std::optional<std::size_t> worst;
  double most = 0.1;
  for (std::size_t i = 0; i < 3 * basis_.size(); ++i) {
    const double moved = std::abs(change(measured[i / 3].of(kinds[i % 3]), basis_[i / 3].of(kinds[i % 3])));
    if (moved >= most) most = moved, worst = i;
  }
  const bool again = worst && suspect_ == worst;
  suspect_ = again ? std::nullopt : worst;
  if (!again) return std::nullopt;
  const Operator op{kinds[*worst % 3], {static_cast<std::uint32_t>(*worst / 3)}, {}};
  const Duration now = measured[op.chunk.value].of(op.kind), planned = basis_[op.chunk.value].of(op.kind);
  basis_ = measured;
  return fmt::format("{} of chunk {} takes {}, planned were {}", letter(op.kind), op.chunk.value, format(now),
                     format(planned));
}

std::vector<StageCaps> limits_of(const PipelinePlan& plan) {
  std::vector<StageCaps> limits;
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    const StagePeaks& peaks = plan.forecast.peaks[s];
    const bool has_caps = plan.stages[s].dispatch != Dispatch::in_order;
    limits.push_back(has_caps ? plan.stages[s].caps : StageCaps{peaks.activations, peaks.pending_weights, peaks.held});
  }
  return limits;
}

Replanned replan(PlanRequest request, const PipelinePlan& present, const std::vector<OperatorTimes>& measured) {
  request.times = measured;
  request.credits = present.credits;
  Replanned result;
  result.before = forecast(request, present.stages, present.credits).makespan;
  result.plan = make_plan(request);
  const Duration after = result.plan.forecast.makespan;
  result.pays = after.count() * 100 <= result.before.count() * 99;
  result.reason = fmt::format("{} of {} candidates: {} per iteration instead of {}", result.plan.made_by,
                              result.plan.candidates.size(), format(after), format(result.before));
  return result;
}

}  // namespace stagecraft
