#include "model/job_plan.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "planning/bug.hpp"
#include "tests/config/examples.hpp"
#include "tests/model/hand_driven.hpp"

namespace stagecraft {
namespace {

using namespace std::chrono_literals;

constexpr std::uint64_t mebibyte = 1 << 20;

/// A topology of emulated devices, written down without its defaults.
struct Emulated {
  std::uint32_t layers = 4, stages = 2, chunks = 1, replicas = 1, micro_batches = 4, shards = 1;
  std::string costs = "forward: 10ms, backward_input: 20ms, backward_weight: 30ms";
  std::string pipeline = "schedule: interleaved, dispatch: static", links = "links: {}";
  std::vector<std::string> other_costs{};  // of the stages after the first, when they differ

  std::string text() const {
    std::string devices;
    for (std::uint32_t d = 0; d < stages * replicas; ++d) {
      const std::uint32_t s = d % stages;
      devices += fmt::format("      - {{ kind: emulated, memory: 80GiB, costs: {{ {} }} }}\n",
                             s == 0 || other_costs.empty() ? costs : other_costs[s - 1]);
    }
    return fmt::format(
        "version: 1\njob: {{ name: plan, iterations: 1 }}\nmodel: {{ layers: {} }}\n"
        "training: {{ micro_batches: {}, logical_shards: {} }}\n"
        "pipeline: {{ stages: {}, chunks: {}, replicas: {}, {} }}\n{}\nnodes:\n  - name: n0\n    devices:\n{}",
        layers, micro_batches, shards, stages, chunks, replicas, pipeline, links, devices);
  }
  JobPlan plan() const { return plan_job(load(text())); }
};

const std::string small_cpu_file = R"(version: 1
job: { name: small, seed: 7, iterations: 2 }
model: { layers: 5, width: 16, heads: 2, context: 64, tied_embeddings: false }
data: { sources: [{ files: /nowhere/* }], micro_batch_tokens: 64 }
training: { micro_batches: 8, logical_shards: 4 }
pipeline: { stages: 3, replicas: 2 }
nodes: [{ name: n0, devices: [{ kind: cpu, count: 12, memory: 1GiB }] }]
)";

// -- layers

// The embedding, every layer and the head stand in exactly one chunk, in model order, chunk c on stage c mod stages.
void expect_whole_model(const JobPlan& plan, std::uint32_t layers, const std::string& what) {
  std::map<ChunkId, Range> chunks;
  for (std::uint32_t s = 0; s < plan.chunks.size(); ++s)
    for (const ChunkUnits& c : plan.chunks[s]) {
      ASSERT_EQ(c.id.value % plan.chunks.size(), s) << what;
      ASSERT_TRUE(chunks.emplace(c.id, c.units).second) << what << ": chunk " << c.id.value << " twice";
    }
  std::uint32_t next = 0;
  for (const auto& [id, units] : chunks) {
    ASSERT_EQ(units.begin, next) << what << ", chunk " << id.value;
    next = units.end;
  }
  ASSERT_EQ(next, layers + 2) << what;
}

TEST(JobPlan, no_layer_is_ever_dropped_by_an_uneven_split) {  // B01
  const JobPlan plan = Emulated{.layers = 30, .stages = 4}.plan();
  expect_whole_model(plan, 30, "30 layers over 4 stages");
  const std::uint32_t sizes[] = {9, 8, 7, 8};  // 8, 8, 7, 7 layers, the embedding and the head
  for (std::uint32_t s = 0; s < 4; ++s) EXPECT_EQ(plan.chunks[s][0].units.size(), sizes[s]);
  EXPECT_EQ(plan.arithmetic[0]->layers(), 30U);
}

TEST(JobPlan, no_layer_is_dropped_when_stages_are_also_interleaved) {  // B02
  expect_whole_model(Emulated{.layers = 80, .stages = 16, .chunks = 2}.plan(), 80, "80 over 16 x 2");
  for (std::uint32_t layers = 1; layers <= 40; ++layers)
    for (std::uint32_t slots = 1; slots <= 16; ++slots) {
      const std::uint32_t chunks = slots % 2 == 0 ? 2 : 1;
      const Emulated job{.layers = layers, .stages = slots / chunks, .chunks = chunks, .micro_batches = 2, .shards = 2};
      const LoadResult loaded = load_topology("t.yaml", job.text());
      if (!loaded.topology) {  // refused: then with both numbers
        EXPECT_LT(layers, slots) << text_of(loaded);
        EXPECT_NE(text_of(loaded).find(std::to_string(slots)), std::string::npos) << text_of(loaded);
        continue;
      }
      expect_whole_model(plan_job(*loaded.topology), layers, fmt::format("{} layers over {} chunks", layers, slots));
    }
}

TEST(JobPlan, chunks_without_layers_are_planned_too) {
  Topology topology = load(Emulated{.layers = 3, .stages = 5}.text());
  topology.pipeline.layout = {1, 0, 1, 0, 1};
  const JobPlan plan = plan_job(topology);
  expect_whole_model(plan, 3, "1, 0, 1, 0, 1");
  EXPECT_EQ(plan.chunks[1][0].units.size(), 0U);
  EXPECT_EQ(plan.memory[0][1].parameters, Bytes{});
}

TEST(JobPlan, every_operator_of_every_micro_batch_is_in_the_forecast_of_its_replica_once) {
  const JobPlan plan = Emulated{.stages = 3, .chunks = 2, .replicas = 2, .micro_batches = 7, .shards = 4}.plan();
  ASSERT_EQ(plan.replicas.size(), 2U);
  std::set<std::pair<ChunkId, MicroBatch>> forwards;
  for (std::uint32_t r = 0; r < 2; ++r) {
    const Range own = micro_batches_of({r}, 2, 4, 7);
    for (const TimedOperator& op : plan.replicas[r].forecast.timeline) {
      EXPECT_TRUE(own.contains(op.op.micro_batch.value));
      if (op.op.kind != OperatorKind::forward) continue;
      EXPECT_TRUE(forwards.emplace(op.op.chunk, op.op.micro_batch).second);
    }
  }
  EXPECT_EQ(forwards.size(), 6U * 7);
}

// -- parameters

// Elements that the stages of one replica hold once they are built.
std::uint64_t built_parameters(const Topology& topology, const JobPlan& plan) {
  std::uint64_t elements = 0;
  for (std::uint32_t s = 0; s < topology.pipeline.stages; ++s) {
    StageModel model(plan.arithmetic[s], plan.share(topology, {{s}, {0}}), Arena::make("a", Bytes{}));
    model.initialise();
    for (const GroupId g : model.groups())
      if (!model.is_alias(g)) elements += model.parameters(g).size();
  }
  return elements;
}

TEST(JobPlan, reported_parameters_come_from_the_built_model) {  // B03
  const Topology untied = load(small_cpu_file);
  const JobPlan plan = plan_job(untied);
  const std::uint64_t table = 257 * 16;
  std::uint64_t named = 0;
  const LlamaArithmetic built(untied.model, 1);
  for (const ParameterInfo& p : built.parameters()) named += p.elements();
  EXPECT_EQ(plan.parameters, named);
  EXPECT_EQ(plan.parameters, built_parameters(untied, plan));

  const Topology tied = load(small_cpu_file, {"model.tied_embeddings=true"});
  EXPECT_EQ(plan_job(tied).parameters, named - table) << "a tied table counts once";
  EXPECT_EQ(built_parameters(tied, plan_job(tied)), named) << "two stages hold it";
  const Topology alone = load(small_cpu_file, {"model.tied_embeddings=true", "pipeline.stages=1"});
  EXPECT_EQ(built_parameters(alone, plan_job(alone)), named - table) << "one stage holds it once";

  const Topology fewer = load(small_cpu_file, {"model.layers=4"});
  EXPECT_EQ(plan_job(fewer).parameters, plan.parameters - built.elements({1}));
}

TEST(JobPlan, a_layout_that_disagrees_with_the_model_is_a_bug_here) {
  Topology topology = load(small_cpu_file);
  topology.pipeline.layout = {2, 2, 2};
  EXPECT_THROW(plan_job(topology), Bug);
}

TEST(JobPlan, stages_share_one_real_arithmetic_and_have_emulated_ones_of_their_own) {
  const JobPlan real = plan_job(load(small_cpu_file));
  EXPECT_EQ(real.arithmetic[0], real.arithmetic[2]);
  const JobPlan emulated = Emulated{.stages = 2}.plan();
  EXPECT_NE(emulated.arithmetic[0], emulated.arithmetic[1]);
}

// -- memory

TEST(JobPlan, parameters_and_moments_of_the_estimate_are_what_a_built_stage_holds) {
  for (const char* tied : {"model.tied_embeddings=false", "model.tied_embeddings=true"})
    for (const char* stages : {"pipeline.stages=1", "pipeline.stages=3"})
      for (const char* replicas : {"pipeline.replicas=1", "pipeline.replicas=2", "pipeline.replicas=3"}) {
        const Topology topology = load(small_cpu_file, {tied, stages, replicas});
        const JobPlan plan = plan_job(topology);
        for (std::uint32_t r = 0; r < topology.pipeline.replicas; ++r)
          for (std::uint32_t s = 0; s < topology.pipeline.stages; ++s) {
            const auto arena = Arena::make("a", Bytes{});
            StageModel model(plan.arithmetic[s], plan.share(topology, {{s}, {r}}), arena);
            model.initialise();
            const MemoryEstimate& estimate = plan.memory[r][s];
            EXPECT_EQ(arena->used(), estimate.parameters + estimate.moments)
                << tied << ", " << stages << ", " << replicas << ": stage " << s << " of replica " << r;
            EXPECT_EQ(estimate.total(), estimate.parameters + estimate.moments + estimate.working);
            EXPECT_EQ(estimate.working, plan.replicas[r].forecast.peak_bytes[s]);
          }
      }
}

TEST(JobPlan, the_moments_of_all_replicas_together_are_two_of_each_parameter) {
  const Topology topology = load(small_cpu_file, {"pipeline.replicas=4"});
  const JobPlan plan = plan_job(topology);
  for (std::uint32_t s = 0; s < 3; ++s) {
    Bytes moments;
    for (std::uint32_t r = 0; r < 4; ++r) moments += plan.memory[r][s].moments;
    EXPECT_EQ(moments.value, 2 * plan.memory[0][s].parameters.value);
  }
}

TEST(JobPlan, memory_is_planned_per_stage) {  // B43
  const JobPlan plan = Emulated{.layers = 5,
                                .stages = 2,
                                .micro_batches = 8,
                                .costs =
                                    "forward: 1ms, backward_input: 1ms, backward_weight: 1ms, per: layer, "
                                    "parameters: 1MiB, activation: 10MiB",
                                .pipeline = "schedule: 1f1b, dispatch: static"}
                           .plan();
  EXPECT_EQ(plan.memory[0][0].parameters.value, 3 * mebibyte);
  EXPECT_EQ(plan.memory[0][1].parameters.value, 2 * mebibyte);
  EXPECT_EQ(plan.memory[0][0].moments.value, 6 * mebibyte);
  EXPECT_EQ(plan.memory[0][0].working.value, (2 * 30 + 3) * mebibyte) << "two micro-batches in flight, one gradient";
  EXPECT_EQ(plan.memory[0][1].working.value, (20 + 2) * mebibyte);
}

TEST(JobPlan, what_is_kept_from_b_to_w_counts_in_fused_backwards_too) {
  const auto working = [](const char* pipeline) {
    const Emulated job{.layers = 1,
                       .stages = 1,
                       .micro_batches = 2,
                       .costs =
                           "forward: 1ms, backward_input: 1ms, backward_weight: 1ms, activation: 10MiB, "
                           "weight_activation: 25MiB",
                       .pipeline = pipeline};
    return job.plan().memory[0][0].working.value;
  };
  EXPECT_EQ(working("schedule: 1f1b, dispatch: static"), 25 * mebibyte);
  EXPECT_EQ(working("schedule: gpipe, dispatch: static"), (25 + 10) * mebibyte);
}

// What the stages of one replica really take while `order` runs, full micro-batches.
std::vector<double> measured_peaks(const Topology& topology, const JobPlan& plan, test::Order order) {
  test::JobSetup setup;
  setup.arithmetic = plan.arithmetic[0];
  setup.micro_batches = topology.training.micro_batches, setup.shards = topology.training.logical_shards;
  setup.optimizer = topology.training.optimizer;
  setup.batches = [&](Iteration k) {
    test::Batches batches;
    for (std::uint32_t m = 0; m < setup.micro_batches; ++m) {
      const test::Batch drawn({topology.data->micro_batch_tokens}, 257, keyed(k.value, m));
      batches.push_back(std::make_shared<TokenBatch>(
          TokenBatch{k, {m}, std::make_shared<Packing>(drawn.packing), drawn.inputs, drawn.targets}));
    }
    return batches;
  };
  test::HandDriven job(setup.on(topology.pipeline.stages, topology.pipeline.layout, 1, order));
  job.iterate({1});
  std::vector<double> peaks;
  for (std::uint32_t s = 0; s < topology.pipeline.stages; ++s)
    peaks.push_back(static_cast<double>(job.arena(s, 0).peak().value));
  return peaks;
}

TEST(JobPlan, the_measured_peak_is_within_a_tenth_of_the_estimate) {  // B43
  const std::vector<std::string> alone{"pipeline.stages=1"}, many{"pipeline.stages=3", "pipeline.layout=[2, 1, 2]"};
  const std::vector<std::string> in_turn{"pipeline.schedule=1f1b", "pipeline.dispatch=static"},
      reactive{"pipeline.schedule=1f1b", "pipeline.dispatch=reactive", "pipeline.caps.activations=1"},
      all_first{"pipeline.schedule=gpipe", "pipeline.dispatch=static"};
  const auto expect = [](const std::vector<std::string>& stages, const std::vector<std::string>& schedule,
                         test::Order order) {
    for (const char* tied : {"model.tied_embeddings=false", "model.tied_embeddings=true"})
      for (const char* hidden : {"model.hidden=24", "model.hidden=200"})
        for (const char* shards : {"training.logical_shards=1", "training.logical_shards=8"}) {
          std::vector<std::string> set{tied, hidden, shards, "pipeline.replicas=1"};
          for (const auto* more : {&stages, &schedule}) set.insert(set.end(), more->begin(), more->end());
          const Topology topology = load(small_cpu_file, set);
          const JobPlan plan = plan_job(topology);
          const auto measured = measured_peaks(topology, plan, order);
          for (std::size_t s = 0; s < measured.size(); ++s) {
            const double share = measured[s] / static_cast<double>(plan.memory[0][s].total().value);
            EXPECT_LE(share, 1.01) << fmt::format("stage {} with {}", s, fmt::join(set, ", "));
            EXPECT_GE(share, 0.9) << fmt::format("stage {} with {}", s, fmt::join(set, ", "));
          }
        }
  };
  expect(alone, in_turn, test::Order::one_by_one);
  expect(alone, reactive, test::Order::one_by_one);
  expect(alone, all_first, test::Order::forwards_first);
  expect(many, all_first, test::Order::forwards_first);
}

// -- gradient buffers, seen through the forecast: only gradients weigh anything

std::uint64_t forecast_buffers(std::uint32_t micro_batches, std::uint32_t shards, std::uint32_t replicas,
                               std::uint32_t replica = 0) {
  const JobPlan plan = Emulated{.layers = 1,
                                .stages = 1,
                                .replicas = replicas,
                                .micro_batches = micro_batches,
                                .shards = shards,
                                .costs =
                                    "forward: 1ms, backward_input: 1ms, backward_weight: 1ms, "
                                    "parameters: 1MiB"}
                           .plan();
  return plan.replicas[replica].forecast.peak_bytes[0].value / mebibyte;
}

TEST(JobPlan, the_forecast_holds_as_many_gradient_buffers_as_the_tree_needs) {
  for (const std::uint32_t shards : {1U, 2U, 4U, 8U, 16U})
    for (std::uint32_t replicas = 1; replicas <= shards; replicas *= 2)
      EXPECT_EQ(forecast_buffers(2 * shards, shards, replicas), std::log2(shards / replicas) + 1)
          << shards << " shards, " << replicas << " replicas";
  const std::uint64_t published[] = {4, 3, 3, 2, 2, 2, 2, 1};
  for (std::uint32_t replicas = 1; replicas <= 8; ++replicas) {
    std::uint64_t most = 0;
    for (std::uint32_t r = 0; r < replicas; ++r) most = std::max(most, forecast_buffers(16, 8, replicas, r));
    EXPECT_EQ(most, published[replicas - 1]) << replicas << " replicas";
  }
}

TEST(JobPlan, shards_without_micro_batches_take_no_gradient_buffers) {
  EXPECT_EQ(forecast_buffers(1, 16, 1), 1U);
  EXPECT_EQ(forecast_buffers(2, 16, 1), 2U);
  // Of shards 0 .. 4 the first and the last have no micro-batch. When the second one's gradient is in, the last, empty
  // one closes too and all are one subtree: F of the third micro-batch meets a single buffer.
  const Emulated job{.layers = 1,
                     .stages = 1,
                     .replicas = 3,
                     .micro_batches = 11,
                     .shards = 16,
                     .costs =
                         "forward: 1ms, backward_input: 1ms, backward_weight: 1ms, parameters: 10MiB, "
                         "activation: 100MiB",
                     .pipeline = "schedule: 1f1b, dispatch: reactive, caps: { activations: 1 }"};
  ASSERT_EQ(micro_batches_of({0}, 3, 16, 11), (Range{0, 3}));
  EXPECT_EQ(job.plan().replicas[0].forecast.peak_bytes[0].value, 110 * mebibyte);
}

// -- times

TEST(JobPlan, costs_per_stage_are_shared_evenly_by_its_chunks) {
  const JobPlan one = Emulated{.layers = 7, .stages = 2}.plan();
  ASSERT_EQ(one.times.size(), 2U);
  for (const OperatorTimes& t : one.times) {
    EXPECT_EQ(t.forward, 10ms);
    EXPECT_EQ(t.backward_input, 20ms);
    EXPECT_EQ(t.backward_weight, 30ms);
    EXPECT_EQ(t.of(OperatorKind::backward), 50ms);
  }
  const JobPlan two = Emulated{.layers = 7, .stages = 2, .chunks = 2}.plan();
  ASSERT_EQ(two.times.size(), 4U);
  for (const OperatorTimes& t : two.times) EXPECT_EQ(t.forward, 5ms);
}

TEST(JobPlan, costs_per_layer_grow_with_the_layers_of_a_chunk) {
  const JobPlan plan = Emulated{.layers = 7,
                                .stages = 2,
                                .chunks = 2,
                                .costs = "per: layer, forward: 10ms, backward_input: 20ms, backward_weight: 30ms"}
                           .plan();
  const Duration forwards[] = {20ms, 20ms, 20ms, 10ms};
  for (std::size_t c = 0; c < 4; ++c) {
    EXPECT_EQ(plan.times[c].forward, forwards[c]) << c;
    EXPECT_EQ(plan.times[c].backward_weight, 3 * forwards[c]) << c;
  }
}

TEST(JobPlan, every_stage_has_the_costs_of_its_own_device) {
  const JobPlan plan =
      Emulated{.layers = 6,
               .stages = 3,
               .costs =
                   "forward: 1ms, backward_input: 1ms, backward_weight: 1ms, "
                   "parameters: 6MiB, reduce: 4ms, step: 5ms",
               .other_costs = {"forward: 2ms, backward_input: 1ms, backward_weight: 1ms, parameters: 2MiB",
                               "forward: 3ms, backward_input: 1ms, backward_weight: 1ms, parameters: 3MiB"}}
          .plan();
  const std::uint64_t parameters[] = {6, 2, 3};
  for (std::uint32_t s = 0; s < 3; ++s) {
    EXPECT_EQ(plan.times[s].forward, Duration(1ms) * (s + 1));
    EXPECT_EQ(plan.memory[0][s].parameters.value, parameters[s] * mebibyte);
  }
  EXPECT_EQ(plan.reduce_time, 4ms);
  EXPECT_EQ(plan.step_time, 5ms);
}

TEST(JobPlan, times_of_cpu_stages_follow_the_operations_of_their_units) {
  const Topology topology = load(small_cpu_file);
  const JobPlan plan = plan_job(topology);
  for (std::uint32_t s = 0; s < 3; ++s) {
    double flops = 0;
    const Range units = plan.chunks[s][0].units;
    for (std::uint32_t u = units.begin; u < units.end; ++u)
      flops += plan.arithmetic[0]->flops({u}, OperatorKind::forward, 64, 64);
    EXPECT_NEAR(static_cast<double>(plan.times[s].forward.count()), flops / assumed_cpu_flops * 1e9, 1) << s;
    EXPECT_GT(plan.times[s].backward_input, plan.times[s].forward) << "attention is computed again";
  }
}

// -- links

Instant start_of(const JobPlan& plan, const char* op) {
  const Operator wanted = *parse_operator(op);
  for (const TimedOperator& t : plan.replicas[0].forecast.timeline)
    if (t.op == wanted) return t.start;
  ADD_FAILURE() << op << " is not in the forecast";
  return {};
}

TEST(JobPlan, a_stage_starts_when_its_input_is_there) {  // B42
  const JobPlan plan = Emulated{.stages = 4, .links = "links: { defaults: { latency: 3ms } }"}.plan();
  const char* firsts[] = {"0F0", "1F0", "2F0", "3F0"};
  for (std::uint32_t s = 0; s < 4; ++s) EXPECT_EQ(start_of(plan, firsts[s]), s * Duration(13ms)) << firsts[s];
}

TEST(JobPlan, link_costs_reach_their_boundary_and_direction) {
  const auto with_link = [](const std::string& link) {
    return Emulated{.layers = 3, .stages = 3, .links = "links: { overrides: [" + link + "] }"}.plan();
  };
  const JobPlan none = with_link(""), both = with_link("{ between: [1, 2], latency: 7ms }"),
                forward = with_link("{ between: [1, 2], latency: 7ms, direction: forward }"),
                backward = with_link("{ between: [1, 2], latency: 7ms, direction: backward }");
  for (const JobPlan* plan : {&none, &both, &forward, &backward}) {
    EXPECT_EQ(start_of(*plan, "1F0"), 10ms) << "the other link is free";
    const bool slow_forward = plan == &both || plan == &forward, slow_backward = plan == &both || plan == &backward;
    EXPECT_EQ(start_of(*plan, "2F0"), slow_forward ? 27ms : 20ms);
    const Instant ended = start_of(*plan, "2X0") + 50ms;
    EXPECT_EQ(start_of(*plan, "1X0"), ended + (slow_backward ? 7ms : 0ms));
    EXPECT_EQ(start_of(*plan, "0X0"), start_of(*plan, "1X0") + 50ms);
  }
}

TEST(JobPlan, a_link_between_two_stages_serves_every_chunk_boundary_between_them) {
  const auto plan = [](const std::string& link) {
    return Emulated{
        .layers = 6, .stages = 3, .chunks = 2, .micro_batches = 1, .links = "links: { overrides: [" + link + "] }"}
        .plan();
  };
  const JobPlan ahead = plan("{ between: [0, 1], latency: 100ms, direction: forward }");
  EXPECT_EQ(start_of(ahead, "1F0"), 105ms);
  EXPECT_EQ(start_of(ahead, "3F0"), 115ms) << "the way back to stage 0 is another link";
  EXPECT_EQ(start_of(ahead, "4F0"), 220ms) << "the second boundary of the same link";
  const JobPlan around = plan("{ between: [2, 0], latency: 100ms, direction: forward }");
  EXPECT_EQ(start_of(around, "2F0"), 10ms);
  EXPECT_EQ(start_of(around, "3F0"), 115ms);
  EXPECT_EQ(start_of(around, "4F0"), 120ms);
}

TEST(JobPlan, bandwidth_counts_the_boundary_tensor) {
  const JobPlan plan = Emulated{.stages = 2,
                                .costs = "forward: 10ms, backward_input: 1ms, backward_weight: 1ms, boundary: 5MB",
                                .links = "links: { defaults: { bandwidth: 1GB/s } }"}
                           .plan();
  EXPECT_EQ(start_of(plan, "1F0"), 15ms);
}

TEST(JobPlan, negative_controls_reach_the_stage_plans) {
  const Topology topology = load(small_cpu_file);
  for (const bool free : {false, true})
    for (const PipelinePlan& replica : plan_job(topology, {.free_weight_order = free}).replicas)
      for (const StagePlan& stage : replica.stages) EXPECT_EQ(stage.free_weight_order, free);
}

TEST(JobPlan, a_share_says_what_one_stage_actor_hosts) {
  const Topology topology = load(small_cpu_file);
  const JobPlan plan = plan_job(topology);
  const StageShare share = plan.share(topology, {{1}, {1}});
  EXPECT_EQ(share.place, (Place{{1}, {1}}));
  EXPECT_EQ(share.replicas, 2U);
  EXPECT_EQ(share.micro_batches, 8U);
  EXPECT_EQ(share.shards, 4U);
  ASSERT_EQ(share.chunks.size(), 1U);
  EXPECT_EQ(share.chunks[0].units, (Range{3, 5}));
}

}  // namespace
}  // namespace stagecraft
