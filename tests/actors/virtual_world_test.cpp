// The virtual world on whole runs: exact times, one seed one run, no hang, a clean end.
#include <gtest/gtest.h>

#include <fstream>
#include <set>
#include <sstream>

#include "actors/node.hpp"
#include "fixture.hpp"
#include "planning/bug.hpp"

namespace stagecraft::test {
namespace {

using namespace std::chrono_literals;

Topology worked_example(const std::vector<std::string>& overrides) {
  std::ifstream file(STAGECRAFT_SOURCE_DIR "/examples/worked-example.yaml");
  std::stringstream text;
  text << file.rdbuf();
  return load(text.str(), overrides);
}

TEST(WorkedExample, takes_390_ms_reactive_with_warmup_7_5_3_1_for_a_thousand_seeds) {
  const Topology topology = worked_example({"job.iterations=1"});
  std::set<std::uint64_t> orders;
  for (std::uint64_t seed = 1; seed <= 1000; ++seed) {
    const RunResult result = run_virtual(topology, {seed, {}, {}});
    ASSERT_TRUE(sound(result)) << result.reason;
    ASSERT_EQ(result.iterations.at(0).time, 390ms) << "seed " << seed;
    orders.insert(result.event_hash);
  }
  EXPECT_GT(orders.size(), 500U) << "the seeds differ in the order of events";
}

TEST(WorkedExample, takes_450_ms_as_static_1f1b_for_a_thousand_seeds) {
  const Topology topology =
      worked_example({"job.iterations=1", "pipeline.dispatch=static", "pipeline.warmup=[4,3,2,1]"});
  for (std::uint64_t seed = 1; seed <= 1000; ++seed) {
    const RunResult result = run_virtual(topology, {seed, {}, {}});
    ASSERT_TRUE(sound(result)) << result.reason;
    ASSERT_EQ(result.iterations.at(0).time, 450ms) << "seed " << seed;
  }
}

TEST(WorkedExample, a_slow_first_link_costs_what_the_simulator_says) {
  const std::pair<int, Duration> expected[] = {{0, 390ms},  {10, 400ms}, {15, 405ms},
                                               {20, 410ms}, {30, 420ms}, {40, 440ms}};
  for (const auto& [latency, time] : expected) {
    const Topology topology =
        worked_example({"job.iterations=2", "links.defaults.credits=12",
                        fmt::format("links.overrides=[{{between: [0, 1], latency: {}ms}}]", latency)});
    const RunResult result = run_virtual(topology);
    ASSERT_TRUE(sound(result)) << result.reason;
    EXPECT_EQ(result.iterations.at(1).time, time) << latency << " ms";
  }
}

// What is simulated is what runs: with scarce credits, slow links in one direction or both, chunks, and memory.
TEST(VirtualWorld, takes_the_time_and_the_memory_that_the_plan_forecasts) {
  for (std::uint64_t seed = 1; seed <= 120; ++seed) {
    Entropy draw(seed, "forecast");
    const std::uint64_t stages = draw.between(2, 5), chunks = draw.between(1, 2);
    const char* one_chunk[] = {"gpipe", "1f1b"};
    const char* two_chunks[] = {"interleaved", "bfs"};
    std::vector<std::string> overrides = {
        "job.iterations=6",  // bodies run at the start or at the end of their operator: six tries to meet the peak
        "model.layers=10",
        fmt::format("pipeline.stages={}", stages),
        fmt::format("pipeline.chunks={}", chunks),
        fmt::format("pipeline.schedule={}", (chunks == 1 ? one_chunk : two_chunks)[draw.below(2)]),
        fmt::format("pipeline.dispatch={}", draw.below(2) == 0 ? "static" : "reactive"),
        fmt::format("training.micro_batches={}", draw.between(1, 9)),
        fmt::format("links.defaults.credits={}", draw.between(1, 4)),
        fmt::format("links.defaults.latency={}ms", draw.below(4) * 7),
        fmt::format("links.defaults.occupancy={}ms", draw.below(3) * 5),
        fmt::format("links.overrides=[{{between: [0, 1], direction: forward, latency: {}ms, bandwidth: 1GB/s}}]",
                    draw.below(3) * 30),
        "nodes.0.devices.0.costs.activation=64MiB",
        "nodes.0.devices.0.costs.weight_activation=96MiB",
        "nodes.0.devices.0.costs.boundary=16MiB",
        "nodes.0.devices.0.costs.parameters=32MiB"};
    const Topology topology = load(emulated_file(), overrides);
    const JobPlan plan = plan_job(topology);
    const RunResult result = run_virtual(topology, {seed, {}, {}});
    const std::string what = fmt::format("seed {}: {}", seed, fmt::join(overrides, " "));
    ASSERT_TRUE(sound(result)) << what << "\n" << result.reason;
    for (const IterationReport& r : result.iterations) EXPECT_EQ(r.time, plan.replicas[0].forecast.makespan) << what;
    for (const MemoryUse& m : result.memory)
      EXPECT_NEAR(static_cast<double>(m.peak.value), static_cast<double>(m.planned.value),
                  0.1 * static_cast<double>(m.planned.value))
          << what << "\nstage " << m.place.stage.value;
  }
}

// B42
TEST(VirtualWorld, A_stage_starts_when_its_input_is_there) {
  const RunResult result = run_virtual(worked_example({"job.iterations=1"}));
  std::map<StageId, Instant> first;
  for (const TimedOperator& op : result.last_iteration)
    if (!op.overhead && (!first.contains(op.place.stage) || op.start < first[op.place.stage]))
      first[op.place.stage] = op.start;
  for (const auto& [stage, start] : first) EXPECT_EQ(start, first[StageId{0}] + stage.value * 10ms);
}

TEST(VirtualWorld, one_seed_is_one_run_and_other_seeds_have_other_orders_and_the_same_bits) {
  const Topology topology = load(tiny_file(), {"pipeline.stages=3", "pipeline.replicas=2", "job.iterations=4"});
  std::set<std::uint64_t> hashes;
  std::set<std::string> all_bits;
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    const RunResult a = run_virtual(topology, {seed, 5ms, {}}), b = run_virtual(topology, {seed, 5ms, {}});
    EXPECT_EQ(a.event_hash, b.event_hash);
    EXPECT_EQ(a.events, b.events);
    hashes.insert(a.event_hash);
    all_bits.insert(bits(a));
  }
  EXPECT_EQ(hashes.size(), 10U);
  EXPECT_EQ(all_bits.size(), 1U);
}

TEST(VirtualWorld, messages_between_nodes_go_through_their_wire_form_and_nothing_changes) {
  const std::string nodes =
      "nodes=[{name: a, devices: [{kind: cpu, count: 2, memory: 1GiB}]}, {name: b, listen: '127.0.0.1:1', devices: "
      "[{kind: cpu, count: 2, memory: 1GiB}]}]";
  for (const char* dispatch : {"pipeline.dispatch=reactive", "pipeline.dispatch=follow"}) {
    const Topology one = load(tiny_file(), {"pipeline.stages=4", "job.iterations=4", dispatch});
    const Topology two = load(tiny_file(), {"pipeline.stages=4", "job.iterations=4", dispatch, nodes});
    ASSERT_EQ(two.nodes.size(), 2U);
    const RunResult a = run_virtual(one), b = run_virtual(two);
    ASSERT_TRUE(sound(b)) << b.reason;
    EXPECT_EQ(bits(a), bits(b));
  }
}

// Random layouts, caps, credits and late messages; every run must end.
TEST(VirtualWorld, never_hangs) {
  for (std::uint64_t seed = 1; seed <= 400; ++seed) {
    Entropy draw(seed, "layout");
    const std::uint64_t chunks = draw.between(1, 3);
    const char* one_chunk[] = {"gpipe", "1f1b", "interleaved", "bfs", "zb-h1", "zb-h2", "zb-auto", "pipemorph"};
    const char* two_chunks[] = {"interleaved", "bfs", "zb-v", "v-half", "v-min"};
    const char* dispatches[] = {"static", "reactive", "reactive", "follow"};
    const char* schedule = chunks == 1   ? one_chunk[draw.below(8)]
                           : chunks == 2 ? two_chunks[draw.below(5)]
                                         : two_chunks[draw.below(2)];
    const std::uint64_t replicas = draw.between(1, 3);
    std::vector<std::string> overrides = {
        fmt::format("pipeline.stages={}", draw.between(1, 6)),
        fmt::format("pipeline.chunks={}", chunks),
        fmt::format("pipeline.replicas={}", replicas),
        fmt::format("training.micro_batches={}", draw.between(replicas, 9)),
        fmt::format("pipeline.schedule={}", schedule),
        fmt::format("pipeline.dispatch={}", dispatches[draw.below(4)]),
        fmt::format("links.defaults.credits={}", draw.between(1, 3)),
        fmt::format("pipeline.caps.activations={}", draw.between(chunks, chunks + 3)),
        fmt::format("pipeline.caps.pending_weights={}", draw.between(chunks, chunks + 2)),
        fmt::format("model.tied_embeddings={}", draw.below(2) == 0),
        "job.iterations=2"};
    const RunResult result = run_virtual(load(emulated_file(), overrides),
                                         {seed, Duration{static_cast<std::int64_t>(draw.below(60'000'000))}, {}});
    ASSERT_TRUE(sound(result)) << "seed " << seed << ": " << fmt::format("{}", fmt::join(overrides, " ")) << "\n"
                               << result.reason << fmt::format("{}", fmt::join(result.violations, "; "));
  }
}

// B13: lengths of 1 to 32 tokens; the shape travels with the tensor.
TEST(VirtualWorld, Differing_sequence_lengths_do_not_deadlock_the_shape_exchange) {
  const Topology topology = load(tiny_file(), {"pipeline.stages=4", "job.iterations=2", "model.layers=4"});
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {
    const RunResult result = run_virtual(topology, {seed, 30ms, {}});
    ASSERT_TRUE(sound(result)) << result.reason;
  }
}

// B16
TEST(VirtualWorld, Few_micro_batches_still_finish) {
  for (const char* schedule : {"gpipe", "1f1b", "interleaved", "bfs"})
    for (const char* dispatch : {"static", "reactive"})
      for (const int micro_batches : {1, 2, 7}) {
        const RunResult result = run_virtual(
            load(emulated_file(),
                 {"pipeline.stages=8", fmt::format("training.micro_batches={}", micro_batches),
                  fmt::format("pipeline.schedule={}", schedule), fmt::format("pipeline.dispatch={}", dispatch)}));
        EXPECT_TRUE(sound(result)) << schedule << " " << dispatch << " " << micro_batches << ": " << result.reason;
      }
}

// B23: a stop at any moment, with timers armed and tensors under way.
TEST(VirtualWorld, The_runtime_always_shuts_down) {
  const Topology topology = load(emulated_file(), {"pipeline.stages=4", "job.iterations=50"});
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    VirtualRun run{seed, 3ms, {}};
    std::shared_ptr<Cast> cast;
    run.options.started = [&](const std::vector<NodeHandles>& nodes) { cast = nodes.front().cast; };
    run.before_step = [&](std::uint64_t step) {
      if (step == 100 + seed * 7) tell_from_outside(cast->coordinator(), Stop{});
    };
    const RunResult result = run_virtual(topology, run);  // throws if an actor is left
    cast.reset();
    ASSERT_EQ(result.ending, Ending::stopped) << result.reason;
    ASSERT_TRUE(result.violations.empty());
    ASSERT_LT(result.iterations.size(), 50U);
  }
}

TEST(VirtualWorld, a_stopped_run_holds_the_bits_of_a_shorter_one) {
  const Topology topology = load(tiny_file(), {"pipeline.stages=2"});
  VirtualRun run;
  std::size_t seen = 0;
  run.options.on_iteration = [&](const IterationReport&) { ++seen; };
  run.options.stop_asked = [&] { return seen >= 3; };
  const RunResult stopped = run_virtual(topology, run);
  ASSERT_EQ(stopped.ending, Ending::stopped);
  const RunResult whole = run_virtual(topology);
  ASSERT_GE(stopped.iterations.size(), 3U);
  for (std::size_t i = 0; i < stopped.iterations.size(); ++i)
    EXPECT_EQ(stopped.iterations[i].loss, whole.iterations[i].loss);
}

TEST(VirtualWorld, an_actor_that_meets_a_bug_ends_the_run_and_is_named) {
  const auto world = make_virtual_world({}, text_disk());
  const Topology topology = load(emulated_file(), {"pipeline.stages=3"});
  const auto outbox = std::make_shared<Outbox>();
  const BatchSource broken = [](Iteration, MicroBatch) -> std::shared_ptr<const TokenBatch> { throw Bug("no batch"); };
  const auto job = std::make_shared<Job>(Job{*world, topology, plan_job(topology), {}, broken, {}, {}, {}, {}, {}, {}});
  const NodeHandles handles = spawn_node(job, outbox);
  std::optional<Outbox::Ended> end;
  world->drive([&] { return (end = outbox->take_end()).has_value(); });
  caf::anon_send_exit(handles.node, caf::exit_reason::kill);
  for (const Watched& w : handles.cast->all()) caf::anon_send_exit(w.actor, caf::exit_reason::kill);
  world->drive([&] { return world->system().registry().running() == 0; });
  ASSERT_TRUE(end);
  EXPECT_EQ(end->job.ending, Ending::bug);
  EXPECT_NE(end->job.reason.find("loader ended"), std::string::npos) << end->job.reason;
  EXPECT_NE(end->job.reason.find("no batch"), std::string::npos) << end->job.reason;
}

// B34
TEST(VirtualWorld, A_hang_names_the_one_who_is_missing) {
  const RunResult result =
      run_virtual(load(emulated_file(), {"pipeline.stages=4", "nodes.0.devices.0.costs.forward=1h"}));
  EXPECT_EQ(result.ending, Ending::no_progress);
  EXPECT_NE(result.reason.find("stage 0 of replica 0: its device has been busy with 0F0 for"), std::string::npos)
      << result.reason;
  EXPECT_NE(result.reason.find("stage 3 of replica 0: idle; next 3F0 waits for its input from chunk 2"),
            std::string::npos)
      << result.reason;
}

TEST(VirtualWorld, an_operator_beyond_its_deadline_is_named_before_the_iteration_has_to_time_out) {
  const RunResult result = run_virtual(
      load(emulated_file(), {"pipeline.stages=2", "recovery.attempts=0", "nodes.0.devices.0.costs.backward_input=1h"}));
  EXPECT_EQ(result.ending, Ending::no_progress);
  EXPECT_NE(result.reason.find("an operator of stage 1 of replica 0 has been running for"), std::string::npos)
      << result.reason;
  EXPECT_LT(result.elapsed, 3min) << "the iteration itself may take 5 minutes";
}

TEST(VirtualWorld, greedy_caps_hang_and_the_run_says_so) {
  std::uint64_t hung = 0;
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    VirtualRun run{seed, 200ms, {}};
    run.options.caps_rule = CapsRule::greedy;
    const RunResult result =
        run_virtual(load(emulated_file(), {"pipeline.stages=3", "pipeline.chunks=2", "pipeline.schedule=interleaved",
                                           "pipeline.caps.activations=2", "job.iterations=1"}),
                    run);
    hung += result.ending == Ending::no_progress;
  }
  EXPECT_GT(hung, 0U) << "the negative control of the caps has no teeth";
}

TEST(VirtualWorld, a_text_that_is_missing_or_too_small_is_refused_before_anything_starts) {
  const Topology missing = load(tiny_file(), {"data.sources.0.files=/nowhere/*"});
  EXPECT_THROW(run_virtual(missing), CannotStart);
  // B43
  EXPECT_THROW(
      run_virtual(load(emulated_file(), {"nodes.0.devices.0.memory=1MiB", "nodes.0.devices.0.costs.parameters=2MiB"})),
      CannotStart)
      << "the plan needs more memory than there is";
  const Topology hungry = load(tiny_file(), {"training.micro_batches=1024"});
  try {
    run_virtual(hungry);
    FAIL() << "1024 micro-batches of 32 tokens were found in a small text";
  } catch (const CannotStart& e) {
    EXPECT_NE(std::string(e.what()).find("32768"), std::string::npos) << e.what();
  }
}

}  // namespace
}  // namespace stagecraft::test
