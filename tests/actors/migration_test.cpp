// Layers that move between stages of a running job: the bits are those of a run without moves, whatever moves and
// whoever dies, and everyone ends in one layout.
#include <gtest/gtest.h>

#include <algorithm>

#include "actors/node.hpp"
#include "fixture.hpp"

namespace stagecraft::test {
namespace {

using Role = Member::Role;

std::vector<std::string> moving(std::vector<std::string> more) {
  std::vector<std::string> all = {"pipeline.stages=3",         "job.iterations=7", "training.micro_batches=4",
                                  "training.logical_shards=2", "recovery.twins=true", "recovery.attempts=4"};
  all.insert(all.end(), more.begin(), more.end());
  return all;
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

}  // namespace
}  // namespace stagecraft::test
