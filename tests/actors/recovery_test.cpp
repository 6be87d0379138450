// Losses at every moment of a run: whoever dies is replaced, and the bits are those of a run without a loss.
#include <gtest/gtest.h>

#include <algorithm>

#include "killer.hpp"

namespace stagecraft::test {
namespace {

using Role = Member::Role;

std::vector<std::string> tiny(std::vector<std::string> more) {
  std::vector<std::string> all = {"pipeline.stages=3", "job.iterations=3", "training.micro_batches=4",
                                  "training.logical_shards=2", "recovery.twins=true"};
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

std::uint64_t steps_of(const Topology& topology) {
  Killer nobody;
  EXPECT_TRUE(sound(nobody.run(topology)));
  return nobody.steps;
}

// Kills `who` before every n-th message of the run; each time the bits must be those of a run without a loss.
void kill_at_every_moment(const Topology& topology, const Member& who, std::uint64_t stride) {
  const std::string fault_free = bits(run_virtual(topology));
  const std::uint64_t last = steps_of(topology);
  for (std::uint64_t step = 1; step < last; step += stride) {
    Killer killer{{{who, step}}, {}, 0, {}};
    const RunResult result = killer.run(topology);
    ASSERT_TRUE(sound(result)) << to_text(who) << " at " << step << ": " << result.reason << " "
                               << fmt::format("{}", fmt::join(result.violations, "; "));
    ASSERT_EQ(bits(result), fault_free) << to_text(who) << " at " << step;
  }
}

TEST(LossSameBits, whichever_stage_dies_at_whichever_message) {
  const Topology topology = load(tiny_file(), tiny({}));
  for (std::uint32_t s = 0; s < 3; ++s) kill_at_every_moment(topology, stage(s), 1);
}

TEST(LossSameBits, whichever_twin_dies_at_whichever_message) {
  const Topology topology = load(tiny_file(), tiny({}));
  for (std::uint32_t s = 0; s < 3; ++s) kill_at_every_moment(topology, twin(s), 5);
}

TEST(LossSameBits, with_replicas_and_tied_tables) {
  const Topology topology =
      load(tiny_file(), tiny({"pipeline.stages=2", "pipeline.replicas=2", "model.tied_embeddings=true"}));
  kill_at_every_moment(topology, stage(1, 1), 7);
  kill_at_every_moment(topology, stage(0, 0), 7);
}

TEST(LossSameBits, with_chunks_in_a_v) {
  const Topology topology =
      load(tiny_file(), tiny({"pipeline.stages=2", "pipeline.chunks=2", "pipeline.schedule=zb-v"}));
  kill_at_every_moment(topology, stage(1), 7);
}

TEST(LossSameBits, on_emulated_devices) {
  const Topology topology = load(emulated_file(), tiny({}));
  kill_at_every_moment(topology, stage(1), 3);
}

TEST(LossSameBits, without_twins_from_the_first_parameters) {
  const Topology topology = load(tiny_file(), tiny({"recovery.twins=false"}));
  kill_at_every_moment(topology, stage(1), 11);
}

TEST(Recovery, goes_back_to_the_newest_checkpoint_when_a_stage_dies_with_its_twin) {
  const Topology topology = load(tiny_file(), tiny({"job.iterations=6", "checkpoint.every=2"}));
  const std::string fault_free = bits(run_virtual(topology));
  const std::uint64_t late = steps_of(topology) * 4 / 5;
  Killer killer{{{stage(1), late}, {twin(1), late + 1}}, {}, 0, {}};
  VirtualRun run;
  run.options.checkpoint_folder = "/checkpoints/tiny";
  run.options.log_path = "/log";
  run.disk = std::make_shared<MemoryDisk>(text_disk());
  const RunResult result = killer.run(topology, run);
  EXPECT_TRUE(sound(result)) << result.reason;
  EXPECT_EQ(bits(result), fault_free);
  const std::string log = run.disk->read("/log").value();
  EXPECT_NE(log.find("the job goes back to the checkpoint after iteration 4"), std::string::npos) << log;
}

TEST(Recovery, that_does_not_succeed_ends_the_run_with_its_history) {
  const Topology topology = load(tiny_file(), tiny({"recovery.attempts=1"}));
  std::vector<Death> deaths;
  for (std::uint64_t step = 300; step < 2000; step += 60) deaths.push_back({stage(1), step});
  Killer killer{deaths, {}, 0, {}};
  const RunResult result = killer.run(topology);
  EXPECT_EQ(result.ending, Ending::fault) << result.reason;
  EXPECT_NE(result.reason.find("stage 1 of replica 0 (it was killed)"), std::string::npos) << result.reason;
}

// Seeds of layouts, late messages and up to four deaths; now and then of a stage with its twin.
TEST(LossSameBits, over_a_thousand_seeds_of_several_deaths) {
  for (std::uint64_t seed = 1; seed <= 1000; ++seed) {
    const auto draw = [&](std::uint64_t what, std::uint64_t below) { return keyed(seed, what) % below; };
    const std::uint32_t stages = 1 + static_cast<std::uint32_t>(draw(1, 4));
    const std::uint32_t replicas = 1 << draw(2, 2);
    const Topology topology = load(
        tiny_file(), tiny({fmt::format("pipeline.stages={}", stages), fmt::format("pipeline.replicas={}", replicas),
                           fmt::format("recovery.twins={}", draw(3, 4) > 0), "recovery.attempts=10",
                           draw(4, 2) > 0 ? "pipeline.dispatch=reactive" : "pipeline.dispatch=static"}));
    VirtualRun plain;
    plain.seed = seed;
    plain.lateness = Duration{static_cast<std::int64_t>(draw(5, 2) * 3'000'000)};
    Killer nobody;
    const std::string fault_free = bits(nobody.run(topology, plain));
    Killer killer;
    for (std::uint64_t d = 0; d < 1 + draw(6, 4); ++d) {
      const Place place{{static_cast<std::uint32_t>(keyed(seed, 7, d) % stages)},
                        {static_cast<std::uint32_t>(keyed(seed, 8, d) % replicas)}};
      const bool of_twin = topology.recovery.twins && keyed(seed, 9, d) % 3 == 0;
      killer.deaths.push_back({{of_twin ? Role::twin : Role::stage, place}, 1 + keyed(seed, 10, d) % nobody.steps});
    }
    const RunResult result = killer.run(topology, plain);
    ASSERT_TRUE(sound(result)) << "seed " << seed << ": " << result.reason << " "
                               << fmt::format("{}", fmt::join(result.violations, "; "));
    ASSERT_EQ(bits(result), fault_free) << "seed " << seed;
  }
}

}  // namespace
}  // namespace stagecraft::test
