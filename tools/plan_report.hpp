// What a person and a script get to see of a plan. Any thread.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "planning/exact.hpp"
#include "planning/price.hpp"

namespace stagecraft::tools {

/// A priced plan and how it was asked for.
struct PlanView {
  std::string name;  ///< the schedule's
  Dispatch dispatch = Dispatch::in_order;
  PipelineShape shape;
  PricedPlan priced;
  std::optional<ExactResult> exact;  ///< where it was searched for
  bool differs = false;              ///< the links are not what the plan was made for
  std::uint32_t replicas = 1;        ///< the plan is the first one's
};

/// A schedule of --compare: its plan, or why it has none.
struct ComparedPlan {
  std::string name;
  std::optional<PlanView> view;
  std::vector<std::string> problems;
};

/// The plan, its tables and its timeline.
std::string plan_text(const PlanView& view, std::size_t width);
/// One row per plan, that of the plan itself first.
std::string comparison_text(const PlanView& view, const std::vector<ComparedPlan>& compared);
/// One line of JSON, see docs/user-guide.md.
std::string plan_json(const PlanView& view, const std::vector<ComparedPlan>& compared);

}  // namespace stagecraft::tools
