// The planner: against proven optima, against every published schedule, and within its caps.
#include "planning/planner.hpp"

#include <gtest/gtest.h>

#include <set>

#include "planning/generate.hpp"
#include "planning/random.hpp"
#include "planning/replay.hpp"
#include "tests/planning/pipelines.hpp"
#include "tests/planning/small_pipelines.hpp"

namespace stagecraft::pipelines {
namespace {

PlannedPipeline plan_of(const PipelineProblem& problem, Effort effort = Effort::full) {
  auto outcome = plan_pipeline(problem, effort);
  EXPECT_TRUE(std::holds_alternative<PlannedPipeline>(outcome));
  return std::get<PlannedPipeline>(std::move(outcome));
}

double ratio(Duration a, Duration b) { return static_cast<double>(a.count()) / static_cast<double>(b.count()); }

bool fits(const PipelineProblem& problem, const SimulationResult& result) {
  if (result.hung) return false;
  for (std::size_t s = 0; s < problem.caps.size(); ++s) {
    const StageCaps& caps = problem.caps[s];
    const StagePeaks& peaks = result.peaks[s];
    if (peaks.activations > caps.activations.value_or(~0U) || peaks.held > caps.held.value_or(~0U) ||
        peaks.pending_weights > caps.pending_weights.value_or(~0U))
      return false;
  }
  return true;
}

// Unequal stages, slow links, caps of every tightness.
PipelineProblem random_problem(std::uint64_t seed, std::uint32_t most_stages, std::uint32_t most_micro_batches) {
  Entropy draw(seed, "planner test");
  const auto between = [&](std::uint64_t low, std::uint64_t high) {
    return static_cast<std::uint32_t>(draw.between(low, high));
  };
  PipelineProblem problem;
  problem.shape = shape_of(between(1, most_stages), between(1, most_micro_batches), 1, between(0, 3));
  const std::uint32_t p = problem.shape.stages, m = problem.shape.micro_batches;
  const std::uint32_t spread = between(0, 2) * 3;
  const bool delayed = draw.below(2) == 0;
  const std::uint32_t f = between(4, 12), b = between(4, 12), w = between(2, 12), kind = between(0, 3);
  for (std::uint32_t s = 0; s < p; ++s) {
    problem.times.push_back({between(f, f + spread) * 1ms, between(b, b + spread) * 1ms, between(w, w + spread) * 1ms});
    StageCaps caps;
    if (kind > 0) caps.held = between(std::min(p, m), 2 * p);
    if (kind > 1) caps.activations = between(1, p + 1);
    if (kind > 2) caps.pending_weights = between(1, 4);
    problem.caps.push_back(caps);
    if (s + 1 == p) break;
    problem.forward_links.push_back({delayed ? between(0, 15) * 1ms : 0ms});
    problem.backward_links.push_back({delayed ? between(0, 15) * 1ms : 0ms});
  }
  return problem;
}

TEST(Planner, meets_nearly_all_stored_optima) {
  for (const auto& [file, share] : {std::pair{"optima.json", 0.99}, std::pair{"optima_medium.json", 0.95}}) {
    const auto cases = small::stored_optima(file);
    std::size_t close = 0;
    for (const small::Solved& solved : cases) {
      const PlannedPipeline plan = plan_of(solved.problem);
      EXPECT_GE(plan.forecast.makespan, solved.optimum) << solved.text;
      EXPECT_LE(plan.bound.makespan, solved.optimum) << solved.text;
      close += ratio(plan.forecast.makespan, solved.optimum) <= 1.01;
    }
    EXPECT_GE(static_cast<double>(close), share * static_cast<double>(cases.size())) << file;
    RecordProperty(file, std::to_string(close) + " of " + std::to_string(cases.size()) + " within 1 %");
  }
}

TEST(Planner, is_never_worse_than_a_published_schedule_that_keeps_the_same_caps) {
  for (std::uint64_t seed = 0; seed < 1'000; ++seed) {
    const PipelineProblem problem = random_problem(seed, 6, 10);
    const PlannedPipeline plan = plan_of(problem);
    ASSERT_TRUE(fits(problem, plan.forecast)) << "seed " << seed;
    ASSERT_EQ(replay(problem, plan.schedule).makespan, plan.forecast.makespan) << "seed " << seed;
    ASSERT_EQ(parse_schedule(to_text(plan.schedule)), plan.schedule) << "seed " << seed;
    ASSERT_GE(plan.forecast.makespan, plan.bound.makespan) << "seed " << seed;
    for (const ScheduleKind kind : {ScheduleKind::gpipe, ScheduleKind::one_f_one_b, ScheduleKind::zb_h1,
                                    ScheduleKind::zb_h2, ScheduleKind::zb_auto, ScheduleKind::pipemorph})
      for (const bool split : {false, true}) {
        const SimulationResult published = replay(problem, generate(kind, problem, {{}, split}));
        if (!fits(problem, published)) continue;
        ASSERT_LE(plan.forecast.makespan, published.makespan) << "seed " << seed << ", " << name_of(kind);
      }
  }
}

TEST(Planner, is_within_one_percent_of_the_bound_on_average_at_tight_memory) {
  double sum = 0;
  const int cases = 60;
  for (std::uint64_t seed = 0; seed < cases; ++seed) {
    PipelineProblem problem = random_problem(seed, 8, 24);
    const std::uint32_t p = problem.shape.stages;
    problem.shape.micro_batches = std::max(problem.shape.micro_batches, p);
    for (StageCaps& caps : problem.caps) caps = {{}, {}, static_cast<std::uint32_t>(p + seed % std::max(p, 1U))};
    const PlannedPipeline plan = plan_of(problem);
    sum += ratio(plan.forecast.makespan, plan.bound.makespan) - 1;
  }
  RecordProperty("mean_gap_percent", std::to_string(100 * sum / cases));
  EXPECT_LT(sum / cases, 0.01);
}

TEST(Planner, quick_plans_keep_every_cap_and_proceed) {
  for (std::uint64_t seed = 0; seed < 3'000; ++seed) {
    const PipelineProblem problem = random_problem(seed, 8, 24);
    ASSERT_TRUE(fits(problem, plan_of(problem, Effort::quick).forecast)) << "seed " << seed;
  }
}

PipelineProblem worked_example(Duration first_link) {
  PipelineProblem problem;
  problem.shape = shape_of(4, 12);
  problem.times.assign(4, {10ms, 10ms, 10ms});
  problem.forward_links = {{first_link}, {}, {}};
  problem.backward_links = problem.forward_links;
  return problem;
}

TEST(Planner, plans_the_worked_example_as_well_as_can_be) {
  for (const auto& [delay, best] : {std::pair{0ms, 390ms}, std::pair{20ms, 410ms}, std::pair{40ms, 430ms}}) {
    const PlannedPipeline plan = plan_of(worked_example(delay));
    EXPECT_EQ(plan.forecast.makespan, best);
    EXPECT_EQ(plan.bound.makespan, best) << "and that nobody can do better is known";
  }
}

TEST(Planner, two_chunks_in_a_v_are_planned_too) {
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    Entropy draw(seed, "v plans");
    PipelineProblem problem;
    problem.shape =
        shape_of(static_cast<std::uint32_t>(draw.between(2, 5)), static_cast<std::uint32_t>(draw.between(1, 10)), 2);
    problem.shape.placement = Placement::v;
    for (std::uint32_t c = 0; c < problem.shape.total_chunks(); ++c)
      problem.times.push_back({draw.between(5, 9) * 1ms, draw.between(5, 9) * 1ms, draw.between(3, 7) * 1ms});
    problem.caps.assign(problem.shape.stages, {{}, {}, 2 * problem.shape.stages});
    const PlannedPipeline plan = plan_of(problem);
    ASSERT_TRUE(fits(problem, plan.forecast)) << "seed " << seed;
    for (const ScheduleKind kind : {ScheduleKind::zb_v, ScheduleKind::v_half, ScheduleKind::v_min})
      ASSERT_LE(plan.forecast.makespan, replay(problem, generate(kind, problem)).makespan) << "seed " << seed;
  }
}

TEST(Planner, names_the_cap_that_nobody_can_keep) {
  PipelineProblem problem = worked_example(0ms);
  problem.caps.assign(4, {});
  problem.caps[2].held = 0;
  const auto outcome = plan_pipeline(problem, Effort::full);
  const auto* impossible = std::get_if<ImpossibleCap>(&outcome);
  ASSERT_TRUE(impossible);
  EXPECT_EQ(impossible->stage, StageId{2});
  EXPECT_EQ(impossible->smallest, 1U);
}

TEST(Planner, says_what_it_looked_at) {
  const PlannedPipeline plan = plan_of(worked_example(20ms));
  std::set<std::string> names;
  bool winner = false;
  for (const Candidate& candidate : plan.candidates) {
    names.insert(candidate.name);
    if (candidate.name == plan.name) winner = candidate.fits && candidate.makespan == plan.forecast.makespan;
  }
  EXPECT_TRUE(winner) << plan.name;
  for (const char* name : {"gpipe", "1f1b", "zb-h1", "zb-h2", "zb-auto", "pipemorph"}) EXPECT_TRUE(names.count(name));
}

TEST(Planner, the_same_problem_gives_the_same_plan) {
  const PipelineProblem problem = random_problem(7, 6, 12);
  EXPECT_EQ(plan_of(problem).schedule, plan_of(problem).schedule);
}

}  // namespace
}  // namespace stagecraft::pipelines
