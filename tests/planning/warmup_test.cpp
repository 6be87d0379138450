#include "planning/warmup.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <functional>

#include "planning/bug.hpp"
#include "planning/random.hpp"

namespace stagecraft {
namespace {

using namespace std::chrono_literals;
using Warmup = std::vector<std::uint32_t>;

WarmupRequest request_of(std::uint32_t stages, std::uint32_t micro_batches, Duration target,
                         OperatorTimes times = {10ms, 10ms, 10ms}) {
  WarmupRequest request;
  request.pipeline.times.assign(stages, times);
  request.pipeline.down.assign(stages - 1, Duration{});
  request.pipeline.up = request.pipeline.down;
  request.pipeline.micro_batches = micro_batches;
  request.target = target;
  return request;
}

WarmupRequest random_request(Entropy& dice, std::uint32_t stages, std::uint32_t micro_batches) {
  WarmupRequest request = request_of(stages, micro_batches, {});
  const auto time = [&] { return Duration{static_cast<std::int64_t>(dice.between(1, 9)) * 1'000'000}; };
  for (OperatorTimes& t : request.pipeline.times) t = {time(), time(), time()};
  for (Duration& latency : request.pipeline.down) latency = dice.below(2) * time();
  for (Duration& latency : request.pipeline.up) latency = dice.below(3) * time();
  request.pipeline.weights = static_cast<WeightWork>(dice.below(3));
  for (std::uint32_t s = 0; s < stages; ++s) request.target = std::max(request.target, request.pipeline.work(s));
  request.target += dice.below(2) * time();
  for (std::uint32_t s = 0; s < stages; ++s)
    request.memory.push_back({{}, Bytes{dice.between(1, 9)}, Bytes{dice.between(1, 9)}, Bytes{100}, {}, {}});
  return request;
}

// Every warm-up that `check_warmup` lets pass.
void for_every_warmup(AlternatingPipeline pipeline, const std::function<void(const AlternatingPipeline&)>& use) {
  pipeline.warmup.assign(pipeline.stages(), 1);
  const std::function<void(std::uint32_t)> from = [&](std::uint32_t stage) {
    if (stage + 1 == pipeline.stages()) return use(pipeline);
    const std::uint32_t most = stage == 0 ? pipeline.micro_batches : pipeline.warmup[stage - 1];
    for (std::uint32_t x = 1; x <= most; ++x) {
      pipeline.warmup[stage] = x;
      from(stage + 1);
    }
  };
  from(0);
}

TEST(WarmupPlan, the_worked_example_needs_eight_five_three_one) {
  WarmupRequest request = request_of(4, 12, 20ms);
  request.pipeline.down[0] = request.pipeline.up[0] = 20ms;
  const auto plan = std::get<WarmupPlan>(plan_warmup(request));
  // Least memory: the links without delay get the slack of one that they need, not the published two.
  EXPECT_EQ(plan.warmup(), (Warmup{6, 3, 2, 1}));
  EXPECT_EQ(plan.binding.period(), 20e6);
  // With room for 10 ms each way on the other links it is the published plan.
  for (int k : {1, 2}) request.pipeline.down[k] = request.pipeline.up[k] = 10ms;
  EXPECT_EQ(std::get<WarmupPlan>(plan_warmup(request)).warmup(), (Warmup{8, 5, 3, 1}));
}

TEST(WarmupPlan, is_valid_and_meets_its_target_for_every_number_of_stages_and_micro_batches) {
  Entropy dice(1, "all sizes");
  for (std::uint32_t stages = 1; stages <= 8; ++stages) {
    for (std::uint32_t n = 1; n <= 20; ++n) {
      const WarmupRequest request = random_request(dice, stages, n);
      const auto plan = std::get<WarmupPlan>(plan_warmup(request));
      AlternatingPipeline pipeline = request.pipeline;
      pipeline.warmup = plan.warmup();
      const auto problem = check_warmup(pipeline);
      ASSERT_FALSE(problem) << *problem;
      ASSERT_LE(plan.binding.period(), static_cast<double>(request.target.count()));
    }
  }
}

TEST(WarmupPlan, no_other_warm_up_that_meets_the_target_takes_less) {
  Entropy dice(2, "brute force");
  for (int i = 0; i < 200; ++i) {
    const auto stages = static_cast<std::uint32_t>(dice.between(1, 4)),
               n = static_cast<std::uint32_t>(dice.between(1, 7));
    const WarmupRequest request = random_request(dice, stages, n);
    const auto plan = std::get<WarmupPlan>(plan_warmup(request));
    std::uint64_t least = ~0ULL;
    for_every_warmup(request.pipeline, [&](const AlternatingPipeline& pipeline) {
      if (analyse_delay(pipeline).binding.period() > static_cast<double>(request.target.count())) return;
      std::uint64_t sum = 0;
      for (std::uint32_t s = 0; s < stages; ++s)
        sum += peak_bytes(request.memory[s], pipeline.weights, n, pipeline.warmup[s], pipeline.warmup[s]).value;
      least = std::min(least, sum);
    });
    ASSERT_EQ(plan.device_bytes().value, least);
  }
}

TEST(WarmupPlan, the_fastest_one_within_memory_is_the_best_of_all_that_fit) {
  Entropy dice(3, "fastest");
  int shortages = 0;
  for (int i = 0; i < 100; ++i) {
    const auto stages = static_cast<std::uint32_t>(dice.between(1, 4)),
               n = static_cast<std::uint32_t>(dice.between(1, 6));
    WarmupRequest request = random_request(dice, stages, n);
    for (StageMemory& memory : request.memory) memory.device = Bytes{dice.between(105, 140)};
    double best = 1e18;
    for_every_warmup(request.pipeline, [&](const AlternatingPipeline& pipeline) {
      for (std::uint32_t s = 0; s < stages; ++s) {
        const StageMemory& memory = request.memory[s];
        if (peak_bytes(memory, pipeline.weights, n, pipeline.warmup[s], pipeline.warmup[s]) > *memory.device) return;
      }
      best = std::min(best, analyse_delay(pipeline).binding.period());
    });
    const auto outcome = fastest_warmup(request);
    shortages += std::holds_alternative<WarmupShortage>(outcome) ? 1 : 0;
    if (const auto* plan = std::get_if<WarmupPlan>(&outcome))
      ASSERT_DOUBLE_EQ(plan->binding.period(), best);
    else
      ASSERT_EQ(best, 1e18);
  }
  EXPECT_GT(shortages, 5);
  EXPECT_LT(shortages, 95);
}

// Bytes of a stage counted operator by operator, with the activations beyond `on_device` elsewhere.
std::uint64_t counted_peak(const StageMemory& m, WeightWork weights, std::uint32_t n, std::uint32_t x,
                           std::uint32_t room) {
  std::uint64_t most = 0;
  std::uint32_t forwards = x, backwards = 0;
  const auto note = [&](std::uint32_t pending) {
    const std::uint64_t here = std::min(room, forwards - backwards);
    most = std::max(most, here * m.activation.value + pending * m.weight_activation.value);
  };
  note(0);
  while (backwards < n) {
    note(weights == WeightWork::fused ? 0 : weights == WeightWork::in_place ? 1 : backwards + 1);
    ++backwards;
    if (forwards < n) ++forwards;
    note(weights == WeightWork::deferred ? backwards : 0);
  }
  return m.fixed.value + most;
}

TEST(WarmupPlan, peak_bytes_are_those_of_the_list_counted_operator_by_operator) {
  Entropy dice(4, "peaks");
  for (int i = 0; i < 2000; ++i) {
    const auto n = static_cast<std::uint32_t>(dice.between(1, 12)), x = static_cast<std::uint32_t>(dice.between(1, n));
    const auto room = static_cast<std::uint32_t>(dice.between(1, x));
    const StageMemory memory{{}, Bytes{dice.below(10)}, Bytes{dice.below(10)}, Bytes{7}, {}, {}};
    const auto weights = static_cast<WeightWork>(i % 3);
    ASSERT_EQ(peak_bytes(memory, weights, n, x, room).value, counted_peak(memory, weights, n, x, room));
  }
}

TEST(WarmupPlan, host_memory_takes_what_the_device_can_not_and_no_more) {
  WarmupRequest request = request_of(4, 12, 20ms);
  request.pipeline.down[0] = request.pipeline.up[0] = 20ms;
  request.memory.assign(4, {{}, Bytes{10}, Bytes{1}, Bytes{5}, {}, Bytes{1000}});
  request.memory[0].caps.activations = 4;
  const auto plan = std::get<WarmupPlan>(plan_warmup(request));
  EXPECT_EQ(plan.stages[0].warmup, 6U);
  EXPECT_EQ(plan.stages[0].on_host, 2U);
  EXPECT_EQ(plan.host_bytes(), Bytes{20});
  EXPECT_EQ(plan.stages[1].on_host, 0U);
  // The same by bytes: 5 fixed, 4 activations, pending weight gradients of the 9th backward at the peak.
  request.memory[0].caps = {};
  request.memory[0].device = Bytes{5 + 40 + 9};
  const auto by_bytes = std::get<WarmupPlan>(plan_warmup(request));
  EXPECT_EQ(by_bytes.stages[0].on_host, 2U);
  EXPECT_EQ(by_bytes.stages[0].device, Bytes{54});
  request.memory[0].device = Bytes{53};
  EXPECT_EQ(std::get<WarmupPlan>(plan_warmup(request)).stages[0].on_host, 3U);
}

StageShortage only_shortage(const WarmupRequest& request) {
  const auto shortage = std::get<WarmupShortage>(plan_warmup(request));
  EXPECT_EQ(shortage.stages.size(), 1U);
  return shortage.stages.front();
}

TEST(WarmupPlan, an_impossible_cap_names_the_stage_and_the_smallest_that_would_do) {
  using Resource = StageShortage::Resource;
  WarmupRequest request = request_of(4, 12, 20ms);
  request.pipeline.down[0] = request.pipeline.up[0] = 20ms;
  request.memory.assign(4, {{}, Bytes{10}, Bytes{1}, Bytes{5}, {}, {}});
  const auto expect = [&](Resource resource, std::uint64_t available, std::uint64_t needed, auto&& amend) {
    WarmupRequest enough = request, lacking = request;
    amend(lacking.memory[0], available);
    const StageShortage lack = only_shortage(lacking);
    EXPECT_EQ(lack.resource, resource);
    EXPECT_EQ(lack.stage, StageId{0});
    EXPECT_EQ(lack.available, available);
    EXPECT_EQ(lack.needed, needed);
    amend(enough.memory[0], needed);
    EXPECT_TRUE(std::holds_alternative<WarmupPlan>(plan_warmup(enough)));
    amend(lacking.memory[0], needed - 1);
    EXPECT_TRUE(std::holds_alternative<WarmupShortage>(plan_warmup(lacking)));
  };
  const auto count = [](std::uint64_t value) { return static_cast<std::uint32_t>(value); };
  expect(Resource::activations, 5, 6, [&](StageMemory& m, std::uint64_t v) { m.caps.activations = count(v); });
  expect(Resource::pending_weights, 3, 12, [&](StageMemory& m, std::uint64_t v) { m.caps.pending_weights = count(v); });
  expect(Resource::held, 11, 12, [&](StageMemory& m, std::uint64_t v) { m.caps.held = count(v); });
  expect(Resource::device_bytes, 60, 5 + 60 + 7, [](StageMemory& m, std::uint64_t v) { m.device = Bytes{v}; });
  // Host memory for two of the six lets four stay, at the ninth backward.
  request.memory[0].host = Bytes{25};
  expect(Resource::device_bytes, 50, 5 + 40 + 9, [](StageMemory& m, std::uint64_t v) { m.device = Bytes{v}; });
  request.memory[0].host = {};
  request.target = 19ms;
  const auto slow = std::get<WarmupShortage>(plan_warmup(request));
  ASSERT_EQ(slow.stages.size(), 4U);
  EXPECT_EQ(slow.stages[0].resource, Resource::period);
  EXPECT_EQ(slow.stages[0].needed, 20'000'000U);
}

TEST(WarmupPlan, a_shortage_reads_as_what_is_there_what_is_needed_and_what_to_try) {
  WarmupRequest request = request_of(3, 9, 20ms);
  request.memory.assign(3, {});
  request.memory[0].caps.activations = 2;
  EXPECT_EQ(to_text(std::get<WarmupShortage>(plan_warmup(request))),
            "stage 0 has 2 places for activations (F-B), the period needs 3; raise the cap, give it host memory or "
            "accept a longer period\n");
  request.target = 10ms;
  EXPECT_NE(to_text(std::get<WarmupShortage>(plan_warmup(request))).find("stage 2 alone works 20 ms"),
            std::string::npos);
}

TEST(WarmupPlan, pending_weight_gradients_are_a_cap_of_their_own_that_in_place_work_respects) {
  WarmupRequest request = request_of(4, 12, 30ms);
  request.memory.assign(4, {});
  for (StageMemory& memory : request.memory) memory.caps.pending_weights = 1;
  EXPECT_TRUE(std::holds_alternative<WarmupShortage>(plan_warmup(request)));
  request.pipeline.weights = WeightWork::in_place;
  const auto plan = std::get<WarmupPlan>(plan_warmup(request));
  EXPECT_EQ(plan.stages[0].pending_weights, 1U);
  EXPECT_EQ(plan.stages[0].held, plan.stages[0].warmup);
}

}  // namespace
}  // namespace stagecraft
