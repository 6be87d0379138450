// The generators of static schedules, against their defining properties, closed forms and recorded vectors.
#include "planning/generate.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "tests/planning/schedule_vectors.hpp"

namespace stagecraft::pipelines {
namespace {

// 2 to 8 stages, 1 to 32 micro-batches.
template <class Check>
void for_all_shapes(std::uint32_t fewest_chunks, std::uint32_t most_chunks, Check check) {
  for (std::uint32_t p = 2; p <= 8; ++p)
    for (std::uint32_t m = 1; m <= 32; ++m)
      for (std::uint32_t v = fewest_chunks; v <= most_chunks; ++v) check(shape_of(p, m, v));
}

Duration makespan_of(ScheduleKind kind, const PipelineShape& shape, const OperatorTimes& times, std::uint32_t credits) {
  SimulationInput input = input_of(shape, static_plans(shape, natural(kind, shape)), times);
  input.credits = credits;
  const SimulationResult result = simulate(input);
  EXPECT_FALSE(result.hung) << name_of(kind) << ", " << to_text(shape) << ", " << credits
                            << " credits: " << fmt::format("{}", fmt::join(result.blocked, "; "));
  return result.makespan;
}

// Forwards before the first backward, per stage.
std::vector<std::uint32_t> forwards_first(const Schedule& schedule) {
  std::vector<std::uint32_t> counts;
  for (const auto& order : schedule.operators) {
    const auto first = std::find_if(order.begin(), order.end(), [](const Operator& op) { return op.kind == X; });
    counts.push_back(static_cast<std::uint32_t>(first - order.begin()));
  }
  return counts;
}

TEST(Generate, the_recorded_vectors_with_fused_backwards_are_met_exactly) {
  std::map<std::string, int> seen;
  for (const auto& record : schedule_vectors()) {
    SCOPED_TRACE(record.dump());
    const auto kind = parse_schedule_kind(record["schedule"].get<std::string>());
    if (!kind || !is_fused(*kind)) continue;
    ++seen[record["schedule"].get<std::string>()];
    const auto ms = [&](const char* field) { return record[field].get<int>() * 1ms; };
    const PipelineShape shape = shape_of(record["p"], record["m"], record["v"]);
    SimulationInput input = input_of(shape, static_plans(shape, natural(*kind, shape)), {ms("F"), ms("B"), ms("W")});
    set_links(input, {ms("lat"), ms("occ"), {}});
    const SimulationResult result = simulate(input);
    EXPECT_FALSE(result.hung);
    EXPECT_EQ(result.makespan, ms("makespan"));
    EXPECT_EQ(peaks_of(result, &StagePeaks::activations), record["act"].get<std::vector<std::uint32_t>>());
    EXPECT_EQ(peaks_of(result, &StagePeaks::held), record["mem"].get<std::vector<std::uint32_t>>());
    EXPECT_EQ(peaks_of(result, &StagePeaks::pending_weights), std::vector<std::uint32_t>(shape.stages, 0))
        << "a fused backward leaves nothing pending";
  }
  EXPECT_EQ(seen, (std::map<std::string, int>{{"gpipe", 22}, {"1f1b", 30}, {"interleaved", 52}, {"bfs", 21}}));
}

TEST(Generate, every_micro_batch_runs_exactly_once_each_way_on_each_chunk_of_its_stage) {
  for (const ScheduleKind kind : all_kinds) {
    for_all_shapes(1, 3, [&](PipelineShape shape) {
      shape.first = MicroBatch{5};
      SCOPED_TRACE(fmt::format("{}, {}", name_of(kind), to_text(shape)));
      const Schedule schedule = natural(kind, shape);
      ASSERT_EQ(schedule.operators.size(), shape.stages);
      for (std::uint32_t s = 0; s < shape.stages; ++s) {
        std::vector<Operator> expected;
        for (const OperatorKind op : {F, X})
          for (std::uint32_t c = 0; c < shape.chunks; ++c)
            for (std::uint32_t m = 5; m < 5 + shape.micro_batches; ++m)
              expected.push_back({op, ChunkId{c * shape.stages + s}, MicroBatch{m}});
        std::vector<Operator> sorted = schedule.operators[s];
        std::sort(sorted.begin(), sorted.end());
        std::sort(expected.begin(), expected.end());
        ASSERT_EQ(sorted, expected) << "stage " << s;
      }
    });
  }
}

TEST(Generate, micro_batches_come_in_increasing_order_on_each_chunk_and_each_way) {
  for (const ScheduleKind kind : all_kinds) {
    for_all_shapes(1, 3, [&](const PipelineShape& shape) {
      const Schedule schedule = natural(kind, shape);
      for (const auto& order : schedule.operators) {
        std::map<std::pair<OperatorKind, ChunkId>, std::uint32_t> next;
        for (const Operator& op : order)
          ASSERT_EQ(op.micro_batch.value, next[std::pair(op.kind, op.chunk)]++)
              << to_text(op) << " in " << name_of(kind) << ", " << to_text(shape);
      }
    });
  }
}

TEST(Generate, every_schedule_survives_the_way_to_text_and_back) {
  for (const ScheduleKind kind : all_kinds) {
    for_all_shapes(1, 2, [&](const PipelineShape& shape) {
      const Schedule schedule = natural(kind, shape);
      ASSERT_EQ(parse_schedule(to_text(schedule)), schedule) << name_of(kind) << ", " << to_text(shape);
    });
  }
}

TEST(Generate, small_lists_read_as_the_textbook_draws_them) {
  EXPECT_EQ(to_text(natural(ScheduleKind::gpipe, shape_of(2, 3))),
            "0F0 0F1 0F2 0X0 0X1 0X2\n1F0 1F1 1F2 1X0 1X1 1X2\n");
  EXPECT_EQ(to_text(natural(ScheduleKind::one_f_one_b, shape_of(3, 4))),
            "0F0 0F1 0F2 0X0 0F3 0X1 0X2 0X3\n"
            "1F0 1F1 1X0 1F2 1X1 1F3 1X2 1X3\n"
            "2F0 2X0 2F1 2X1 2F2 2X2 2F3 2X3\n");
  EXPECT_EQ(to_text(natural(ScheduleKind::interleaved, shape_of(2, 2, 2))),
            "0F0 0F1 2F0 2F1 2X0 2X1 0X0 0X1\n"
            "1F0 1F1 3F0 3X0 3F1 3X1 1X0 1X1\n");
  EXPECT_EQ(to_text(natural(ScheduleKind::bfs, shape_of(2, 2, 2))),
            "0F0 0F1 2F0 2F1 2X0 2X1 0X0 0X1\n"
            "1F0 1F1 3F0 3F1 3X0 3X1 1X0 1X1\n");
}

TEST(Generate, interleaved_groups_differ_by_at_most_one_and_the_larger_come_first) {
  // 8 micro-batches over 3 stages: two groups of 4. 7: 4 and 3.
  const auto forwards_of_stage_0 = [](std::uint32_t micro_batches) {
    const Schedule schedule = natural(ScheduleKind::interleaved, shape_of(3, micro_batches, 2));
    std::string text;
    for (const Operator& op : schedule.operators[0])
      if (op.kind == F) text += to_text(op) + " ";
    return text;
  };
  EXPECT_EQ(forwards_of_stage_0(8), "0F0 0F1 0F2 0F3 3F0 3F1 3F2 3F3 0F4 0F5 0F6 0F7 3F4 3F5 3F6 3F7 ");
  EXPECT_EQ(forwards_of_stage_0(7), "0F0 0F1 0F2 0F3 3F0 3F1 3F2 3F3 0F4 0F5 0F6 3F4 3F5 3F6 ");
  EXPECT_EQ(forwards_of_stage_0(2), "0F0 0F1 3F0 3F1 ") << "fewer than stages: one group";
}

TEST(Generate, the_natural_warmup_counts_the_forwards_before_the_first_backward) {
  EXPECT_EQ(natural_warmup(ScheduleKind::one_f_one_b, shape_of(4, 12)), (std::vector<std::uint32_t>{4, 3, 2, 1}));
  EXPECT_EQ(natural_warmup(ScheduleKind::one_f_one_b, shape_of(4, 2)), (std::vector<std::uint32_t>{2, 2, 2, 1}));
  EXPECT_EQ(natural_warmup(ScheduleKind::gpipe, shape_of(2, 5)), (std::vector<std::uint32_t>{5, 5}));
  EXPECT_EQ(natural_warmup(ScheduleKind::bfs, shape_of(2, 5, 3)), (std::vector<std::uint32_t>{15, 15}));
  EXPECT_EQ(natural_warmup(ScheduleKind::interleaved, shape_of(4, 8, 2)), (std::vector<std::uint32_t>{11, 9, 7, 5}));
  for (const ScheduleKind kind : all_kinds) {
    for_all_shapes(1, 3, [&](const PipelineShape& shape) {
      ASSERT_EQ(forwards_first(natural(kind, shape)), natural_warmup(kind, shape))
          << name_of(kind) << ", " << to_text(shape);
    });
  }
}

TEST(Generate, a_given_warmup_is_what_the_list_has) {
  EXPECT_EQ(forwards_first(generate(ScheduleKind::one_f_one_b, shape_of(4, 12), {7, 5, 3, 1})),
            (std::vector<std::uint32_t>{7, 5, 3, 1}));
  EXPECT_EQ(forwards_first(generate(ScheduleKind::one_f_one_b, shape_of(2, 3), {9, 3})),
            (std::vector<std::uint32_t>{3, 3}))
      << "no more than there are";
}

TEST(Generate, gpipe_takes_as_many_rounds_as_micro_batches_and_stages_less_one) {
  for_all_shapes(1, 1, [](const PipelineShape& shape) {
    ASSERT_EQ(makespan_of(ScheduleKind::gpipe, shape, {10ms, 10ms, 10ms}, shape.micro_batches),
              (shape.micro_batches + shape.stages - 1) * 30ms)
        << to_text(shape);
  });
}

TEST(Generate, unequal_stages_make_gpipe_wait_for_the_slowest_in_each_direction) {
  // sum F + (m-1) max F + sum X + (m-1) max X
  const PipelineShape shape = shape_of(4, 9);
  SimulationInput input = input_of(shape, static_plans(shape, natural(ScheduleKind::gpipe, shape)));
  input.times = {{3ms, 2ms, 5ms}, {8ms, 1ms, 1ms}, {2ms, 9ms, 4ms}, {5ms, 5ms, 5ms}};
  EXPECT_EQ(simulate(input).makespan, 18ms + 8 * 8ms + 32ms + 8 * 13ms);
}

TEST(Generate, one_f_one_b_takes_as_long_as_gpipe_and_holds_only_a_warmup) {
  for_all_shapes(1, 1, [](const PipelineShape& shape) {
    const SimulationResult result =
        simulate(input_of(shape, static_plans(shape, natural(ScheduleKind::one_f_one_b, shape))));
    ASSERT_EQ(result.makespan, (shape.micro_batches + shape.stages - 1) * 30ms) << to_text(shape);
    ASSERT_EQ(peaks_of(result, &StagePeaks::activations), natural_warmup(ScheduleKind::one_f_one_b, shape))
        << to_text(shape);
  });
}

// t (m v + p - 1) with at least as many micro-batches as stages, else t (p v + m - 1); t = F + B + W of one chunk.
TEST(Generate, interleaved_meets_its_closed_form_in_all_672_shapes) {
  int shapes = 0;
  for_all_shapes(2, 4, [&](const PipelineShape& shape) {
    const std::uint32_t p = shape.stages, m = shape.micro_batches, v = shape.chunks;
    ASSERT_EQ(makespan_of(ScheduleKind::interleaved, shape, {10ms, 10ms, 10ms}, m),
              30ms * (m >= p ? m * v + p - 1 : p * v + m - 1))
        << to_text(shape);
    ++shapes;
  });
  EXPECT_EQ(shapes, 672);
}

TEST(Generate, bfs_takes_as_long_as_interleaved_without_latency) {
  for_all_shapes(2, 3, [](const PipelineShape& shape) {
    const std::uint32_t p = shape.stages, m = shape.micro_batches, v = shape.chunks;
    ASSERT_EQ(makespan_of(ScheduleKind::bfs, shape, {10ms, 10ms, 10ms}, m),
              30ms * (m >= p ? m * v + p - 1 : p * v + m - 1))
        << to_text(shape);
  });
}

TEST(Generate, no_schedule_deadlocks_with_one_credit_or_with_many) {
  for (const ScheduleKind kind : all_kinds) {
    const std::uint32_t most_chunks = kind == ScheduleKind::gpipe || kind == ScheduleKind::one_f_one_b ? 1 : 4;
    for_all_shapes(1, most_chunks, [&](const PipelineShape& shape) {
      makespan_of(kind, shape, {3ms, 4ms, 2ms}, 1);
      makespan_of(kind, shape, {3ms, 4ms, 2ms}, shape.micro_batches);
    });
  }
}

}  // namespace
}  // namespace stagecraft::pipelines
