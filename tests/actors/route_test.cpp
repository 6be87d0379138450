// Routes in a run: what a direct one costs when its link is slow, and what changes when tensors go over delegates.
#include <gtest/gtest.h>

#include "tests/actors/under_a_fault.hpp"

namespace stagecraft::test {
namespace {

using namespace std::chrono_literals;

// Of the healthy link 1 ms, in iterations 25 to 44 sixty.
const std::string throttled =
    "{ id: slow, at: { iteration: 25 }, do: throttle, on: { link: [1, 2] }, with: { factor: 60 }, "
    "for: { iterations: 20 } }";

// With warm-ups that leave slack for a round trip of sixty, and memory for them.
std::vector<std::string> by(const std::string& route) {
  return {"pipeline.schedule=1f1b",        "pipeline.warmup=[11,9,2,1]",
          "pipeline.caps.activations=off", "pipeline.caps.pending_weights=off",
          "links.defaults.credits=12",     "links.defaults.occupancy=1ms",
          "links.defaults.staging=2ms",    "links.defaults.delegates=8",
          "links.defaults.route=" + route};
}
// A plan of the planner's own, that is made anew when it hears of slow links.
std::vector<std::string> planned_by(const std::string& route) {
  return {"pipeline.schedule=planned",  "pipeline.dispatch=follow",   "links.defaults.occupancy=1ms",
          "links.defaults.staging=2ms", "links.defaults.delegates=8", "links.defaults.route=" + route};
}
Duration time_of(const Told& told, std::uint32_t iteration) { return told.result.iterations.at(iteration - 1).time; }

TEST(Routes, a_slow_direct_link_holds_up_its_devices_and_a_delegated_one_does_not) {
  const Told direct = run_under(throttled, by("direct")), delegated = run_under(throttled, by("delegated"));
  EXPECT_EQ(time_of(direct, 10), time_of(direct, 60)) << "healthy again";
  // Twelve micro-batches each way, one at a time.
  EXPECT_GE(time_of(direct, 40), 12 * 60ms);
  EXPECT_GE(time_of(direct, 40).count() * 10, time_of(delegated, 40).count() * 17)
      << format(time_of(direct, 40)) << " and " << format(time_of(delegated, 40));
  EXPECT_TRUE(direct.routes.empty() && delegated.routes.empty());
  EXPECT_EQ(direct.result.weights_sha256, delegated.result.weights_sha256);
}

TEST(Routes, delegates_take_over_while_a_link_holds_up_its_devices) {
  const Told healthy = run_under("", by("auto")), slow = run_under(throttled, by("auto"));
  const Told direct = run_under(throttled, by("direct")), delegated = run_under(throttled, by("delegated"));
  EXPECT_TRUE(healthy.routes.empty()) << all(healthy.routes);
  EXPECT_EQ(slow.result.weights_sha256, healthy.result.weights_sha256);
  ASSERT_EQ(slow.routes.size(), 4U) << all(slow.routes);  // both directions, there and back
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_TRUE(has(slow.routes[i], i < 2 ? ": delegated from" : ": direct from")) << text(slow.routes[i]);
    EXPECT_TRUE(has(slow.routes[i], "boundary 1")) << text(slow.routes[i]);
  }
  EXPECT_LE(slow.routes[0].at("iteration"), 28) << "two iterations are measured, and a third has opened";
  EXPECT_LE(slow.routes[3].at("iteration"), 55);
  EXPECT_EQ(time_of(slow, 26), time_of(direct, 26)) << "before it is known";
  EXPECT_LE(time_of(slow, 44), time_of(delegated, 44)) << "the other links need no staging";
  EXPECT_EQ(time_of(slow, 60), time_of(direct, 60)) << "as if nothing had been";
}

// The monitor has told its link end, which is gone, and the next one begins with the first route.
TEST(Routes, whoever_comes_in_the_place_of_a_lost_link_end_is_told_of_the_present_route) {
  const std::string node =
      "{{ name: n{}, devices: [{{ kind: emulated, count: 2, memory: 8GiB, "
      "costs: {{ forward: 10ms, backward_input: 10ms, backward_weight: 10ms }} }}] }}";
  std::vector<std::string> nodes;
  for (int n = 0; n < 4; ++n) nodes.push_back(fmt::format(fmt::runtime(node), n));
  const auto lose = [&](const std::string& route) {
    std::vector<std::string> overrides = by(route);
    overrides.insert(overrides.end(), {"recovery.twins=true", fmt::format("nodes=[{}]", fmt::join(nodes, ", "))});
    return run_under(throttled, overrides, {1, 32});
  };
  const Told slow = lose("auto"), delegated = lose("delegated"), direct = lose("direct");
  for (const Told* told : {&slow, &delegated, &direct}) EXPECT_GT(told->result.losses, 0U);
  ASSERT_GE(slow.routes.size(), 2U) << all(slow.routes);
  EXPECT_LE(time_of(slow, 40), time_of(delegated, 40));
  EXPECT_GT(time_of(direct, 40), time_of(delegated, 40) * 3 / 2);
  EXPECT_EQ(slow.result.weights_sha256, direct.result.weights_sha256);
}

TEST(Routes, a_planner_prices_the_route_that_is_taken) {
  const Told told = run_under(throttled, planned_by("auto")), direct = run_under(throttled, planned_by("direct"));
  ASSERT_EQ(told.routes.size(), 4U) << all(told.routes) << all(told.stragglers);
  EXPECT_TRUE(std::any_of(told.plans.begin(), told.plans.end(), [](const Json& e) {
    return has(e, "delegated from the next iteration on");
  })) << all(told.plans);
  EXPECT_GE(time_of(direct, 44).count() * 10, time_of(told, 44).count() * 15)
      << format(time_of(direct, 44)) << " and " << format(time_of(told, 44));
  EXPECT_EQ(told.result.weights_sha256, direct.result.weights_sha256);
}

TEST(Routes, a_direct_link_that_is_down_stops_its_devices_until_it_is_up_again) {
  const std::string down =
      "{ id: down, when: { event: forward_started, iteration: 10, stage: 1 }, do: link_down, on: { link: [1, 2] }, "
      "for: { time: 3s } }";
  const Told told = run_under(down, by("direct"));
  EXPECT_GE(time_of(told, 10), 3s);
  EXPECT_EQ(time_of(told, 11), time_of(told, 9));
  EXPECT_EQ(told.result.weights_sha256, run_under("", by("direct")).result.weights_sha256);
}

std::vector<std::string> with_detour(const std::string& route) {
  std::vector<std::string> overrides = by(route);
  overrides.insert(overrides.end(), {"links.defaults.detour=5ms", "links.defaults.detour_after=30ms"});
  return overrides;
}

TEST(Detour, what_a_dead_link_held_goes_another_way_and_the_iteration_goes_on) {
  const std::string dead =
      "{ id: dead, when: { event: forward_started, iteration: 10, stage: 1, micro_batch: 4 }, do: link_down, "
      "on: { link: [1, 2] } }";
  for (const char* route : {"direct", "delegated", "auto"}) {
    const Told healthy = run_under("", with_detour(route)), told = run_under(dead, with_detour(route));
    EXPECT_EQ(told.result.begun_again, 0U);
    EXPECT_LE(time_of(told, 10), time_of(healthy, 10) + 2 * (30ms + 5ms)) << route << ": one wait each way";
    EXPECT_LE(time_of(told, 12), time_of(healthy, 12) + 2 * 5ms * 12) << route << ": from then on all go round";
    ASSERT_EQ(told.routes.size(), 2U) << all(told.routes);
    EXPECT_TRUE(has(told.routes[0], "boundary 1: the link from stage 1 to stage 2 has let nothing pass for 30 ms"))
        << text(told.routes[0]);
    EXPECT_EQ(told.result.weights_sha256, healthy.result.weights_sha256);
  }
}

TEST(Detour, tensors_come_back_to_the_link_with_the_iteration_after_it_lets_something_pass) {
  const std::string down =
      "{ id: down, at: { iteration: 10 }, do: link_down, on: { link: [1, 2] }, for: { iterations: 3 } }";
  const Told healthy = run_under("", with_detour("delegated")), told = run_under(down, with_detour("delegated"));
  EXPECT_GT(time_of(told, 10), time_of(healthy, 10));
  EXPECT_EQ(time_of(told, 16), time_of(healthy, 16));
  EXPECT_EQ(told.result.weights_sha256, healthy.result.weights_sha256);
}

// Any link, at any event of an iteration, for good or for a while.
TEST(Detour, a_link_dies_in_the_midst_of_an_iteration_a_thousand_seeds) {
  const std::vector<std::string> overrides = {"job.iterations=6", "links.defaults.detour=300us",
                                              "links.defaults.detour_after=1ms", "training.micro_batches=4",
                                              "pipeline.stages=3"};
  const Topology topology = load(tiny_file(), overrides);
  const std::string fault_free = bits(run_virtual(topology));
  const std::array<const char*, 5> events{"forward_started", "forward_done", "backward_started", "backward_done",
                                          "reduce_done"};
  std::uint32_t rerouted = 0;
  for (std::uint64_t seed = 1; seed <= 1000; ++seed) {
    const auto draw = [&](std::uint64_t what, std::uint64_t below) { return keyed(what, seed) % below; };
    const std::uint64_t link = draw(1, 2), event = draw(2, events.size());
    std::string when = fmt::format("event: {}, iteration: {}, stage: {}", events[event], 2 + draw(3, 4), draw(4, 3));
    if (event < 4) when += fmt::format(", micro_batch: {}", draw(5, 4));
    const std::string lasts = draw(6, 2) == 0 ? "" : fmt::format(", for: {{ time: {}us }}", 100 + draw(7, 4000));
    const auto scenario = load_scenario(
        "s.yaml", fmt::format("version: 1\nname: test\ntopology: t.yaml\nfaults: [{{ id: dead, when: {{ {} }}, do: "
                              "link_down, on: {{ link: [{}, {}] }}{} }}]\n",
                              when, link, link + 1, lasts));
    ASSERT_TRUE(scenario.scenario) << when;
    const auto disk = text_disk();
    const auto world = make_virtual_world({.seed = seed, .log_disk = disk}, disk);
    world->inject(std::make_shared<FaultBoard>(*scenario.scenario, topology, seed));
    RunOptions options;
    options.log_path = "/events.jsonl";
    const RunResult result = run_job(*world, topology, options);
    ASSERT_TRUE(sound(result)) << "seed " << seed << ": " << result.reason;
    ASSERT_EQ(result.begun_again, 0U) << "seed " << seed;
    ASSERT_EQ(bits(result), fault_free) << "seed " << seed << ", " << when << lasts;
    rerouted += disk->read("/events.jsonl").value().find("\"rerouted\"") != std::string::npos;
  }
  EXPECT_GT(rerouted, 500U);
}

}  // namespace
}  // namespace stagecraft::test
