// Checkpoints of whole runs in the virtual world: what is saved, that saving changes nothing, and that whoever
// continues gets the bits of a run that was never interrupted.
#include <gtest/gtest.h>

#include "actors/runtime.hpp"
#include "tests/actors/fixture.hpp"

namespace stagecraft::test {
namespace {

constexpr const char* folder = "/checkpoints/tiny";

std::shared_ptr<MemoryDisk> fresh_disk() {
  auto disk = std::make_shared<MemoryDisk>(text_disk());
  disk->make_directories("/checkpoints");
  return disk;
}

struct Layout {
  const char* name;
  std::vector<std::string> overrides;
};
const std::vector<Layout>& layouts() {
  static const std::vector<Layout> all{
      {"one stage", {}},
      {"three stages", {"pipeline.stages=3"}},
      {"two replicas of two stages with two chunks",
       {"pipeline.stages=2", "pipeline.replicas=2", "pipeline.chunks=2", "pipeline.schedule=interleaved"}},
      {"four replicas", {"pipeline.replicas=4"}},
      {"more stages than layers", {"pipeline.stages=8", "pipeline.schedule=gpipe"}},
  };
  return all;
}

Topology tiny(const Layout& layout, std::vector<std::string> more = {}) {
  more.insert(more.end(), layout.overrides.begin(), layout.overrides.end());
  return load(tiny_file(), more);
}

// Runs until `iterations` are seen, then asks for the end.
RunResult run_until(const Topology& topology, std::size_t iterations, const std::shared_ptr<Disk>& disk,
                    const std::string& resume = {}, std::uint64_t seed = 1) {
  VirtualRun run;
  run.seed = seed;
  run.disk = disk;
  run.options.checkpoint_folder = folder;
  run.options.resume_from = resume;
  std::size_t seen = 0;
  run.options.on_iteration = [&](const IterationReport&) { ++seen; };
  run.options.stop_asked = [&] { return seen >= iterations; };
  return run_virtual(topology, run);
}
RunResult run_to_end(const Topology& topology, const std::shared_ptr<Disk>& disk, const std::string& resume = {},
                     std::uint64_t seed = 1) {
  return run_until(topology, 1'000'000, disk, resume, seed);
}

void expect_same_tail(const RunResult& resumed, const RunResult& whole) {
  ASSERT_TRUE(sound(resumed)) << resumed.reason;
  EXPECT_EQ(resumed.weights_sha256, whole.weights_sha256);
  EXPECT_EQ(resumed.moments_sha256, whole.moments_sha256);
  ASSERT_EQ(resumed.start_iteration + resumed.iterations.size(), whole.iterations.size());
  for (std::size_t i = 0; i < resumed.iterations.size(); ++i) {
    const IterationReport &a = resumed.iterations[i], &b = whole.iterations[resumed.start_iteration + i];
    EXPECT_EQ(a.iteration, b.iteration);
    EXPECT_EQ(a.loss, b.loss) << a.iteration.value;
    EXPECT_EQ(a.gradient_norm, b.gradient_norm) << a.iteration.value;
    EXPECT_EQ(a.tokens, b.tokens) << "a sample is missing or twice in iteration " << a.iteration.value;
    EXPECT_EQ(a.learning_rate, b.learning_rate) << a.iteration.value;
  }
}

// B31
TEST(Resuming, A_checkpoint_from_one_layout_loads_in_another_optimizer_included) {
  for (const char* tied : {"false", "true"}) {
    const std::string tie = std::string("model.tied_embeddings=") + tied;
    const RunResult whole = run_virtual(tiny(layouts()[0], {tie}));
    for (const Layout& from : layouts()) {
      const auto disk = fresh_disk();
      const RunResult stopped = run_until(tiny(from, {tie}), 8, disk);
      ASSERT_EQ(stopped.ending, Ending::stopped);
      ASSERT_EQ(stopped.checkpoint_error, "");
      ASSERT_GE(stopped.saved_iteration, 8U);
      for (const Layout& to : layouts()) {
        SCOPED_TRACE(std::string(from.name) + " -> " + to.name + (tied[0] == 't' ? ", tied" : ""));
        const auto copy = std::make_shared<MemoryDisk>(disk);
        const CheckpointChoice choice = newest_verified(*copy, folder);
        ASSERT_TRUE(choice.path);
        expect_same_tail(run_to_end(tiny(to, {tie}), copy, *choice.path, 3), whole);
      }
    }
  }
}

// B12
TEST(Resuming, Changing_the_replica_count_does_not_lose_or_repeat_samples) {
  const std::vector<std::string> eight{"training.logical_shards=8"};
  const RunResult whole = run_virtual(tiny(layouts()[0], eight));
  const auto disk = fresh_disk();
  const RunResult stopped = run_until(tiny(layouts()[3], eight), 8, disk);
  std::uint64_t tokens = 0;
  for (const IterationReport& r : stopped.iterations) tokens += r.tokens;
  const CheckpointChoice choice = newest_verified(*disk, folder);
  ASSERT_TRUE(choice.path);
  const auto info = read_manifest(*disk, *choice.path);
  ASSERT_TRUE(std::holds_alternative<CheckpointInfo>(info));
  EXPECT_EQ(std::get<CheckpointInfo>(info).tokens, tokens);
  for (const char* replicas : {"pipeline.replicas=2", "pipeline.replicas=8"})
    expect_same_tail(run_to_end(tiny({replicas, {replicas}}, eight), std::make_shared<MemoryDisk>(disk), *choice.path),
                     whole);
}

TEST(Resuming, goes_through_any_number_of_interruptions) {
  const RunResult whole = run_virtual(tiny(layouts()[0]));
  const auto disk = fresh_disk();
  std::string from;
  RunResult last;
  for (std::size_t part = 0; part < 12; ++part) {
    last = run_until(tiny(layouts()[part % layouts().size()]), 1 + part % 3, disk, from, part);
    if (last.ending == Ending::done) break;
    ASSERT_EQ(last.ending, Ending::stopped) << last.reason;
    from = newest_verified(*disk, folder).path.value();
  }
  expect_same_tail(last, whole);
}

TEST(Saving, changes_neither_the_bits_nor_the_time_of_an_iteration) {
  for (const Layout& layout : layouts()) {
    const RunResult plain = run_virtual(tiny(layout));
    const auto disk = fresh_disk();
    const RunResult saving = run_to_end(tiny(layout, {"checkpoint.every=1", "checkpoint.keep=30"}), disk);
    EXPECT_EQ(bits(saving), bits(plain)) << layout.name;
    for (std::size_t i = 0; i < plain.iterations.size(); ++i)
      EXPECT_EQ(saving.iterations[i].time, plain.iterations[i].time) << layout.name << ", iteration " << i + 1;
    EXPECT_EQ(list_checkpoints(*disk, folder).size(), 20U) << layout.name;
  }
}

// The device of an emulated stage steps long before a disk has taken 9 GiB: what is written must be what was lent.
TEST(Saving, a_slow_disk_gets_the_state_of_its_iteration_and_stops_nobody) {
  const auto emulated = [](std::vector<std::string> more) {
    std::string file = emulated_file();
    file.insert(file.find("forward:"), "parameters: 1GiB, ");
    file.replace(file.find("8GiB"), 4, "64GiB");
    more.insert(more.end(), {"pipeline.stages=3", "job.iterations=40"});
    return load(file, more);
  };
  const RunResult plain = run_virtual(emulated({}));
  const auto disk = fresh_disk();
  const RunResult saving = run_to_end(emulated({"checkpoint.every=1", "checkpoint.keep=50"}), disk);
  ASSERT_TRUE(sound(saving)) << saving.reason;
  EXPECT_EQ(bits(saving), bits(plain));
  for (std::size_t i = 0; i < plain.iterations.size(); ++i)
    EXPECT_EQ(saving.iterations[i].time, plain.iterations[i].time) << "iteration " << i + 1;
  const auto kept = list_checkpoints(*disk, folder);
  EXPECT_GT(kept.size(), 1U);
  EXPECT_LT(kept.size(), 40U) << "a checkpoint that is due while another is written waits";
  EXPECT_EQ(kept.front().iteration, 40U) << "the last one is never left out";
  for (const CheckpointEntry& entry : kept) {
    if (entry.iteration == 40) continue;
    const RunResult resumed = run_to_end(emulated({}), std::make_shared<MemoryDisk>(disk), entry.path);
    EXPECT_EQ(resumed.weights_sha256, plain.weights_sha256) << "from iteration " << entry.iteration;
    EXPECT_EQ(resumed.moments_sha256, plain.moments_sha256) << "from iteration " << entry.iteration;
  }
}

TEST(Saving, a_stop_leaves_a_checkpoint_and_an_end_without_every_does_not) {
  const auto disk = fresh_disk();
  const RunResult done = run_to_end(tiny(layouts()[1]), disk);
  EXPECT_EQ(done.saved_iteration, 0U);
  EXPECT_TRUE(list_checkpoints(*disk, folder).empty());
  const RunResult stopped = run_until(tiny(layouts()[1]), 5, disk);
  EXPECT_EQ(stopped.saved_iteration, stopped.iterations.size());
}

TEST(Saving, keeps_as_many_as_the_file_says) {
  const auto disk = fresh_disk();
  run_to_end(tiny(layouts()[1], {"checkpoint.every=3", "checkpoint.keep=2"}), disk);
  const auto kept = list_checkpoints(*disk, folder);
  ASSERT_EQ(kept.size(), 2U);
  EXPECT_EQ(kept[0].iteration, 20U);
  EXPECT_EQ(kept[1].iteration, 18U);
}

std::string why_it_cannot_start(const Topology& topology, const std::shared_ptr<Disk>& disk, const std::string& from) {
  try {
    run_to_end(topology, disk, from);
  } catch (const CannotStart& problem) {
    return problem.what();
  }
  return "it started";
}

TEST(Resuming, another_job_is_refused_with_both_values_and_nothing_is_moved) {
  const auto disk = fresh_disk();
  run_until(tiny(layouts()[1]), 5, disk);
  const auto before = list_checkpoints(*disk, folder);
  const std::string from = newest_verified(*disk, folder).path.value();
  const struct {
    std::vector<std::string> overrides;
    std::vector<std::string> words;
  } others[] = {
      {{"model.layers=6"}, {"layers", "5", "6"}},
      {{"model.hidden=32"}, {"hidden", "24", "32"}},
      {{"training.logical_shards=8"}, {"logical_shards", "4", "8"}},
      {{"training.micro_batches=4"}, {"micro_batches", "8", "4"}},
      {{"job.seed=8"}, {"seed", "7", "8"}},
      {{"data.micro_batch_tokens=40"}, {"micro_batch_tokens", "32", "40"}},
  };
  for (const auto& other : others) {
    const std::string why = why_it_cannot_start(tiny(layouts()[0], other.overrides), disk, from);
    for (const std::string& word : other.words) EXPECT_NE(why.find(word), std::string::npos) << word << " in: " << why;
  }
  EXPECT_EQ(list_checkpoints(*disk, folder).size(), before.size());
}

TEST(Resuming, from_an_older_checkpoint_moves_the_newer_ones_aside) {
  const auto disk = fresh_disk();
  const RunResult whole = run_to_end(tiny(layouts()[1], {"checkpoint.every=5", "checkpoint.keep=9"}), disk);
  const auto kept = list_checkpoints(*disk, folder);
  ASSERT_EQ(kept.size(), 4U);
  const RunResult again = run_until(tiny(layouts()[0], {"checkpoint.keep=9"}), 2, disk, kept[2].path);
  EXPECT_EQ(again.start_iteration, 10U);
  EXPECT_EQ(list_checkpoints(*disk, again.set_aside).size(), 2U) << again.set_aside;
  const auto now = list_checkpoints(*disk, folder);
  EXPECT_EQ(now.size(), 3U);
  expect_same_tail(run_to_end(tiny(layouts()[0]), disk, now[0].path), whole);
}

TEST(Saving, a_disk_that_refuses_costs_the_checkpoint_and_not_the_run) {
  const auto disk = fresh_disk();
  disk->write_whole("/not-a-folder", "x");
  VirtualRun run;
  run.disk = disk;
  run.options.checkpoint_folder = "/not-a-folder/tiny";
  std::size_t seen = 0;
  run.options.on_iteration = [&](const IterationReport&) { ++seen; };
  run.options.stop_asked = [&] { return seen >= 4; };
  const RunResult stopped = run_virtual(tiny(layouts()[1]), run);
  EXPECT_EQ(stopped.ending, Ending::stopped);
  EXPECT_EQ(stopped.saved_iteration, 0U);
  EXPECT_NE(stopped.checkpoint_error.find("/not-a-folder"), std::string::npos) << stopped.checkpoint_error;
  EXPECT_TRUE(stopped.violations.empty());
}

TEST(Saving, a_folder_that_cannot_be_made_is_said_before_anything_starts) {
  const auto disk = fresh_disk();
  disk->write_whole("/not-a-folder", "x");
  VirtualRun run;
  run.disk = disk;
  run.options.checkpoint_folder = "/not-a-folder/tiny";
  EXPECT_THROW(run_virtual(tiny(layouts()[1], {"checkpoint.every=1"}), run), CannotStart);
}

}  // namespace
}  // namespace stagecraft::test
