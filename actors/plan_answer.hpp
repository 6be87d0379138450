// A plan that runs, for people who ask for it. Pure; any thread.
#pragma once

#include "actors/job.hpp"
#include "actors/wish_messages.hpp"

namespace stagecraft {

/// A row for each stage of each replica: its operators in the order of their list, or else as they were forecast.
WishAnswer plan_answer(WishId wish, const Job& job, const std::vector<PipelinePlan>& plans);

}  // namespace stagecraft
