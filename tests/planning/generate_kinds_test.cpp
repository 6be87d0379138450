// What every generator promises: all eleven kinds, any number of stages and micro-batches.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <utility>

#include "planning/bug.hpp"
#include "planning/random.hpp"
#include "tests/planning/schedule_vectors.hpp"

namespace stagecraft::pipelines {
namespace {

constexpr ScheduleKind every_kind[] = {ScheduleKind::gpipe,   ScheduleKind::one_f_one_b, ScheduleKind::interleaved,
                                       ScheduleKind::bfs,     ScheduleKind::zb_h1,       ScheduleKind::zb_h2,
                                       ScheduleKind::zb_auto, ScheduleKind::zb_v,        ScheduleKind::v_half,
                                       ScheduleKind::v_min,   ScheduleKind::pipemorph};

// 1 to 8 stages, 1 to 16 micro-batches, numbered from 5.
template <class Check>
void for_every_list(Check check) {
  for (const ScheduleKind kind : every_kind)
    for (std::uint32_t p = 1; p <= 8; ++p)
      for (std::uint32_t m = 1; m <= 16; ++m) {
        const PipelineProblem problem = uniform_problem(shape_for(kind, p, m, 5), {3ms, 4ms, 2ms});
        SCOPED_TRACE(fmt::format("{}, {}", name_of(kind), to_text(problem.shape)));
        check(kind, problem, generate(kind, problem));
        if (is_fused(kind)) check(kind, problem, generate(kind, problem, {{}, true}));
      }
}

// The operators of the shape, each once: fused or split.
std::vector<Operator> all_operators(const PipelineShape& shape, std::uint32_t stage, bool fused) {
  std::vector<Operator> all;
  const std::vector<OperatorKind> kinds = fused ? std::vector{F, X} : std::vector{F, B, W};
  for (const OperatorKind kind : kinds)
    for (std::uint32_t c = 0; c < shape.chunks; ++c)
      for (std::uint32_t m = 0; m < shape.micro_batches; ++m)
        all.push_back({kind, shape.chunk_of(StageId{stage}, c), MicroBatch{shape.first.value + m}});
  std::sort(all.begin(), all.end());
  return all;
}

TEST(EveryGenerator, runs_every_micro_batch_once_per_chunk_and_kind) {
  for_every_list([](ScheduleKind kind, const PipelineProblem& problem, const Schedule& schedule) {
    const PipelineShape& shape = problem.shape;
    ASSERT_EQ(schedule.operators.size(), shape.stages);
    for (std::uint32_t s = 0; s < shape.stages; ++s) {
      std::vector<Operator> sorted = schedule.operators[s];
      std::sort(sorted.begin(), sorted.end());
      const bool fused = sorted.back().kind == X;
      ASSERT_TRUE(!fused || is_fused(kind));
      ASSERT_EQ(sorted, all_operators(shape, s, fused)) << "stage " << s;
    }
  });
}

TEST(EveryGenerator, keeps_the_micro_batches_of_a_chunk_and_kind_in_increasing_order) {
  for_every_list([](ScheduleKind, const PipelineProblem&, const Schedule& schedule) {
    for (const auto& order : schedule.operators) {
      std::map<std::pair<OperatorKind, ChunkId>, std::uint32_t> done;
      for (const Operator& op : order)
        ASSERT_EQ(op.micro_batch.value, 5 + done[std::pair(op.kind, op.chunk)]++) << to_text(op);
    }
  });
}

TEST(EveryGenerator, writes_lists_whose_text_reads_back) {
  for_every_list([](ScheduleKind, const PipelineProblem&, const Schedule& schedule) {
    ASSERT_EQ(parse_schedule(to_text(schedule)), schedule);
  });
}

TEST(EveryGenerator, writes_lists_that_run_to_the_end) {
  for_every_list([](ScheduleKind, const PipelineProblem& problem, const Schedule& schedule) {
    const SimulationResult result = replay(problem, schedule);
    ASSERT_FALSE(result.hung) << fmt::format("{}", fmt::join(result.blocked, "; "));
  });
}

TEST(EveryGenerator, splits_each_fused_backward_in_place_without_holding_more) {
  for_every_list([](ScheduleKind kind, const PipelineProblem& problem, const Schedule& schedule) {
    if (!is_fused(kind) || schedule.operators[0].back().kind != W) return;
    const SimulationResult whole = replay(problem, generate(kind, problem)), split = replay(problem, schedule);
    ASSERT_LE(split.makespan, whole.makespan);
    ASSERT_EQ(peaks_of(split, &StagePeaks::activations), peaks_of(whole, &StagePeaks::activations));
    ASSERT_EQ(peaks_of(split, &StagePeaks::pending_weights), std::vector(problem.shape.stages, 1U));
    ASSERT_EQ(peaks_of(whole, &StagePeaks::pending_weights), std::vector(problem.shape.stages, 0U));
  });
}

TEST(EveryGenerator, answers_for_a_bare_shape_with_its_natural_warmup) {
  for (const ScheduleKind kind : every_kind) {
    for (const auto& [p, m] : {std::pair(4U, 12U), std::pair(5U, 3U), std::pair(1U, 2U)}) {
      const PipelineShape shape = shape_for(kind, p, m, 2);
      const std::vector<std::uint32_t> warmup = natural_warmup(kind, shape);
      const Schedule schedule = generate(kind, shape, warmup);
      EXPECT_EQ(schedule, generate(kind, uniform_problem(shape, {1ms, 1ms, 1ms})))
          << name_of(kind) << ": its own warm-up changes nothing";
      for (std::uint32_t s = 0; s < p; ++s) {
        const auto& order = schedule.operators[s];
        const auto first = std::find_if(order.begin(), order.end(), [](const Operator& op) { return op.kind != F; });
        EXPECT_EQ(first - order.begin(), warmup[s]) << name_of(kind) << ", stage " << s;
      }
    }
  }
}

TEST(EveryGenerator, has_the_warmups_of_its_recipe) {
  using Counts = std::vector<std::uint32_t>;
  const auto natural_of = [](ScheduleKind kind, std::uint32_t m) {
    return natural_warmup(kind, shape_for(kind, 4, m));
  };
  EXPECT_EQ(natural_of(ScheduleKind::zb_h1, 12), (Counts{4, 3, 2, 1}));
  EXPECT_EQ(natural_of(ScheduleKind::zb_h1, 2), (Counts{2, 2, 2, 1}));
  EXPECT_EQ(natural_of(ScheduleKind::zb_h2, 12), (Counts{7, 5, 3, 1}));
  EXPECT_EQ(natural_of(ScheduleKind::zb_h2, 4), (Counts{4, 4, 3, 1}));
  EXPECT_EQ(natural_of(ScheduleKind::zb_auto, 12), (Counts{7, 5, 3, 1}));
  EXPECT_EQ(natural_of(ScheduleKind::zb_v, 12), (Counts{8, 8, 8, 8}));
  EXPECT_EQ(natural_of(ScheduleKind::v_half, 12), (Counts{6, 6, 6, 6}));
  EXPECT_EQ(natural_of(ScheduleKind::v_min, 12), (Counts{4, 4, 4, 4}));
  EXPECT_EQ(natural_of(ScheduleKind::pipemorph, 12), (Counts{7, 5, 3, 1}));
}

TEST(EveryGenerator, takes_a_given_warmup_where_it_has_use_for_one) {
  for (const ScheduleKind kind : {ScheduleKind::one_f_one_b, ScheduleKind::zb_h1, ScheduleKind::zb_h2,
                                  ScheduleKind::zb_auto, ScheduleKind::pipemorph}) {
    const PipelineProblem problem = uniform_problem(shape_for(kind, 4, 12), {10ms, 10ms, 10ms});
    const Schedule schedule = generate(kind, problem, {{6, 5, 2, 1}, false});
    for (const auto& [s, forwards] : {std::pair(0U, 6), std::pair(1U, 5), std::pair(2U, 2), std::pair(3U, 1)}) {
      const auto& order = schedule.operators[s];
      const auto first = std::find_if(order.begin(), order.end(), [](const Operator& op) { return op.kind != F; });
      EXPECT_EQ(first - order.begin(), forwards) << name_of(kind) << ", stage " << s;
    }
    EXPECT_FALSE(replay(problem, schedule).hung) << name_of(kind);
  }
}

TEST(EveryGenerator, runs_on_unequal_operators_and_slow_links) {
  for (const ScheduleKind kind : every_kind) {
    for (std::uint64_t seed = 0; seed < 40; ++seed) {
      Entropy draws(seed, "generate");
      const auto p = static_cast<std::uint32_t>(1 + draws.below(8)),
                 m = static_cast<std::uint32_t>(1 + draws.below(24));
      PipelineProblem problem = uniform_problem(shape_for(kind, p, m), {});
      const auto ms = [&](std::uint64_t most) {
        return Duration(std::chrono::microseconds(1 + draws.below(1000 * most)));
      };
      for (OperatorTimes& times : problem.times) times = {ms(20), ms(20), ms(20)};
      for (auto* links : {&problem.forward_links, &problem.backward_links})
        for (std::uint32_t b = 0; b < links->size(); ++b)
          if (!problem.shape.is_inside(b)) (*links)[b] = {ms(30), ms(5), {}};
      const SimulationResult result = replay(problem, generate(kind, problem));
      ASSERT_FALSE(result.hung) << name_of(kind) << ", seed " << seed << ": " << to_text(problem.shape)
                                << fmt::format("{}", fmt::join(result.blocked, "; "));
    }
  }
}

TEST(EveryGenerator, gives_a_replica_without_micro_batches_empty_lists) {
  for (const ScheduleKind kind : every_kind) {
    const PipelineShape shape = shape_for(kind, 3, 0);
    EXPECT_EQ(generate(kind, shape, natural_warmup(kind, shape)), (Schedule{{{}, {}, {}}})) << name_of(kind);
  }
}

TEST(EveryGenerator, says_what_its_kind_needs) {
  EXPECT_EQ(placement_of(ScheduleKind::v_min), Placement::v);
  EXPECT_EQ(placement_of(ScheduleKind::interleaved), Placement::loop);
  EXPECT_TRUE(is_fused(ScheduleKind::bfs));
  EXPECT_FALSE(is_fused(ScheduleKind::zb_h1));
  EXPECT_EQ(chunks_needed(ScheduleKind::zb_v), 2U);
  EXPECT_EQ(chunks_needed(ScheduleKind::pipemorph), 1U);
  EXPECT_EQ(chunks_needed(ScheduleKind::interleaved), std::nullopt);
}

TEST(EveryGenerator, refuses_a_shape_that_is_not_its_own) {
  const auto loop = uniform_problem(shape_of(4, 8, 2), {1ms, 1ms, 1ms});
  EXPECT_THROW(generate(ScheduleKind::zb_v, loop), Bug) << "placed in a loop";
  auto v = loop;
  v.shape.placement = Placement::v;
  EXPECT_THROW(generate(ScheduleKind::interleaved, v), Bug) << "placed in a V";
  EXPECT_THROW(generate(ScheduleKind::zb_h1, loop), Bug) << "two chunks";
  EXPECT_THROW(generate(ScheduleKind::zb_h1, uniform_problem(shape_of(4, 8), {1ms, 1ms, 1ms}), {{3, 2}, false}), Bug);
  PipelineProblem no_times;
  no_times.shape = shape_of(4, 8);
  EXPECT_THROW(generate(ScheduleKind::zb_auto, no_times), Bug);
  EXPECT_EQ(generate(ScheduleKind::zb_h2, no_times).operators.size(), 4U) << "a closed form looks at no times";
}

}  // namespace
}  // namespace stagecraft::pipelines
