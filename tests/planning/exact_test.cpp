#include "planning/exact.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <functional>

#include "planning/bound.hpp"
#include "planning/bug.hpp"
#include "planning/generate.hpp"
#include "tests/planning/small_pipelines.hpp"

namespace stagecraft {
namespace {

using namespace std::chrono_literals;

ExactResult solve(const PipelineProblem& problem, const ExactOptions& options = {}) {
  return std::get<ExactResult>(exact_search(problem, options));
}

void expect_proven(const std::string& file, std::uint64_t most_nodes) {
  for (const small::Solved& solved : small::stored_optima(file)) {
    for (const std::uint32_t width : {1U, 16U}) {
      const ExactResult result = solve(solved.problem, {.nodes = most_nodes, .beam_width = width});
      EXPECT_TRUE(result.proven) << solved.text;
      EXPECT_EQ(result.makespan, solved.optimum) << solved.text;
      EXPECT_EQ(result.lower_bound, solved.optimum) << solved.text;
      EXPECT_EQ(small::makespan_within_caps(solved.problem, result.schedule), solved.optimum) << solved.text;
    }
  }
}

TEST(ExactSearch, proves_every_small_optimum_within_233_nodes) { expect_proven("optima.json", 233); }

TEST(ExactSearch, proves_every_medium_optimum_within_15428_nodes) { expect_proven("optima_medium.json", 15'428); }

// Every way to run the operators of one stage in index order.
std::vector<std::vector<Operator>> all_lists(StageId stage, const PipelineShape& shape) {
  std::vector<std::vector<Operator>> lists;
  std::vector<Operator> list;
  const std::uint32_t n = shape.micro_batches;
  const std::function<void(std::uint32_t, std::uint32_t, std::uint32_t)> extend = [&](std::uint32_t f, std::uint32_t b,
                                                                                      std::uint32_t w) {
    if (w == n) return lists.push_back(list);
    const auto with = [&](OperatorKind kind, std::uint32_t k, const auto& then) {
      list.push_back({kind, ChunkId{stage.value}, MicroBatch{shape.first.value + k}});
      then();
      list.pop_back();
    };
    if (f < n) with(OperatorKind::forward, f, [&] { extend(f + 1, b, w); });
    if (b < f) with(OperatorKind::backward_input, b, [&] { extend(f, b + 1, w); });
    if (w < b) with(OperatorKind::backward_weight, w, [&] { extend(f, b, w + 1); });
  };
  extend(0, 0, 0);
  return lists;
}

Duration best_of_all(const PipelineProblem& problem) {
  std::vector<std::vector<std::vector<Operator>>> lists;
  for (std::uint32_t s = 0; s < problem.shape.stages; ++s) lists.push_back(all_lists(StageId{s}, problem.shape));
  Duration best = Duration::max();
  Schedule schedule;
  schedule.operators.resize(problem.shape.stages);
  const std::function<void(std::uint32_t)> choose = [&](std::uint32_t s) {
    if (s == problem.shape.stages) {
      best = std::min(best, small::makespan_within_caps(problem, schedule).value_or(best));
      return;
    }
    for (const auto& list : lists[s]) {
      schedule.operators[s] = list;
      choose(s + 1);
    }
  };
  choose(0);
  return best;
}

TEST(ExactSearch, finds_the_best_of_all_schedules_of_tiny_pipelines_with_and_without_queueing_messages) {
  Entropy draws(3, "exact tiny");
  for (int round = 0; round < 80; ++round) {
    const bool deep = round % 2 == 0;
    const small::Ranges ranges{deep ? 3U : 2U, deep ? 2U : 3U, round % 4 < 2};
    const PipelineProblem problem = small::random_problem(draws, ranges);
    const ExactResult result = solve(problem, {.beam_width = 1});
    EXPECT_TRUE(result.proven);
    EXPECT_EQ(result.makespan, best_of_all(problem)) << small::to_text(problem);
  }
}

TEST(ExactSearch, gives_schedules_that_replay_to_its_makespan_within_all_caps) {
  Entropy draws(4, "exact");
  for (int round = 0; round < 500; ++round) {
    const PipelineProblem problem = small::random_problem(draws, {5, 6, round % 2 == 0});
    const ExactResult result = solve(problem, {.beam_width = 1});
    const ExactResult forgetful = solve(problem, {.nodes = 200'000, .memory = 0, .beam_width = 1});
    EXPECT_TRUE(result.proven) << small::to_text(problem);
    EXPECT_EQ(small::makespan_within_caps(problem, result.schedule), result.makespan) << small::to_text(problem);
    EXPECT_LE(lower_bound(problem).makespan, result.makespan) << small::to_text(problem);
    if (forgetful.proven) {
      EXPECT_EQ(forgetful.makespan, result.makespan) << small::to_text(problem);
    }
  }
}

// 4 stages x 12 micro-batches at tight memory.
PipelineProblem larger_problem() {
  PipelineProblem problem;
  problem.shape = {4, 1, MicroBatch{0}, 12};
  problem.times = {{3ms, 7ms, 4ms}, {5ms, 5ms, 5ms}, {4ms, 6ms, 7ms}, {6ms, 4ms, 3ms}};
  problem.forward_links.assign(3, {4ms, {}, {}});
  problem.backward_links.assign(3, {2ms, {}, {}});
  problem.caps.assign(4, {std::nullopt, 2, 4});
  return problem;
}

TEST(ExactSearch, proves_four_stages_with_twelve_micro_batches) {
  const ExactResult result = solve(larger_problem());
  EXPECT_TRUE(result.proven);
  EXPECT_EQ(small::makespan_within_caps(larger_problem(), result.schedule), result.makespan);
}

TEST(ExactSearch, says_what_it_has_when_the_node_budget_is_used_up) {
  const ExactResult result = solve(larger_problem(), {.nodes = 20, .beam_width = 1});
  EXPECT_FALSE(result.proven);
  EXPECT_EQ(result.nodes, 20U);
  EXPECT_EQ(result.lower_bound, lower_bound(larger_problem()).makespan);
  EXPECT_EQ(small::makespan_within_caps(larger_problem(), result.schedule), result.makespan);
}

TEST(ExactSearch, starts_from_the_schedule_it_is_given) {
  const ExactResult best = solve(larger_problem());
  const ExactResult result = solve(larger_problem(), {.nodes = 0, .beam_width = 1, .incumbent = best.schedule});
  EXPECT_EQ(result.makespan, best.makespan);
  EXPECT_EQ(result.nodes, 0U);
}

TEST(ExactSearch, refuses_to_start_from_a_schedule_that_holds_too_much) {
  PipelineProblem problem = larger_problem();
  const Schedule schedule = solve(problem).schedule;
  problem.caps[0].held = 1;
  EXPECT_THROW((void)exact_search(problem, {.incumbent = schedule}), Bug);
}

TEST(ExactSearch, runs_one_stage_alone_without_a_gap) {
  PipelineProblem problem;
  problem.shape = {1, 1, MicroBatch{5}, 7};
  problem.times = {{3ms, 4ms, 5ms}};
  const ExactResult result = solve(problem);
  EXPECT_TRUE(result.proven);
  EXPECT_EQ(result.makespan, 7 * 12ms);
  EXPECT_EQ(result.schedule.operators[0].front(), (Operator{OperatorKind::forward, ChunkId{0}, MicroBatch{5}}));
}

TEST(ExactSearch, says_the_smallest_cap_that_would_do) {
  PipelineProblem problem = larger_problem();
  problem.caps[2].pending_weights = 0;
  EXPECT_EQ(std::get<ImpossibleCap>(exact_search(problem)),
            (ImpossibleCap{ImpossibleCap::Count::pending_weights, StageId{2}, 0, 1}));
}

}  // namespace
}  // namespace stagecraft
