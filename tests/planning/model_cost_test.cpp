#include "planning/model_cost.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "planning/bug.hpp"
#include "planning/partition.hpp"
#include "planning/random.hpp"
#include "planning/replay.hpp"
#include "tests/planning/pipelines.hpp"

namespace stagecraft {
namespace {

using namespace std::chrono_literals;
using pipelines::all_kinds;
using pipelines::natural;
using pipelines::shape_of;

Workload sequences(std::uint32_t count, std::uint32_t length) {
  return Workload::of(std::vector<std::uint32_t>(count, length));
}

LayerShape with_experts(LayerShape layer, const Experts& experts) {
  layer.experts = experts;
  return layer;
}

TEST(ModelCost, operations_are_those_of_the_published_formulas) {
  const double s = 1024, b = 2, h = 4096;
  const LayerFlops flops = layer_flops({4096, 32, {}}, sequences(2, 1024));
  EXPECT_DOUBLE_EQ(flops.forward, s * b * h * (24 * h + 4 * s));
  EXPECT_DOUBLE_EQ(flops.backward_input, s * b * h * (24 * h + 8 * s));
  EXPECT_DOUBLE_EQ(flops.backward_weight, 24 * s * b * h * h);
  EXPECT_DOUBLE_EQ(flops.backward_input + flops.backward_weight, 2 * flops.forward);
}

TEST(ModelCost, packed_sequences_attend_within_themselves) {
  const LayerShape layer{1024, 16, {}};
  const LayerFlops one = layer_flops(layer, sequences(1, 2048)), four = layer_flops(layer, sequences(4, 512));
  EXPECT_DOUBLE_EQ(one.forward - four.forward, 4.0 * 1024 * (2048.0 * 2048 - 4 * 512.0 * 512));
  EXPECT_DOUBLE_EQ(one.backward_weight, four.backward_weight);
}

TEST(ModelCost, experts_cost_by_the_fullest_and_no_more_than_their_capacity) {
  const Workload work = sequences(1, 1000);
  const LayerShape dense{512, 8, {}};
  const double feed_forward = 16 * 1000.0 * 512 * 512, router = 2 * 1000.0 * 512 * 8;
  const double plain = layer_flops(dense, work).backward_weight - feed_forward;
  const auto weight = [&](const Experts& e) { return layer_flops(with_experts(dense, e), work).backward_weight; };
  EXPECT_DOUBLE_EQ(weight({8, 2, 1, {}}), plain + 2 * feed_forward + router);
  EXPECT_DOUBLE_EQ(weight({8, 2, 1.5, {}}), plain + 3 * feed_forward + router);
  EXPECT_DOUBLE_EQ(weight({8, 2, 1.5, 1.25}), plain + 2.5 * feed_forward + router);
  EXPECT_DOUBLE_EQ(weight({8, 2, 1.1, 1.25}), plain + 2.2 * feed_forward + router);
}

TEST(ModelCost, a_tensor_parallel_group_divides_compute_and_pays_two_collectives_each_way) {
  const LayerShape layer{1000, 10, {}};
  const Workload work = sequences(1, 1000);
  DeviceGroup group;
  group.flops_per_second = 1e12;
  const OperatorTimes alone = layer_times(layer, work, group);
  EXPECT_EQ(alone.forward, Duration{28ms});  // 24e9 + 4e9 operations
  EXPECT_EQ(alone.backward_input, Duration{32ms});
  EXPECT_EQ(alone.backward_weight, Duration{24ms});
  group.members = 4;
  group.bandwidth = {1e9};
  group.latency = 500us;
  EXPECT_EQ(collective_time(layer, work, group), Duration{500us + 3ms});  // 1.5 * 2 MB at 1 GB/s
  const OperatorTimes shared = layer_times(layer, work, group);
  EXPECT_EQ(shared.forward, Duration{7ms + 7ms});
  EXPECT_EQ(shared.backward_input, Duration{8ms + 7ms});
  EXPECT_EQ(shared.backward_weight, Duration{6ms});
}

TEST(ModelCost, a_fit_finds_the_three_terms_again) {
  const TimeModel truth{50'000, 800, 0.04};
  std::vector<TimeSample> samples;
  Entropy dice(1, "fit");
  for (int i = 0; i < 30; ++i) {
    std::vector<std::uint32_t> lengths(dice.between(1, 6));
    for (std::uint32_t& length : lengths) length = static_cast<std::uint32_t>(dice.between(50, 4000));
    const Workload work = Workload::of(lengths);
    samples.push_back({work, truth.of(work)});
  }
  const auto found = fit(samples);
  ASSERT_TRUE(found);
  EXPECT_NEAR(found->fixed, truth.fixed, 50);
  EXPECT_NEAR(found->per_token, truth.per_token, 0.5);
  EXPECT_NEAR(found->per_square, truth.per_square, 1e-4);
  // With 2 % noise it predicts within 2 %.
  for (TimeSample& sample : samples)
    sample.time += sample.time * static_cast<std::int64_t>(dice.below(41)) / 1000 - sample.time / 50;
  const Workload unseen = sequences(3, 1700);
  EXPECT_NEAR(static_cast<double>(fit(samples)->of(unseen).count()) / static_cast<double>(truth.of(unseen).count()), 1,
              0.02);
}

TEST(ModelCost, samples_that_do_not_tell_the_terms_apart_have_no_fit) {
  const TimeModel truth{1000, 10, 0.1};
  std::vector<TimeSample> samples;
  for (std::uint32_t count = 1; count <= 8; ++count)  // squares are 100 times the tokens in each
    samples.push_back({sequences(count, 100), truth.of(sequences(count, 100))});
  EXPECT_FALSE(fit(samples));
  EXPECT_FALSE(fit(std::span(samples).first(2)));
  samples.push_back({sequences(2, 500), truth.of(sequences(2, 500))});
  EXPECT_TRUE(fit(samples));
  samples.push_back({sequences(2, 700), Duration{}});
  EXPECT_FALSE(fit(samples));
}

TEST(ModelCost, training_state_has_its_bytes_per_parameter) {
  EXPECT_EQ(state_bytes(1000, Precision::fp32).sum(), Bytes{16'000});
  EXPECT_EQ(state_bytes(1000, Precision::mixed).sum(), Bytes{18'000});
  EXPECT_EQ(state_bytes(1000, Precision::mixed, 4).sum(), Bytes{6'000 + 3'000});
  EXPECT_EQ(state_bytes(1000, Precision::fp32, 8).sum(), Bytes{8'000 + 1'000});
  EXPECT_EQ(state_bytes(1, Precision::mixed, 7).optimizer, Bytes{2});
}

TEST(ModelCost, parameters_count_experts_in_place_of_the_feed_forward) {
  const LayerShape dense{1024, 16, {}};
  EXPECT_EQ(layer_parameters(dense), 12U * 1024 * 1024 + 13 * 1024);
  const LayerShape sparse = with_experts(dense, {8, 2, 1, {}});
  EXPECT_EQ(layer_parameters(sparse) - layer_parameters(dense), 7U * (8 * 1024 * 1024 + 5 * 1024) + 8 * 1024);
}

TEST(ModelCost, activations_are_those_of_the_published_formulas) {
  const std::uint64_t s = 1024, b = 2, h = 4096, a = 32;
  const LayerShape layer{h, 32, {}};
  EXPECT_EQ(activation_bytes(layer, sequences(2, 1024)), Bytes{s * b * (34 * h + 5 * a * s)});
  EXPECT_EQ(weight_activation_bytes(layer, sequences(2, 1024)), Bytes{32 * s * b * h});
  EXPECT_EQ(activation_bytes(layer, sequences(2, 1024), 8), Bytes{s * b * (34 * h + 5 * a * s) / 8});
}

TEST(ModelCost, in_flight_counts_of_fused_schedules_are_the_peaks_of_their_lists) {
  for (const ScheduleKind kind : all_kinds) {
    const bool chunked = kind == ScheduleKind::interleaved || kind == ScheduleKind::bfs;
    for (const std::uint32_t p : {2U, 3U, 4U, 8U}) {
      for (const std::uint32_t m : {1U, 3U, 4U, 8U, 13U, 24U}) {
        const PipelineShape shape = shape_of(p, m, chunked ? 2 : 1);
        PipelineProblem problem;
        problem.shape = shape;
        problem.times.assign(shape.total_chunks(), {10ms, 10ms, 10ms});
        const auto peaks = replay(problem, natural(kind, shape)).peaks;
        const auto counts = *in_flight(kind, shape);
        for (std::uint32_t s = 0; s < p; ++s) {
          EXPECT_EQ(counts[s].activations, peaks[s].activations) << pipelines::to_text(shape) << ", stage " << s;
          EXPECT_EQ(counts[s].held, peaks[s].held) << pipelines::to_text(shape) << ", stage " << s;
        }
      }
    }
  }
}

TEST(ModelCost, in_flight_counts_of_the_zero_bubble_family_are_those_of_their_recipes) {
  const auto at = [](ScheduleKind kind, std::uint32_t m, std::uint32_t v) {
    return *in_flight(kind, shape_of(4, m, v));
  };
  EXPECT_EQ(at(ScheduleKind::zb_h1, 12, 1), (std::vector<InFlight>{{4, 4}, {3, 4}, {2, 4}, {1, 4}}));
  EXPECT_EQ(at(ScheduleKind::zb_h2, 12, 1), (std::vector<InFlight>{{7, 7}, {5, 7}, {3, 7}, {1, 7}}));
  EXPECT_EQ(at(ScheduleKind::zb_h2, 4, 1), (std::vector<InFlight>{{4, 4}, {4, 4}, {3, 4}, {1, 4}}));
  EXPECT_EQ(at(ScheduleKind::zb_v, 12, 2)[0], (InFlight{8, 8}));
  EXPECT_EQ(at(ScheduleKind::v_half, 12, 2)[0], (InFlight{6, 6}));
  EXPECT_EQ(at(ScheduleKind::v_min, 12, 2)[0], (InFlight{4, 4}));
  EXPECT_EQ(at(ScheduleKind::interleaved, 8, 2)[0], (InFlight{11, 11}));  // 2 * 3 + 4 + 1
  EXPECT_FALSE(in_flight(ScheduleKind::pipemorph, shape_of(4, 12)));
}

TEST(ModelCost, in_flight_counts_per_chunk_add_up_to_the_stage) {
  const PipelineShape shape = shape_of(4, 8, 2);
  const auto chunks = *in_flight_per_chunk(ScheduleKind::interleaved, shape);
  EXPECT_EQ(chunks, (std::vector<std::uint32_t>{6, 5, 4, 3, 5, 4, 3, 2}));
  EXPECT_EQ(*in_flight_per_chunk(ScheduleKind::one_f_one_b, shape_of(3, 8)), (std::vector<std::uint32_t>{3, 2, 1}));
}

// Cost models, in-flight counts and partition together: the first stage holds the most, so it gets fewer layers.
TEST(ModelCost, a_model_too_large_for_even_stages_is_cut_unevenly) {
  const LayerShape layer{1024, 16, {}};
  const Workload work = sequences(1, 1024);
  DeviceGroup group;
  group.flops_per_second = 1e14;
  PartitionProblem problem;
  problem.shape = shape_of(4, 16);
  problem.in_flight = *in_flight_per_chunk(ScheduleKind::one_f_one_b, problem.shape);
  const PartitionUnit unit{UnitKind::layer, layer_times(layer, work, group).sum(), activation_bytes(layer, work),
                           state_bytes(layer_parameters(layer), Precision::mixed).sum()};
  problem.units.assign(16, unit);
  const std::uint64_t first = 3 * (4 * unit.activation.value + unit.state.value);
  problem.memory.assign(4, Bytes{first});
  EXPECT_EQ(std::get<Partition>(make_partition(problem)).layers, (std::vector<std::uint32_t>{3, 3, 4, 6}));
}

}  // namespace
}  // namespace stagecraft
