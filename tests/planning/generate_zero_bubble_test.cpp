// The zero-bubble family with one chunk per stage: the formulas of its bubbles, and the memory of its heuristic.
#include <gtest/gtest.h>

#include "planning/bug.hpp"
#include "planning/random.hpp"
#include "tests/planning/schedule_vectors.hpp"

namespace stagecraft::pipelines {
namespace {

// All with W <= F and W <= B.
constexpr OperatorTimes triples[] = {{10ms, 10ms, 10ms}, {9ms, 10ms, 6ms},   {10ms, 12ms, 5ms},
                                     {10ms, 20ms, 10ms}, {10ms, 16ms, 10ms}, {12ms, 8ms, 4ms}};
constexpr std::uint32_t sizes[] = {1, 2, 3, 4, 5, 6, 8, 12};

// Idle time of the longest stage.
Duration stage_bubble(const PipelineProblem& problem, const SimulationResult& result) {
  return stage_time(result) - problem.shape.micro_batches * problem.times[0].sum();
}

SimulationResult run(ScheduleKind kind, const PipelineProblem& problem) {
  const SimulationResult result = replay(problem, generate(kind, problem));
  EXPECT_FALSE(result.hung);
  return result;
}

// Runs `check` over sizes, times, and micro-batches from `fewest(p)` on.
template <class Fewest, class Check>
void for_many_sizes(ScheduleKind kind, Fewest fewest, Check check) {
  for (const OperatorTimes& t : triples)
    for (const std::uint32_t p : sizes)
      for (const std::uint32_t m : {fewest(p), fewest(p) + 1, fewest(p) + 4, 2 * fewest(p) + 3, 40U}) {
        const PipelineProblem problem = uniform_problem(shape_for(kind, p, m), t);
        SCOPED_TRACE(fmt::format("{}, {} / {} / {}", to_text(problem.shape), format(t.forward),
                                 format(t.backward_input), format(t.backward_weight)));
        check(problem, t, p, m);
      }
}

std::uint32_t as_many_as_stages(std::uint32_t p) { return p; }
std::uint32_t twice_the_stages_less_one(std::uint32_t p) { return 2 * p - 1; }

TEST(ZeroBubble, the_longest_stage_of_h1_idles_p_less_1_times_f_plus_b_less_w_in_the_memory_of_1f1b) {
  for_many_sizes(ScheduleKind::zb_h1, as_many_as_stages, [](const auto& problem, const auto& t, auto p, auto m) {
    const SimulationResult result = run(ScheduleKind::zb_h1, problem);
    ASSERT_EQ(stage_bubble(problem, result), (p - 1) * (t.forward + t.backward_input - t.backward_weight));
    ASSERT_EQ(peaks_of(result, &StagePeaks::held), std::vector(p, std::min(p, m)));
    ASSERT_EQ(peaks_of(result, &StagePeaks::activations), natural_warmup(ScheduleKind::zb_h1, problem.shape));
  });
}

TEST(ZeroBubble, the_longest_stage_of_h2_idles_p_less_1_times_f_plus_b_less_2w_in_twice_the_memory) {
  for_many_sizes(ScheduleKind::zb_h2, twice_the_stages_less_one, [](const auto& problem, const auto& t, auto p, auto) {
    const SimulationResult result = run(ScheduleKind::zb_h2, problem);
    if (t.forward <= t.backward_input) {
      ASSERT_EQ(stage_bubble(problem, result), (p - 1) * (t.forward + t.backward_input - 2 * t.backward_weight));
    }
    ASSERT_EQ(peaks_of(result, &StagePeaks::held), std::vector(p, 2 * p - 1));
    ASSERT_EQ(peaks_of(result, &StagePeaks::activations), natural_warmup(ScheduleKind::zb_h2, problem.shape));
  });
}

TEST(ZeroBubble, a_parallelogram_has_no_bubble_and_still_a_fill) {
  const PipelineProblem problem = uniform_problem(shape_of(4, 12), {10ms, 10ms, 10ms});
  const SimulationResult result = run(ScheduleKind::zb_h2, problem);
  EXPECT_EQ(stage_bubble(problem, result), 0ms);
  EXPECT_EQ(result.makespan, 360ms + 3 * 10ms);
}

TEST(ZeroBubble, the_formula_of_h1_is_too_low_where_w_is_the_longest_operator) {
  for (const auto& [p, bubble] : {std::pair(2U, 10ms), std::pair(4U, 30ms), std::pair(8U, 70ms)}) {
    const PipelineProblem problem = uniform_problem(shape_of(p, 24), {10ms, 10ms, 14ms});
    EXPECT_EQ(stage_bubble(problem, run(ScheduleKind::zb_h1, problem)), bubble);
  }
}

TEST(ZeroBubble, h1_has_a_larger_bubble_with_fewer_micro_batches_than_stages) {
  const PipelineProblem problem = uniform_problem(shape_of(4, 3), {10ms, 10ms, 10ms});
  EXPECT_EQ(stage_bubble(problem, run(ScheduleKind::zb_h1, problem)), 40ms);
}

TEST(ZeroBubble, small_lists_read_as_the_paper_draws_them) {
  EXPECT_EQ(to_text(natural(ScheduleKind::zb_h1, shape_of(2, 3))),
            "0F0 0F1 0B0 0W0 0F2 0B1 0W1 0B2 0W2\n"
            "1F0 1B0 1F1 1B1 1W0 1F2 1B2 1W1 1W2\n");
  EXPECT_EQ(to_text(natural(ScheduleKind::zb_h2, shape_of(2, 4))),
            "0F0 0F1 0F2 0B0 0W0 0F3 0B1 0W1 0B2 0W2 0B3 0W3\n"
            "1F0 1B0 1F1 1B1 1F2 1B2 1W0 1F3 1B3 1W1 1W2 1W3\n");
}

PipelineProblem capped(PipelineProblem problem, std::uint32_t held) {
  problem.caps.assign(problem.shape.stages, {{}, {}, held});
  return problem;
}

TEST(ZeroBubbleHeuristic, meets_the_formula_of_h1_at_its_memory) {
  for_many_sizes(ScheduleKind::zb_auto, as_many_as_stages, [](const auto& problem, const auto& t, auto p, auto) {
    ASSERT_EQ(stage_bubble(problem, run(ScheduleKind::zb_auto, capped(problem, p))),
              (p - 1) * (t.forward + t.backward_input - t.backward_weight));
  });
}

TEST(ZeroBubbleHeuristic, meets_the_formula_of_h2_at_its_memory) {
  for_many_sizes(ScheduleKind::zb_auto, twice_the_stages_less_one,
                 [](const auto& problem, const auto& t, auto p, auto) {
                   ASSERT_EQ(stage_bubble(problem, run(ScheduleKind::zb_auto, capped(problem, 2 * p - 1))),
                             (p - 1) * (t.forward + t.backward_input - 2 * t.backward_weight));
                 });
}

// 1 to 8 stages, times, latencies, and caps on any of the three counts, from 1 on and unequal.
PipelineProblem random_problem(std::uint64_t seed) {
  Entropy draws(seed, "zb-auto");
  const auto p = static_cast<std::uint32_t>(1 + draws.below(8)), m = static_cast<std::uint32_t>(1 + draws.below(24));
  PipelineProblem problem = uniform_problem(shape_of(p, m, 1, 3), {});
  const auto ms = [&](std::uint64_t least, std::uint64_t most) { return Duration((least + draws.below(most)) * 1ms); };
  for (OperatorTimes& times : problem.times) times = {ms(1, 15), ms(1, 15), ms(1, 15)};
  for (auto* links : {&problem.forward_links, &problem.backward_links})
    for (LinkCost& link : *links) link.latency = draws.below(2) == 0 ? 0ms : ms(0, 30);
  const auto cap = [&]() -> std::optional<std::uint32_t> {
    if (draws.below(3) == 0) return std::nullopt;
    return static_cast<std::uint32_t>(1 + draws.below(2 * p));
  };
  for (std::uint32_t s = 0; s < p; ++s) problem.caps.push_back({cap(), cap(), cap()});
  return problem;
}

TEST(ZeroBubbleHeuristic, never_exceeds_a_cap_and_never_hangs_in_1000_random_cases) {
  for (std::uint64_t seed = 0; seed < 1000; ++seed) {
    const PipelineProblem problem = random_problem(seed);
    SCOPED_TRACE(fmt::format("seed {}, {}", seed, to_text(problem.shape)));
    const SimulationResult result = run(ScheduleKind::zb_auto, problem);
    for (std::uint32_t s = 0; s < problem.shape.stages; ++s) {
      const StageCaps& caps = problem.caps[s];
      ASSERT_LE(result.peaks[s].activations, caps.activations.value_or(24)) << "stage " << s;
      ASSERT_LE(result.peaks[s].pending_weights, caps.pending_weights.value_or(24)) << "stage " << s;
      ASSERT_LE(result.peaks[s].held, caps.held.value_or(24)) << "stage " << s;
    }
  }
}

// Pipelines that lists without the switch need 4 to 13 ms longer for.
TEST(ZeroBubbleHeuristic, needs_each_of_its_three_switches) {
  const auto longest_stage = [](std::uint32_t m, std::uint32_t held, std::vector<OperatorTimes> times) {
    PipelineProblem problem = capped(uniform_problem(shape_of(3, m), {}), held);
    problem.times = std::move(times);
    return stage_time(run(ScheduleKind::zb_auto, problem));
  };
  EXPECT_EQ(longest_stage(4, 5, {{12ms, 2ms, 1ms}, {7ms, 2ms, 2ms}, {6ms, 2ms, 2ms}}), 70ms)
      << "one more forward, although it makes the first backward late";
  EXPECT_EQ(longest_stage(4, 5, {{8ms, 10ms, 7ms}, {11ms, 12ms, 1ms}, {12ms, 3ms, 5ms}}), 122ms)
      << "a forward left out";
  EXPECT_EQ(longest_stage(3, 5, {{3ms, 4ms, 6ms}, {6ms, 6ms, 9ms}, {7ms, 6ms, 4ms}}), 68ms)
      << "a wait filled with a W that doesn't fit";
}

TEST(ZeroBubbleHeuristic, runs_one_micro_batch_at_a_time_where_memory_has_one_place) {
  const PipelineProblem problem = capped(uniform_problem(shape_of(2, 2), {10ms, 10ms, 10ms}), 1);
  EXPECT_EQ(to_text(generate(ScheduleKind::zb_auto, problem)), "0F0 0B0 0W0 0F1 0B1 0W1\n1F0 1B0 1W0 1F1 1B1 1W1\n");
}

TEST(ZeroBubbleHeuristic, refuses_a_stage_without_a_place) {
  EXPECT_THROW(generate(ScheduleKind::zb_auto, capped(uniform_problem(shape_of(2, 2), {1ms, 1ms, 1ms}), 0)), Bug);
}

TEST(ZeroBubbleHeuristic, waits_for_a_late_gradient_with_more_forwards) {
  PipelineProblem problem = uniform_problem(shape_of(2, 12), {10ms, 10ms, 10ms});
  const auto forwards_first = [&] {
    const auto order = generate(ScheduleKind::zb_auto, problem).operators[0];
    return std::find_if(order.begin(), order.end(), [](const Operator& op) { return op.kind != F; }) - order.begin();
  };
  EXPECT_EQ(forwards_first(), 3);
  problem.forward_links[0].latency = problem.backward_links[0].latency = 10ms;
  EXPECT_EQ(forwards_first(), 5) << "the gradient is there 20 ms later";
  problem.caps.assign(2, {4U, {}, {}});
  EXPECT_EQ(forwards_first(), 4) << "and memory has four places";
}

}  // namespace
}  // namespace stagecraft::pipelines
