#include "planning/beam.hpp"

#include <gtest/gtest.h>

#include <chrono>

#include "planning/bound.hpp"
#include "planning/bug.hpp"
#include "tests/planning/small_pipelines.hpp"

namespace stagecraft {
namespace {

using namespace std::chrono_literals;

BeamResult search(const PipelineProblem& problem, std::uint32_t width) {
  return std::get<BeamResult>(beam_search(problem, width));
}

TEST(BeamSearch, is_within_1_percent_of_95_percent_of_the_medium_optima_and_never_below_one) {
  const std::vector<small::Solved> cases = small::stored_optima("optima_medium.json");
  int close = 0;
  for (const small::Solved& solved : cases) {
    const BeamResult result = search(solved.problem, 16);
    EXPECT_GE(result.makespan, solved.optimum) << solved.text;
    EXPECT_EQ(small::makespan_within_caps(solved.problem, result.schedule), result.makespan) << solved.text;
    close += result.makespan * 1.0 <= solved.optimum * 1.01;
  }
  EXPECT_GE(close, 92) << "of " << cases.size();
}

TEST(BeamSearch, is_optimal_in_99_percent_of_the_small_cases) {
  int optimal = 0;
  for (const small::Solved& solved : small::stored_optima("optima.json"))
    optimal += search(solved.problem, 16).makespan == solved.optimum;
  EXPECT_GE(optimal, 155);
}

TEST(BeamSearch, gives_schedules_that_replay_to_its_makespan_within_all_caps) {
  Entropy draws(7, "beam");
  for (int round = 0; round < 400; ++round) {
    const PipelineProblem problem = small::random_problem(draws, {8, 12, round % 2 == 0});
    for (const std::uint32_t width : {1U, 4U, 16U}) {
      const BeamResult result = search(problem, width);
      EXPECT_EQ(small::makespan_within_caps(problem, result.schedule), result.makespan) << small::to_text(problem);
      EXPECT_GE(result.makespan, lower_bound(problem).makespan) << small::to_text(problem);
    }
  }
}

PipelineProblem pipeline(std::uint32_t stages, std::uint32_t micro_batches, std::optional<std::uint32_t> held) {
  PipelineProblem problem;
  problem.shape = {stages, 1, MicroBatch{0}, micro_batches};
  problem.times.assign(stages, {9ms, 10ms, 6ms});
  problem.caps.assign(stages, {std::nullopt, std::nullopt, held});
  return problem;
}

TEST(BeamSearch, leaves_no_bubble_on_a_long_pipeline_with_the_memory_for_it) {
  EXPECT_EQ(search(pipeline(8, 24, std::nullopt), 16).makespan, 663ms);
  EXPECT_EQ(search(pipeline(8, 24, 15), 16).makespan, 663ms);
}

TEST(BeamSearch, runs_pipelines_too_large_for_its_tables) {
  PipelineProblem problem = pipeline(4, 150, std::nullopt);
  problem.times[1] = {12ms, 9ms, 7ms};
  const BeamResult result = search(problem, 2);
  EXPECT_EQ(small::makespan_within_caps(problem, result.schedule), result.makespan);
  EXPECT_LE(result.makespan * 1.0, lower_bound(problem).makespan * 1.01);
}

TEST(BeamSearch, does_not_overflow_with_operators_of_an_hour) {
  PipelineProblem problem = pipeline(8, 40, 9);
  problem.times.assign(8, {1h, 1h, 1h});
  problem.forward_links.assign(7, {1h, {}, {}});
  problem.backward_links = problem.forward_links;
  const BeamResult result = search(problem, 4);
  EXPECT_EQ(small::makespan_within_caps(problem, result.schedule), result.makespan);
}

TEST(BeamSearch, runs_a_cap_of_one_everywhere) {
  PipelineProblem problem = pipeline(3, 4, 1);
  problem.caps.assign(3, {1, 1, 1});
  const BeamResult result = search(problem, 4);
  EXPECT_EQ(result.makespan, small::makespan_within_caps(problem, result.schedule));
  problem.caps[1].activations = 0;
  EXPECT_EQ(std::get<ImpossibleCap>(beam_search(problem, 4)),
            (ImpossibleCap{ImpossibleCap::Count::activations, StageId{1}, 0, 1}));
}

TEST(BeamSearch, refuses_several_chunks_and_no_width) {
  PipelineProblem problem = pipeline(2, 4, std::nullopt);
  EXPECT_THROW((void)beam_search(problem, 0), Bug);
  problem.shape.chunks = 2;
  problem.times.assign(4, {1ms, 1ms, 1ms});
  EXPECT_THROW((void)beam_search(problem, 4), Bug);
}

}  // namespace
}  // namespace stagecraft
