// Layers that move between stages of a running job: the bits are those of a run without moves, whatever moves and
// whoever dies, and everyone ends in one layout.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <iostream>

#include "killer.hpp"

namespace stagecraft::test {
namespace {

std::vector<std::string> moving(std::vector<std::string> more) {
  std::vector<std::string> all = {"pipeline.stages=3",         "job.iterations=7",    "training.micro_batches=4",
                                  "training.logical_shards=2", "recovery.twins=true", "recovery.attempts=4"};
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

std::uint64_t number_of(const char* variable, std::uint64_t fallback) {
  const char* text = std::getenv(variable);
  return text ? std::strtoull(text, nullptr, 10) : fallback;
}

Move to_layout(std::uint32_t iteration, Layout layout) {
  Move move;
  move.at = {iteration};
  move.layout = std::move(layout);
  return move;
}
Move layers(std::uint32_t iteration, std::uint32_t begin, std::uint32_t end, std::uint32_t stage) {
  Move move;
  move.at = {iteration};
  move.layers = {begin, end};
  move.to = {stage};
  return move;
}

struct Logged {
  RunResult result;
  std::string log;
};

Logged run_logged(const Topology& topology, std::vector<Move> moves, VirtualRun run = {}) {
  run.options.moves = std::move(moves);
  run.options.log_path = "/log";
  run.disk = std::make_shared<MemoryDisk>(text_disk());
  Logged logged{run_virtual(topology, run), {}};
  logged.log = run.disk->read("/log").value();
  return logged;
}

std::string lines_with(const std::string& log, const std::string& what) {
  std::string found;
  for (std::size_t at = 0; at < log.size();) {
    const std::size_t end = std::min(log.find('\n', at), log.size());
    const std::string line = log.substr(at, end - at);
    if (line.find(what) != std::string::npos) found += line + "\n";
    at = end + 1;
  }
  return found;
}
std::string moves_of(const std::string& log) { return lines_with(log, "\"migrated\""); }

TEST(Migration, moves_layers_to_another_stage_between_two_iterations) {
  const Topology topology = load(tiny_file(), moving({"pipeline.layout=[2, 2, 1]"}));
  const std::string plain = bits(run_virtual(topology));
  const Logged run = run_logged(topology, {layers(2, 1, 2, 1)});
  ASSERT_TRUE(sound(run.result)) << run.result.reason << "\n" << run.log;
  EXPECT_EQ(run.result.moves, 1U) << moves_of(run.log);
  EXPECT_EQ(run.result.layout, (Layout{1, 3, 1})) << moves_of(run.log);
  EXPECT_EQ(bits(run.result), plain);
  EXPECT_NE(run.log.find("move 1 is made: layout [1, 3, 1] from iteration 4 on"), std::string::npos)
      << moves_of(run.log);
}

// Every layout that there is, from every other one of a few, at every iteration.
TEST(MigrationSameBits, every_move_at_every_iteration) {
  const std::vector<Layout> from = {{2, 2, 1}, {1, 1, 3}, {0, 5, 0}};
  const std::vector<Layout> to = {{1, 2, 2}, {3, 1, 1}, {0, 1, 4}, {5, 0, 0}, {0, 0, 5}, {2, 2, 1}};
  for (const Layout& before : from) {
    const Topology topology = load(
        tiny_file(), moving({"pipeline.layout=" + to_text(before), "job.iterations=5", "model.tied_embeddings=true"}));
    const std::string plain = bits(run_virtual(topology));
    for (const Layout& after : to)
      for (std::uint32_t at = 1; at <= 3; ++at) {
        if (after == before) continue;
        const Logged run = run_logged(topology, {to_layout(at, after)});
        const std::string what = fmt::format("{} -> {} at {}", to_text(before), to_text(after), at);
        ASSERT_TRUE(sound(run.result)) << what << ": " << run.result.reason << "\n" << run.log;
        ASSERT_EQ(run.result.layout, after) << what << "\n" << moves_of(run.log);
        ASSERT_EQ(bits(run.result), plain) << what;
      }
  }
}

TEST(MigrationSameBits, with_several_chunks_per_stage_and_every_kind_of_dispatch) {
  const std::vector<std::vector<std::string>> pipelines = {
      {"pipeline.stages=2", "pipeline.chunks=2", "pipeline.schedule=zb-v", "pipeline.layout=[1, 2, 1, 1]"},
      {"pipeline.stages=2", "pipeline.chunks=2", "pipeline.schedule=interleaved", "pipeline.layout=[2, 1, 1, 1]"},
      {"pipeline.stages=2", "pipeline.chunks=2", "pipeline.schedule=interleaved", "pipeline.dispatch=static",
       "pipeline.layout=[1, 2, 0, 2]"},
      {"pipeline.stages=2", "pipeline.replicas=2", "pipeline.chunks=2", "pipeline.schedule=bfs",
       "pipeline.layout=[1, 2, 2, 0]"},
  };
  for (const auto& pipeline : pipelines) {
    const Topology topology = load(tiny_file(), moving(pipeline));
    const std::string plain = bits(run_virtual(topology));
    for (const Layout& to : {Layout{0, 1, 3, 1}, Layout{2, 2, 0, 1}, Layout{1, 1, 1, 2}}) {
      const Logged run = run_logged(topology, {to_layout(2, to)});
      ASSERT_TRUE(sound(run.result)) << pipeline[2] << ": " << run.result.reason << "\n" << run.log;
      ASSERT_EQ(run.result.layout, to) << moves_of(run.log);
      ASSERT_EQ(bits(run.result), plain) << pipeline[2];
    }
  }
}

TEST(MigrationSameBits, while_the_job_plans_anew_from_what_it_measures) {
  const Topology topology = load(tiny_file(), moving({"pipeline.layout=[2, 2, 1]", "pipeline.schedule=planned",
                                                      "pipeline.dispatch=follow", "job.iterations=14"}));
  const std::string plain = bits(run_virtual(topology));
  const Logged run = run_logged(topology, {to_layout(2, {1, 2, 2}), to_layout(4, {3, 1, 1}), to_layout(9, {2, 2, 1})});
  ASSERT_TRUE(sound(run.result)) << run.result.reason << "\n" << run.log;
  EXPECT_EQ(run.result.moves, 3U) << moves_of(run.log);
  EXPECT_EQ(bits(run.result), plain);
}

TEST(MigrationSameBits, on_emulated_devices_of_unequal_stages) {
  const std::string file = emulated_file();
  for (const char* schedule : {"1f1b", "planned"}) {
    const Topology topology =
        load(file, moving({"pipeline.layout=[2, 2, 1]", std::string("pipeline.schedule=") + schedule,
                           "pipeline.dispatch=follow"}));
    const std::string plain = bits(run_virtual(topology));
    const Logged run = run_logged(topology, {to_layout(1, {1, 2, 2}), to_layout(4, {5, 0, 0})});
    ASSERT_TRUE(sound(run.result)) << run.result.reason << "\n" << run.log;
    EXPECT_EQ(run.result.moves, 2U) << moves_of(run.log);
    EXPECT_EQ(bits(run.result), plain);
  }
}

TEST(MigrationSameBits, under_threads_and_the_real_clock) {
  Topology topology = load(tiny_file(), moving({"pipeline.layout=[2, 2, 1]", "job.iterations=40"}));
  const std::string plain = bits(run_virtual(topology));
  const std::string folder = ::testing::TempDir() + "stagecraft-migration";
  for (std::uint32_t run = 0; run < 5; ++run) {
    const auto world = make_real_world(2);
    ASSERT_FALSE(world->disk().make_directories(folder));
    ASSERT_FALSE(world->disk().write_whole(folder + "/a.txt", text_disk()->read("/text/a.txt").value()));
    topology.data->sources[0].files = folder + "/*.txt";
    RunOptions options;
    options.log_path = folder + "/log";
    world->disk().remove(options.log_path);
    options.moves = {to_layout(2 + run, {1, 2, 2}), to_layout(6, {3, 1, 1}), to_layout(10, {0, 5, 0})};
    const RunResult result = run_job(*world, topology, options);
    ASSERT_TRUE(sound(result)) << result.reason;
    EXPECT_EQ(result.moves, 3U) << moves_of(world->disk().read(options.log_path).value());
    EXPECT_EQ(bits(result), plain);
  }
}

TEST(Migration, is_refused_with_its_reason_where_it_can_not_be_had) {
  const auto refused = [](const std::vector<std::string>& more, const Move& move) {
    const Topology topology = load(tiny_file(), moving(more));
    const Logged run = run_logged(topology, {move});
    EXPECT_TRUE(sound(run.result)) << run.result.reason;
    EXPECT_EQ(run.result.layout, topology.pipeline.layout);
    EXPECT_EQ(run.result.moves, 0U);
    return moves_of(run.log);
  };
  const auto has = [](const std::string& text, const std::string& piece) {
    return text.find(piece) != std::string::npos;
  };
  std::string why = refused({"recovery.twins=false"}, layers(2, 1, 2, 1));
  EXPECT_TRUE(has(why, "refused: the job keeps no twins")) << why;
  why = refused({"pipeline.layout=[2, 2, 1]"}, layers(2, 0, 1, 1));
  EXPECT_TRUE(has(why, "layer 0 can't go to stage 1 without others")) << why;
  why = refused({"pipeline.layout=[2, 2, 1]"}, to_layout(2, {2, 2, 2}));
  EXPECT_TRUE(has(why, "expected a layout of 5 layers")) << why;
  // Enough for two layers, not for five.
  why = refused({"pipeline.layout=[2, 2, 1]", "model.hidden=512", "nodes.0.devices.0.memory=2MiB"},
                to_layout(2, {0, 5, 0}));
  EXPECT_TRUE(has(why, "stage 1 of replica 0 needs") && has(why, "and its device has 2 MiB")) << why;
}

TEST(Migration, that_has_no_iteration_left_to_be_made_in_is_given_up) {
  const Topology topology = load(tiny_file(), moving({"pipeline.layout=[2, 2, 1]"}));
  const Logged run = run_logged(topology, {layers(6, 1, 2, 1)});
  EXPECT_TRUE(sound(run.result)) << run.result.reason;
  EXPECT_EQ(run.result.layout, topology.pipeline.layout);
  EXPECT_NE(run.log.find("move 1 is given up: the job ends with this iteration"), std::string::npos)
      << moves_of(run.log);
}

TEST(Migration, leaves_checkpoints_that_any_layout_continues) {
  const Topology topology =
      load(tiny_file(), moving({"pipeline.layout=[2, 2, 1]", "checkpoint.every=1", "job.iterations=10"}));
  const RunResult plain = run_virtual(topology);
  VirtualRun run;
  run.disk = std::make_shared<MemoryDisk>(text_disk());
  run.options.checkpoint_folder = "/checkpoints/tiny";
  run.options.moves = {to_layout(2, {1, 2, 2})};
  std::size_t seen = 0;
  run.options.on_iteration = [&](const IterationReport&) { ++seen; };
  run.options.stop_asked = [&] { return seen >= 5; };
  const RunResult stopped = run_virtual(topology, run);
  ASSERT_EQ(stopped.ending, Ending::stopped) << stopped.reason;
  ASSERT_EQ(stopped.moves, 1U);
  const CheckpointChoice newest = newest_verified(*run.disk, "/checkpoints/tiny");
  ASSERT_TRUE(newest.path);
  VirtualRun again;
  again.disk = run.disk;
  again.options.checkpoint_folder = "/checkpoints/tiny";
  again.options.resume_from = *newest.path;
  again.options.moves = {to_layout(7, {0, 4, 1})};
  const RunResult resumed = run_virtual(topology, again);
  ASSERT_TRUE(sound(resumed)) << resumed.reason;
  EXPECT_EQ(resumed.moves, 1U);
  EXPECT_EQ(resumed.weights_sha256, plain.weights_sha256);
  EXPECT_EQ(resumed.moments_sha256, plain.moments_sha256);
}

TEST(Migration, stays_made_when_the_job_goes_back_to_a_checkpoint) {
  const Topology topology =
      load(tiny_file(), moving({"pipeline.layout=[2, 2, 1]", "checkpoint.every=2", "job.iterations=9"}));
  const std::string plain = bits(run_virtual(topology));
  VirtualRun run;
  run.disk = std::make_shared<MemoryDisk>(text_disk());
  run.options.checkpoint_folder = "/checkpoints/tiny";
  run.options.moves = {to_layout(1, {1, 2, 2})};
  Killer nobody;
  ASSERT_TRUE(sound(nobody.run(topology, run)));
  run.disk = std::make_shared<MemoryDisk>(text_disk());
  const std::uint64_t late = nobody.committed.at(5) + 5;
  Killer killer{{{stage(1), late}, {twin(1), late + 1}}, {}, 0, {}};
  const RunResult result = killer.run(topology, run);
  EXPECT_TRUE(sound(result)) << result.reason;
  EXPECT_EQ(result.losses, 2U);
  EXPECT_EQ(result.layout, (Layout{1, 2, 2}));
  EXPECT_EQ(bits(result), plain);
}

// One death before every n-th message from the wish until the first iteration under the new layout is over.
void kill_while_layers_move(const std::vector<std::string>& more, const Move& move, const std::vector<Member>& victims,
                            std::uint64_t stride) {
  const Topology topology = load(tiny_file(), moving(more));
  VirtualRun run;
  run.options.moves = {move};
  Killer nobody;
  const RunResult alone = nobody.run(topology, run);
  ASSERT_TRUE(sound(alone)) << alone.reason;
  const std::string plain = bits(alone);
  std::uint64_t made = 0, given_up = 0;
  for (const Member& who : victims)
    for (std::uint64_t step = nobody.committed.at(move.at.value - 1) - 60;
         step < nobody.committed.at(move.at.value + 2) + 60; step += stride) {
      Killer killer{{{who, step}}, {}, 0, {}};
      const RunResult result = killer.run(topology, run);
      const std::string what = fmt::format("{} at {}", to_text(who), step);
      ASSERT_TRUE(sound(result)) << what << ": " << result.reason << " "
                                 << fmt::format("{}", fmt::join(result.violations, "; "));
      ASSERT_EQ(bits(result), plain) << what;
      ASSERT_EQ(result.losses, 1U) << what;
      ASSERT_EQ(result.layout, result.moves == 1 ? alone.layout : topology.pipeline.layout) << what;
      ++(result.moves == 1 ? made : given_up);
    }
  std::cout << made << " moves made, " << given_up << " given up\n";
  EXPECT_GT(made, 0U);
  EXPECT_GT(given_up, 0U);
}

TEST(MigrationSameBits, whoever_dies_at_whichever_message_of_a_move) {
  kill_while_layers_move({"pipeline.layout=[2, 2, 1]"}, layers(2, 1, 2, 1),
                         {stage(0), stage(1), stage(2), twin(0), twin(1), twin(2)}, number_of("STAGECRAFT_STRIDE", 9));
}

TEST(MigrationSameBits, deaths_in_a_move_of_several_layers_over_several_stages) {
  kill_while_layers_move({"pipeline.layout=[3, 2, 0]"}, to_layout(2, {1, 2, 2}),
                         {stage(0), stage(1), stage(2), twin(1), twin(2)}, 11);
}

TEST(MigrationSameBits, deaths_in_a_move_in_all_replicas) {
  kill_while_layers_move({"pipeline.stages=2", "pipeline.replicas=2", "pipeline.layout=[3, 2]"}, layers(2, 2, 3, 1),
                         {stage(0, 0), stage(0, 1), stage(1, 0), stage(1, 1), twin(0, 1), twin(1, 0)}, 13);
}

// A job, its moves and up to two deaths out of a seed.
class DrawnMoves {
 public:
  explicit DrawnMoves(std::uint64_t seed) : seed_(seed) {
    stages_ = 2 + draw(1, 3);
    replicas_ = 1U << draw(2, 2);
    topology_ = load(tiny_file(),
                     moving({fmt::format("pipeline.stages={}", stages_), fmt::format("pipeline.replicas={}", replicas_),
                             "pipeline.layout=" + to_text(layout(3)), "job.iterations=9",
                             fmt::format("model.tied_embeddings={}", draw(4, 2) > 0),
                             draw(5, 2) > 0 ? "pipeline.dispatch=reactive" : "pipeline.dispatch=static"}));
    run_.seed = seed;
    run_.lateness = Duration{static_cast<std::int64_t>(draw(6, 2) * 3'000'000)};
    const std::uint32_t count = 1 + draw(7, 2);
    for (std::uint32_t m = 0; m < count; ++m)
      run_.options.moves.push_back(to_layout(1 + draw(8 + m, 5), layout(20 + m)));
  }
  const Topology& topology() const { return topology_; }
  const VirtualRun& run() const { return run_; }
  std::vector<Death> deaths(const Killer& nobody) const {
    std::vector<Death> all;
    const std::uint64_t first = nobody.committed.front() / 2, last = nobody.committed.at(7);
    for (std::uint32_t d = 0; d < draw(40, 3); ++d) {
      const Place place{{draw(50 + d, stages_)}, {draw(60 + d, replicas_)}};
      const Member::Role role = draw(70 + d, 2) > 0 ? Member::Role::twin : Member::Role::stage;
      all.push_back({{role, place}, first + keyed(seed_, 80 + d) % (last - first)});
    }
    return all;
  }

 private:
  std::uint32_t draw(std::uint64_t what, std::uint32_t below) const {
    return static_cast<std::uint32_t>(keyed(seed_, what) % below);
  }
  // Five layers, dealt out one by one.
  Layout layout(std::uint64_t what) const {
    Layout drawn(stages_, 0);
    for (std::uint32_t l = 0; l < 5; ++l) ++drawn[keyed(seed_, what, l) % stages_];
    return drawn;
  }

  std::uint64_t seed_;
  std::uint32_t stages_ = 0, replicas_ = 0;
  Topology topology_;
  VirtualRun run_;
};

TEST(MigrationSameBits, hundreds_of_seeds_of_moves_and_deaths) {
  const std::uint64_t first = number_of("STAGECRAFT_FIRST_SEED", 1), count = number_of("STAGECRAFT_SEEDS", 250);
  std::uint64_t made = 0, asked = 0, losses = 0;
  for (std::uint64_t seed = first; seed < first + count; ++seed) {
    const DrawnMoves drawn(seed);
    VirtualRun plain = drawn.run();
    plain.options.moves.clear();
    const std::string expected = bits(run_virtual(drawn.topology(), plain));
    Killer nobody;
    const RunResult alone = nobody.run(drawn.topology(), drawn.run());
    ASSERT_TRUE(sound(alone)) << "seed " << seed << ": " << alone.reason;
    ASSERT_EQ(bits(alone), expected) << "seed " << seed;
    Killer killer{drawn.deaths(nobody), {}, 0, {}};
    const RunResult result = killer.run(drawn.topology(), drawn.run());
    ASSERT_TRUE(sound(result)) << "seed " << seed << ": " << result.reason << " "
                               << fmt::format("{}", fmt::join(result.violations, "; "));
    ASSERT_EQ(bits(result), expected) << "seed " << seed;
    made += result.moves;
    asked += drawn.run().options.moves.size();
    losses += result.losses;
  }
  std::cout << made << " of " << asked << " moves made, " << losses << " losses\n";
  EXPECT_GT(made, asked / 4);
  EXPECT_GT(losses, count / 2);
}

}  // namespace
}  // namespace stagecraft::test
