// What is simulated is what runs: the actors under the virtual clock and the simulator start every operator of random
// plans at the same nanosecond.
#include <gtest/gtest.h>

#include <array>
#include <map>

#include "fixture.hpp"
#include "model/job_plan.hpp"
#include "planning/generate.hpp"
#include "planning/simulate.hpp"

namespace stagecraft::test {
namespace {

using namespace std::chrono_literals;

constexpr ScheduleKind kinds[] = {ScheduleKind::gpipe,   ScheduleKind::one_f_one_b, ScheduleKind::interleaved,
                                  ScheduleKind::bfs,     ScheduleKind::zb_h1,       ScheduleKind::zb_h2,
                                  ScheduleKind::zb_auto, ScheduleKind::zb_v,        ScheduleKind::v_half,
                                  ScheduleKind::v_min,   ScheduleKind::pipemorph,   ScheduleKind::planned};
constexpr Dispatch dispatches[] = {Dispatch::in_order, Dispatch::reactive, Dispatch::follow};

// Every other case has times that are multiples of 5 ms, so that many things happen at one instant.
class Draw {
 public:
  explicit Draw(std::uint64_t seed) : draw_(seed, "agreement"), unit_(seed % 2 == 0 ? 5'000'000 : 1'000) {}
  std::uint64_t between(std::uint64_t low, std::uint64_t high) { return draw_.between(low, high); }
  std::string time(std::uint64_t most_ms, std::uint64_t least_units = 0) {
    return fmt::format("{}ns", (least_units + draw_.below(most_ms * 1'000'000 / unit_ + 1)) * unit_);
  }

 private:
  Entropy draw_;
  std::uint64_t unit_;
};

// What decides how long things take; the plan may have been made for other costs.
std::vector<std::string> random_costs(Draw& draw, std::uint64_t stages) {
  std::string devices;
  for (std::uint64_t s = 0; s < stages; ++s)
    devices += fmt::format(
        "{}{{kind: emulated, memory: 8GiB, costs: {{forward: {}, backward_input: {}, backward_weight: {}}}}}",
        s > 0 ? ", " : "", draw.time(20, 1), draw.time(20, 1), draw.time(20, 1));
  std::vector<std::string> overrides = {
      "nodes=[{name: n0, devices: [" + devices + "]}]",
      fmt::format("links.defaults.latency={}", draw.between(0, 1) == 0 ? "0ns" : draw.time(15)),
      fmt::format("links.defaults.occupancy={}", draw.between(0, 1) == 0 ? "0ns" : draw.time(8))};
  constexpr std::array routes{"delegated", "direct", "auto"};  // without faults an automatic one stays direct
  overrides.push_back(fmt::format("links.defaults.route={}", routes.at(draw.between(0, 2))));
  overrides.push_back(fmt::format("links.defaults.admission={}", draw.between(1, 3)));
  overrides.push_back(fmt::format("links.defaults.delegates={}", draw.between(1, 3)));
  overrides.push_back(fmt::format("links.defaults.staging={}", draw.between(0, 1) == 0 ? "0ns" : draw.time(3)));
  if (stages > 1 && draw.between(0, 1) == 0)
    overrides.push_back(fmt::format("links.overrides=[{{between: [0, 1], direction: {}, latency: {}, occupancy: {}}}]",
                                    draw.between(0, 1) == 0 ? "forward" : "backward", draw.time(40), draw.time(10)));
  return overrides;
}

struct RandomPlan {
  Topology planned_for, real;
  std::string what;
};

RandomPlan random_plan(std::uint64_t seed) {
  Draw draw(seed);
  const ScheduleKind kind = kinds[seed % std::size(kinds)];
  const Dispatch dispatch = dispatches[seed / std::size(kinds) % std::size(dispatches)];
  const std::uint64_t stages = draw.between(1, 5), chunks = chunks_needed(kind).value_or(draw.between(1, 3));
  std::vector<std::string> job = {"job.iterations=2",
                                  "model.layers=15",
                                  fmt::format("pipeline.stages={}", stages),
                                  fmt::format("pipeline.chunks={}", chunks),
                                  fmt::format("pipeline.schedule={}", name_of(kind)),
                                  fmt::format("pipeline.dispatch={}", name_of(dispatch)),
                                  fmt::format("training.micro_batches={}", draw.between(1, 10))};
  if (draw.between(0, 2) == 0) job.push_back(fmt::format("links.defaults.credits={}", draw.between(1, 3)));
  if (draw.between(0, 1) == 0)
    job.push_back(fmt::format("pipeline.caps.activations={}", draw.between(chunks, chunks + 6)));
  if (draw.between(0, 1) == 0) job.push_back("pipeline.caps.pending_weights=off");
  const auto with = [&](const std::vector<std::string>& costs) {
    std::vector<std::string> all = job;
    all.insert(all.end(), costs.begin(), costs.end());
    return all;
  };
  const auto believed = with(random_costs(draw, stages)), real = with(random_costs(draw, stages));
  return {load(emulated_file(), believed), load(emulated_file(), seed % 3 == 0 ? believed : real),
          fmt::format("seed {}: {} planned for {}", seed, fmt::join(seed % 3 == 0 ? believed : real, " "),
                      fmt::join(believed, " "))};
}

SimulationResult simulated(const RandomPlan& random) {
  const PipelinePlan plan = plan_job(random.planned_for).replicas[0];
  SimulationInput input;
  input.shape = random.real.pipeline.shape();
  input.shape.micro_batches = random.real.training.micro_batches;
  input.plans = plan.stages;
  input.times = plan_job(random.real).times;
  input.credits = plan.credits;
  for (std::uint32_t b = 0; b + 1 < input.shape.total_chunks(); ++b) {
    const StageId lower = input.shape.stage_of({b}), upper = input.shape.stage_of({b + 1});
    input.forward_links.push_back(link_cost(random.real, lower, upper, Direction::forward));
    input.backward_links.push_back(link_cost(random.real, lower, upper, Direction::backward));
  }
  return simulate(input);
}

// The operators of the last iteration, which began at its first start.
std::map<Operator, TimedOperator> operators_of(const RunResult& result) {
  std::map<Operator, TimedOperator> operators;
  Instant first = Instant::max();
  for (const TimedOperator& timed : result.last_iteration)
    if (!timed.overhead) first = std::min(first, timed.start);
  for (TimedOperator timed : result.last_iteration) {
    if (timed.overhead) continue;
    timed.start -= first;
    timed.end -= first;
    operators[timed.op] = timed;
  }
  return operators;
}

TEST(Agreement, actors_and_simulator_start_every_operator_at_the_same_nanosecond) {
  std::map<Dispatch, std::uint64_t> operators;
  for (std::uint64_t seed = 1; seed <= 288; ++seed) {
    const RandomPlan random = random_plan(seed);
    const SimulationResult expected = simulated(random);
    VirtualRun run{seed, {}, {}};
    run.options.planned_for = &random.planned_for;
    const RunResult result = run_virtual(random.real, run);
    ASSERT_TRUE(sound(result)) << random.what << "\n" << result.reason;
    for (const IterationReport& r : result.iterations) ASSERT_EQ(r.time, expected.makespan) << random.what;
    auto ran = operators_of(result);
    ASSERT_EQ(ran.size(), expected.timeline.size()) << random.what;
    for (const TimedOperator& timed : expected.timeline) {
      const TimedOperator& real = ran[timed.op];
      ASSERT_EQ(real.start, timed.start) << random.what << "\n" << to_text(timed.op);
      ASSERT_EQ(real.end, timed.end) << random.what << "\n" << to_text(timed.op);
      ASSERT_EQ(real.place.stage, timed.place.stage) << random.what << "\n" << to_text(timed.op);
    }
    operators[random.real.pipeline.dispatch] += expected.timeline.size();
  }
  for (const Dispatch dispatch : dispatches) EXPECT_GT(operators[dispatch], 1'000U) << name_of(dispatch);
}

// The plan is made for links without latency, and nobody tells the stages that the first one has some.
TEST(Agreement, a_followed_plan_gives_way_to_an_unknown_slow_link) {
  struct Row {
    int latency;
    Duration listed, followed;
  };
  const Row rows[] = {{0, 390ms, 390ms}, {10, 400ms, 400ms}, {20, 440ms, 410ms}, {40, 560ms, 430ms}};
  const std::vector<std::string> job = {"pipeline.stages=4",
                                        "training.micro_batches=12",
                                        "job.iterations=2",
                                        "pipeline.schedule=pipemorph",
                                        "links.defaults.credits=12",
                                        "pipeline.warmup=[7,5,3,1]",
                                        "pipeline.caps.activations=off",
                                        "pipeline.caps.pending_weights=off"};
  for (const auto& [latency, listed, followed] : rows) {
    std::vector<std::string> real = job;
    real.push_back(fmt::format("links.overrides=[{{between: [0, 1], latency: {}ms}}]", latency));
    Duration took[2];
    for (const bool follow : {false, true}) {
      real.resize(job.size() + 1);
      real.push_back(follow ? "pipeline.dispatch=follow" : "pipeline.dispatch=static");
      Topology planned_for = load(emulated_file(), real);
      planned_for.links.links.clear();
      VirtualRun run;
      run.options.planned_for = &planned_for;
      const RunResult result = run_virtual(load(emulated_file(), real), run);
      ASSERT_TRUE(sound(result)) << result.reason;
      took[follow] = result.iterations.at(1).time;
    }
    EXPECT_EQ(took[0], listed) << latency << " ms";
    EXPECT_EQ(took[1], followed) << latency << " ms";
  }
}

TEST(Agreement, a_followed_plan_takes_its_time_under_the_real_clock_too) {
  for (const char* schedule : {"zb-h1", "1f1b", "planned"}) {
    const Topology topology =
        load(emulated_file(), {"pipeline.stages=4", "job.iterations=2", "pipeline.dispatch=follow",
                               fmt::format("pipeline.schedule={}", schedule), "links.defaults.latency=1ms",
                               "nodes.0.devices.0.costs.forward=3ms", "nodes.0.devices.0.costs.backward_input=4ms",
                               "nodes.0.devices.0.costs.backward_weight=2ms"});
    const Duration planned = plan_job(topology).replicas[0].forecast.makespan;
    const auto world = make_real_world(2);
    const RunResult result = run_job(*world, topology, {});
    ASSERT_TRUE(sound(result)) << result.reason;
    for (const IterationReport& r : result.iterations) {
      EXPECT_GE(r.time, planned * 95 / 100) << schedule;
      EXPECT_LE(r.time, planned * 115 / 100) << schedule << ": late timers must not add up";
    }
  }
}

}  // namespace
}  // namespace stagecraft::test
