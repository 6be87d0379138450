// From a request to the plan of one replica: caps, credits, raised warm-ups, notes and the forecast.
#include "planning/plan.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "tests/planning/pipelines.hpp"

namespace stagecraft::pipelines {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr Dispatch both[] = {Dispatch::in_order, Dispatch::reactive};

PlanRequest request_of(ScheduleKind kind, Dispatch dispatch, const PipelineShape& shape) {
  PlanRequest request;
  request.shape = shape;
  request.schedule = kind;
  request.dispatch = dispatch;
  request.times.assign(shape.total_chunks(), {10ms, 10ms, 10ms});
  return request;
}

void set_latency(PlanRequest& request, Duration latency) {
  request.forward_links.assign(request.shape.total_chunks() - 1, {latency, {}, {}});
  request.backward_links = request.forward_links;
}

// The stages of the plan under other credits and disorder.
SimulationResult run(const PlanRequest& request, const PipelinePlan& plan, std::uint32_t credits,
                     const Disturbance& disturbance = {}) {
  SimulationInput input = input_of(request.shape, plan.stages);
  input.times = request.times;
  input.forward_links = request.forward_links;
  input.backward_links = request.backward_links;
  input.credits = credits;
  input.disturbance = disturbance;
  return simulate(input);
}

// Every forward, and every backward with its weights, once per chunk and micro-batch.
void expect_complete(const PlanRequest& request, const SimulationResult& result) {
  EXPECT_FALSE(result.hung) << fmt::format("{}", fmt::join(result.blocked, "; "));
  const std::size_t cells = std::size_t{1} * request.shape.total_chunks() * request.shape.micro_batches;
  std::set<Operator> ran;
  for (const TimedOperator& timed : result.timeline) EXPECT_TRUE(ran.insert(timed.op).second) << to_text(timed.op);
  EXPECT_EQ(ran.size(), cells * (request.dispatch == Dispatch::in_order ? 2 : 3));
}

bool fits(ScheduleKind kind, std::uint32_t chunks) {
  return chunks == 1 || kind == ScheduleKind::interleaved || kind == ScheduleKind::bfs;
}

TEST(Plan, the_worked_example_comes_out_of_a_request) {
  PlanRequest request = request_of(ScheduleKind::one_f_one_b, Dispatch::reactive, shape_of(4, 12));
  request.warmup = {7, 5, 3, 1};
  request.activations.kind = request.pending_weights.kind = CapSpec::Kind::off;
  const PipelinePlan plan = make_plan(request);
  EXPECT_EQ(plan.forecast.makespan, 390ms);
  EXPECT_THAT(plan.warmup, ElementsAre(7, 5, 3, 1));
  EXPECT_THAT(plan.notes, IsEmpty());
  PlanRequest in_order = request_of(ScheduleKind::one_f_one_b, Dispatch::in_order, shape_of(4, 12));
  EXPECT_EQ(make_plan(in_order).forecast.makespan, 450ms);
}

TEST(Plan, a_static_plan_carries_the_generated_list_and_no_caps) {
  const PlanRequest request = request_of(ScheduleKind::interleaved, Dispatch::in_order, shape_of(3, 6, 2, 12));
  const PipelinePlan plan = make_plan(request);
  const Schedule schedule = natural(ScheduleKind::interleaved, request.shape);
  for (std::uint32_t s = 0; s < 3; ++s) {
    const StagePlan& stage = plan.stages[s];
    EXPECT_EQ(stage.order, schedule.operators[s]);
    EXPECT_THAT(stage.chunks, ElementsAre(ChunkId{s}, ChunkId{s + 3}));
    EXPECT_EQ(stage.first, MicroBatch{12});
    EXPECT_EQ(stage.micro_batches, 6u);
    EXPECT_EQ(stage.starts_model, s == 0);
    EXPECT_EQ(stage.ends_model, s == 2);
    EXPECT_FALSE(stage.caps.activations || stage.caps.held || stage.caps.pending_weights);
  }
}

TEST(Plan, caps_are_the_schedules_own_or_off_or_the_number_given) {
  PlanRequest request = request_of(ScheduleKind::one_f_one_b, Dispatch::reactive, shape_of(4, 12));
  const PipelinePlan automatic = make_plan(request);
  for (std::uint32_t s = 0; s < 4; ++s) {
    EXPECT_EQ(automatic.stages[s].caps.activations, 4 - s);
    EXPECT_EQ(automatic.stages[s].caps.held, 4 - s) << "as much as 1f1b itself holds";
    EXPECT_LE(automatic.forecast.peaks[s].held, 4 - s);
  }
  request.activations = {CapSpec::Kind::off};
  request.pending_weights = {CapSpec::Kind::off};
  EXPECT_FALSE(make_plan(request).stages[0].caps.held || make_plan(request).stages[0].caps.pending_weights);
  request.activations = {CapSpec::Kind::fixed, 6};
  request.pending_weights = {CapSpec::Kind::fixed, 2};
  const PipelinePlan fixed = make_plan(request);
  for (std::uint32_t s = 0; s < 4; ++s) {
    EXPECT_EQ(fixed.stages[s].caps.held, 6u);
    EXPECT_EQ(fixed.stages[s].caps.pending_weights, 2u);
    EXPECT_LE(fixed.forecast.peaks[s].pending_weights, 2u);
  }
}

TEST(Plan, a_reactive_warmup_leaves_room_for_every_chunk) {
  PlanRequest request = request_of(ScheduleKind::interleaved, Dispatch::reactive, shape_of(2, 4, 3));
  request.warmup = {1, 1};
  const PipelinePlan plan = make_plan(request);
  EXPECT_EQ(plan.stages[0].caps.activations, 3u);
  EXPECT_EQ(plan.stages[1].caps.activations, 3u);
  expect_complete(request, plan.forecast);
}

TEST(Plan, a_static_order_that_needs_more_warmup_gets_just_enough_and_a_note) {
  for (const std::uint32_t wanted : {1u, 2u, 3u, 4u}) {
    PlanRequest request = request_of(ScheduleKind::interleaved, Dispatch::in_order, shape_of(4, 8, 2));
    request.warmup.assign(4, wanted);  // the last stage can't run 7X0 before 7F0, its fifth forward
    request.credits = 1;
    const PipelinePlan plan = make_plan(request);
    expect_complete(request, plan.forecast);
    ASSERT_GT(plan.warmup[0], wanted);
    EXPECT_EQ(plan.warmup, std::vector<std::uint32_t>(4, plan.warmup[0])) << "each stage by as much";
    const std::vector<std::uint32_t> one_less(4, plan.warmup[0] - 1);
    const Schedule tighter = generate(request.schedule, request.shape, one_less);
    EXPECT_TRUE(simulate(input_of(request.shape, static_plans(request.shape, tighter))).hung);
    ASSERT_FALSE(plan.notes.empty());
    EXPECT_THAT(plan.notes[0], HasSubstr("interleaved order can't proceed"));
    EXPECT_THAT(plan.notes[0], HasSubstr(fmt::format("warm-ups [{}]", fmt::join(request.warmup, ", "))));
    EXPECT_THAT(plan.notes[0], HasSubstr(fmt::format("raised to [{}]", fmt::join(plan.warmup, ", "))));
  }
}

TEST(Plan, a_warmup_that_grows_downstream_ends_with_all_forwards_first) {
  PlanRequest request = request_of(ScheduleKind::one_f_one_b, Dispatch::in_order, shape_of(2, 4));
  request.warmup = {1, 2};  // stage 1 waits for 0F1, which stage 0 runs after 0X0, which waits for stage 1
  const PipelinePlan plan = make_plan(request);
  expect_complete(request, plan.forecast);
  EXPECT_THAT(plan.warmup, ElementsAre(4, 4));
  EXPECT_EQ(plan.notes.size(), 1u);
}

TEST(Plan, credits_are_counted_for_the_order_that_runs_and_not_for_the_one_that_hung) {
  PlanRequest request = request_of(ScheduleKind::interleaved, Dispatch::in_order, shape_of(4, 16, 2));
  request.warmup = {1, 1, 1, 1};
  const PipelinePlan raised = make_plan(request);
  request.warmup = raised.warmup;
  const PipelinePlan direct = make_plan(request);
  EXPECT_THAT(direct.notes, IsEmpty());
  EXPECT_EQ(raised.credits_needed, direct.credits_needed);
  EXPECT_LT(raised.credits_needed, 16u) << "not as many as there are micro-batches";
  EXPECT_EQ(raised.forecast.makespan, direct.forecast.makespan);
}

TEST(Plan, the_credits_needed_cost_no_time_and_no_tensor_waits) {
  for (const ScheduleKind kind : all_kinds) {
    for (const Dispatch dispatch : both) {
      for (const Duration latency : {0ms, 7ms, 60ms}) {
        PlanRequest request = request_of(kind, dispatch, shape_of(4, 12, fits(kind, 2) ? 2 : 1));
        set_latency(request, latency);
        const PipelinePlan plan = make_plan(request);
        const SimulationResult unlimited = run(request, plan, 12);
        EXPECT_EQ(plan.credits, plan.credits_needed) << "as many as needed is the default";
        EXPECT_EQ(plan.forecast.makespan, unlimited.makespan) << name_of(kind) << ", " << name_of(dispatch);
        EXPECT_GE(plan.credits_needed, std::max(2u, unlimited.slots_used)) << name_of(kind) << ", " << format(latency);
        EXPECT_THAT(plan.notes, IsEmpty());
      }
    }
  }
}

constexpr ScheduleKind split_kinds[] = {ScheduleKind::zb_h1,     ScheduleKind::zb_h2,  ScheduleKind::zb_auto,
                                        ScheduleKind::zb_v,      ScheduleKind::v_half, ScheduleKind::v_min,
                                        ScheduleKind::pipemorph, ScheduleKind::planned};

PipelineShape shape_for(ScheduleKind kind, std::uint32_t stages, std::uint32_t micro_batches) {
  return {stages, chunks_needed(kind).value_or(2), {}, micro_batches, placement_of(kind)};
}

TEST(Plan, every_schedule_runs_under_every_dispatch) {
  for (const ScheduleKind kind : split_kinds)
    for (const Dispatch dispatch : {Dispatch::in_order, Dispatch::reactive, Dispatch::follow})
      for (const std::uint32_t micro_batches : {0u, 1u, 2u, 9u})
        for (const std::uint32_t stages : {1u, 2u, 4u}) {
          SCOPED_TRACE(fmt::format("{}, {}, {} stages, {} micro-batches", name_of(kind), name_of(dispatch), stages,
                                   micro_batches));
          PlanRequest request = request_of(kind, dispatch, shape_for(kind, stages, micro_batches));
          const PipelinePlan plan = make_plan(request);
          EXPECT_FALSE(plan.forecast.hung);
          EXPECT_EQ(plan.forecast.timeline.size(), 3u * request.shape.total_chunks() * micro_batches);
          EXPECT_THAT(plan.notes, IsEmpty());
          for (std::uint64_t seed = 0; seed < 10; ++seed)
            EXPECT_FALSE(run(request, plan, 1 + seed % 2, {seed, 8ms, 60ms, seed % 2 == 1}).hung) << seed;
        }
}

TEST(Plan, a_followed_list_takes_the_time_of_the_list_and_its_memory) {
  for (const ScheduleKind kind : split_kinds) {
    PlanRequest request = request_of(kind, Dispatch::in_order, shape_for(kind, 4, 12));
    set_latency(request, 3ms);
    const PipelinePlan list = make_plan(request);
    request.dispatch = Dispatch::follow;
    const PipelinePlan follow = make_plan(request);
    EXPECT_LE(follow.forecast.makespan, list.forecast.makespan) << name_of(kind);
    for (std::uint32_t s = 0; s < 4; ++s) {
      EXPECT_LE(follow.forecast.peaks[s].held, list.forecast.peaks[s].held) << name_of(kind) << ", stage " << s;
      EXPECT_EQ(follow.stages[s].caps.held, list.forecast.peaks[s].held);
    }
  }
}

TEST(Plan, caps_of_the_request_bind_what_follows_and_what_is_made_within_them) {
  PlanRequest request = request_of(ScheduleKind::zb_auto, Dispatch::in_order, shape_of(4, 12));
  const std::uint32_t free_peak = make_plan(request).forecast.peaks[0].held;
  request.activations = {CapSpec::Kind::fixed, 4};
  const PipelinePlan capped = make_plan(request);
  EXPECT_GT(free_peak, 4u);
  EXPECT_LE(capped.forecast.peaks[0].held, 4u);

  request.schedule = ScheduleKind::zb_h2;
  request.dispatch = Dispatch::follow;
  const PipelinePlan raised = make_plan(request);
  EXPECT_EQ(raised.stages[0].caps.held, 7u) << "the list holds 2 p - 1";
  EXPECT_THAT(raised.notes, ElementsAre(HasSubstr("caps.activations is 4, but the zb-h2 list needs up to 7")));

  request.activations.value = 9;
  EXPECT_EQ(make_plan(request).stages[0].caps.held, 9u) << "room to run ahead of the list";
  EXPECT_THAT(make_plan(request).notes, IsEmpty());

  request.activations.kind = CapSpec::Kind::off;
  EXPECT_FALSE(make_plan(request).stages[0].caps.held || make_plan(request).stages[0].caps.activations);
}

TEST(Plan, warmups_of_a_request_reach_the_lists_that_have_some) {
  for (const ScheduleKind kind : {ScheduleKind::zb_h1, ScheduleKind::zb_h2, ScheduleKind::pipemorph}) {
    PlanRequest request = request_of(kind, Dispatch::in_order, shape_of(4, 12));
    request.warmup = {7, 5, 3, 1};
    const PipelinePlan plan = make_plan(request);
    EXPECT_EQ(plan.warmup, request.warmup) << name_of(kind);
    for (std::uint32_t s = 0; s < 4; ++s)
      for (std::uint32_t i = 0; i < request.warmup[s]; ++i)
        EXPECT_EQ(plan.stages[s].order[i].kind, OperatorKind::forward) << name_of(kind) << ", stage " << s;
  }
}

TEST(Plan, a_longer_wire_needs_more_credits) {
  const auto needed = [](Duration latency, std::uint32_t micro_batches) {
    PlanRequest request = request_of(ScheduleKind::gpipe, Dispatch::in_order, shape_of(2, micro_batches));
    set_latency(request, latency);
    return make_plan(request).credits_needed;
  };
  // A forward leaves every 10 ms and is adopted when it arrives: 35 ms of wire hold four.
  EXPECT_EQ(needed(0ms, 8), 2u) << "two at least, so that one travels while another waits";
  EXPECT_EQ(needed(35ms, 8), 4u);
  EXPECT_EQ(needed(1000ms, 8), 8u) << "never more than there are micro-batches";
  EXPECT_EQ(needed(0ms, 1), 1u);
}

TEST(Plan, fewer_credits_than_needed_are_kept_and_noted) {
  PlanRequest request = request_of(ScheduleKind::gpipe, Dispatch::in_order, shape_of(2, 8));
  set_latency(request, 35ms);
  const Duration best = make_plan(request).forecast.makespan;
  request.credits = 1;
  const PipelinePlan plan = make_plan(request);
  EXPECT_EQ(plan.credits, 1u);
  EXPECT_EQ(plan.credits_needed, 4u);
  EXPECT_GT(plan.forecast.makespan, best) << "the forecast is that of the credits given";
  ASSERT_THAT(plan.notes, ElementsAre(HasSubstr("the plan needs 4")));
  EXPECT_THAT(plan.notes[0], HasSubstr("1 credit"));
  request.credits = 9;
  EXPECT_EQ(make_plan(request).credits, 9u);
  EXPECT_THAT(make_plan(request).notes, IsEmpty());
}

TEST(Plan, the_memory_forecast_counts_activations_tensors_and_gradient_buffers) {
  PlanRequest request = request_of(ScheduleKind::one_f_one_b, Dispatch::in_order, shape_of(4, 8));
  ChunkBytes bytes;
  bytes.activation = {1000};
  request.bytes.assign(4, bytes);
  const auto peaks = [&] {
    std::vector<std::uint64_t> values;
    for (const Bytes b : make_plan(request).forecast.peak_bytes) values.push_back(b.value);
    return values;
  };
  EXPECT_THAT(peaks(), ElementsAre(4000, 3000, 2000, 1000)) << "p - s micro-batches";
  for (ChunkBytes& chunk : request.bytes) chunk.gradient = {50};
  request.buffers.assign(8, {2, 1});
  EXPECT_THAT(peaks(), ElementsAre(4050, 3050, 2050, 1050)) << "one gradient buffer is alive when B starts";
  request.schedule = ScheduleKind::gpipe;
  EXPECT_THAT(peaks(), ElementsAre(8000, 8000, 8000, 8000)) << "all micro-batches, before the first gradient";
}

TEST(Plan, a_tighter_cap_on_activations_lowers_the_forecast_of_memory) {
  PlanRequest request = request_of(ScheduleKind::gpipe, Dispatch::reactive, shape_of(3, 8));
  ChunkBytes bytes;
  bytes.activation = {1000};
  bytes.weight_activation = {1000};
  request.bytes.assign(3, bytes);
  for (const std::uint32_t cap : {1u, 2u, 5u}) {
    request.activations = {CapSpec::Kind::fixed, cap};
    const PipelinePlan plan = make_plan(request);
    expect_complete(request, plan.forecast);
    for (std::uint32_t s = 0; s < 3; ++s) {
      EXPECT_EQ(plan.forecast.peak_bytes[s].value, 1000u * plan.forecast.peaks[s].held) << "stage " << s;
      EXPECT_LE(plan.forecast.peaks[s].held, cap);
    }
    EXPECT_EQ(plan.forecast.peaks[0].held, cap) << "the first stage has tokens enough to use all";
  }
}

// B15
TEST(KnownFailures, opposite_sends_do_not_wait_for_each_other) {
  for (const Dispatch dispatch : both) {
    for (const std::uint32_t micro_batches : {3u, 8u}) {
      PlanRequest request = request_of(ScheduleKind::interleaved, dispatch, shape_of(4, micro_batches, 2));
      request.credits = 1;
      const PipelinePlan plan = make_plan(request);
      expect_complete(request, plan.forecast);
      EXPECT_EQ(plan.credits, 1u);
      EXPECT_THAT(plan.notes, ElementsAre(HasSubstr("the plan needs"))) << "that one credit costs time is said";
      for (std::uint64_t seed = 0; seed < 2'500; ++seed) {
        const SimulationResult result = run(request, plan, 1, {seed, 8ms, 60ms, seed % 2 == 1});
        ASSERT_FALSE(result.hung) << name_of(dispatch) << ", seed " << seed << ": "
                                  << fmt::format("{}", fmt::join(result.blocked, "; "));
        ASSERT_EQ(result.slots_used, 1u);
      }
    }
  }
}

// B16
TEST(KnownFailures, few_micro_batches_still_finish) {
  for (const ScheduleKind kind : all_kinds) {
    for (const Dispatch dispatch : both) {
      for (const std::uint32_t micro_batches : {1u, 2u, 7u}) {
        for (const std::uint32_t chunks : {1u, 2u, 3u}) {
          if (!fits(kind, chunks)) continue;
          for (const std::optional<std::uint32_t> credits : {std::optional<std::uint32_t>{}, std::optional{1u}}) {
            SCOPED_TRACE(fmt::format("{}, {}, {} micro-batches, {} chunks", name_of(kind), name_of(dispatch),
                                     micro_batches, chunks));
            PlanRequest request = request_of(kind, dispatch, shape_of(8, micro_batches, chunks));
            request.credits = credits;
            const PipelinePlan plan = make_plan(request);
            expect_complete(request, plan.forecast);
            EXPECT_EQ(plan.warmup, natural_warmup(kind, request.shape)) << "nothing had to be raised";
            for (std::uint64_t seed = 0; seed < 20; ++seed)
              EXPECT_FALSE(run(request, plan, plan.credits, {seed, 5ms, 40ms, seed % 2 == 1}).hung) << seed;
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace stagecraft::pipelines
