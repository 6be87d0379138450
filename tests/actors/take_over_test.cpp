// The node that leads a job dies, at any message, and another one goes on in its place: same bits.
#include <gtest/gtest.h>

#include "node_killer.hpp"

namespace stagecraft::test {
namespace {

std::string why(const RunResult& result) {
  return result.reason + " " + fmt::format("{}", fmt::join(result.violations, "; "));
}

void expect_same_bits_whenever_it_dies(const Topology& topology, std::uint64_t stride,
                                       const std::vector<Move>& moves = {}, const VirtualRun& run = {}) {
  const std::string fault_free = bits(run_virtual(topology));
  std::uint64_t last = 0, opened = 0;
  VirtualRun watched = run;
  watched.options.on_iteration = [&](const IterationReport& report) {
    if (report.iteration == Iteration{1}) opened = last;
  };
  const RunResult without = run_without(topology, {}, last, moves, watched);
  ASSERT_TRUE(sound(without)) << why(without);
  ASSERT_EQ(bits(without), fault_free);
  const std::uint64_t steps = last;
  std::uint64_t runs = 0, taken_over = 0;
  for (std::uint64_t at = opened; at < steps; at += stride, ++runs) {
    const RunResult result = run_without(topology, {{0, at}}, last, moves, run);
    ASSERT_TRUE(sound(result)) << "at " << at << ": " << why(result);
    ASSERT_EQ(bits(result), fault_free) << "at " << at;
    taken_over += result.losses > 0;
  }
  EXPECT_GT(10 * taken_over, 8 * runs);  // but for the last moments, there is something left to do
}

std::vector<std::string> with(std::vector<std::string> more) {
  more.insert(more.end(), {"training.micro_batches=4", "recovery.twins=true", "recovery.attempts=4"});
  return more;
}

TEST(TakeOver, by_the_next_node_with_the_same_bits) {
  expect_same_bits_whenever_it_dies(load(tiny_file(), on_nodes({1, 1, 1, 1}, with({"pipeline.stages=4"}))), 83);
}

TEST(TakeOver, while_layers_move) {
  Move move;
  move.at = Iteration{1};
  move.layout = {1, 3, 1};
  expect_same_bits_whenever_it_dies(
      load(tiny_file(), on_nodes({1, 1, 1}, with({"pipeline.stages=3", "pipeline.layout=[3, 1, 1]"}))), 101, {move});
}

TEST(TakeOver, with_messages_that_come_late_and_overtake) {
  VirtualRun run;
  run.lateness = Duration{3'000'000};
  expect_same_bits_whenever_it_dies(load(tiny_file(), on_nodes({1, 1, 1}, with({"pipeline.stages=3"}))), 211, {}, run);
}

TEST(TakeOver, with_replicas_and_tied_tables) {
  expect_same_bits_whenever_it_dies(
      load(tiny_file(),
           on_nodes({2, 1, 1}, with({"pipeline.stages=2", "pipeline.replicas=2", "model.tied_embeddings=true"}))),
      307);
}

TEST(TakeOver, twice) {
  const Topology topology = load(tiny_file(), on_nodes({1, 1, 1, 1, 1}, with({"pipeline.stages=5"})));
  const std::string fault_free = bits(run_virtual(topology));
  std::uint64_t last = 0;
  ASSERT_TRUE(sound(run_without(topology, {}, last)));
  const std::uint64_t steps = last;
  for (std::uint64_t at = steps / 2; at < steps; at += 251)
    for (const std::uint64_t later : {1, 40, 300, 900}) {
      const RunResult result = run_without(topology, {{0, at}, {1, at + later}}, last);
      ASSERT_TRUE(sound(result)) << "at " << at << " and " << later << " later: " << why(result);
      ASSERT_EQ(bits(result), fault_free) << "at " << at << " and " << later << " later";
    }
}

// A stage and the leader die together: what the leader was told of the first loss is lost with it.
TEST(TakeOver, while_somebody_else_is_missing) {
  const Topology topology = load(tiny_file(), on_nodes({1, 1, 1, 1}, with({"pipeline.stages=4"})));
  const std::string fault_free = bits(run_virtual(topology));
  std::uint64_t last = 0;
  ASSERT_TRUE(sound(run_without(topology, {}, last)));
  const std::uint64_t steps = last;
  for (std::uint64_t at = steps / 3; at < steps; at += 173)
    for (const Member::Role role : {Member::Role::stage, Member::Role::twin})
      for (const std::uint64_t later : {0, 3, 12, 60}) {
        const Member victim{role, {{2}, {0}}};
        std::vector<NodeHandles> nodes;
        VirtualRun run;
        run.options.apart = true;
        run.options.started = [&](const std::vector<NodeHandles>& all) { nodes = all; };
        run.before_step = [&](std::uint64_t step) {
          if (nodes.empty()) return;
          if (step == at)
            for (const NodeHandles& node : nodes)
              if (!node.cast->node_of(victim))
                caf::anon_send_exit(node.cast->handle_of(victim), caf::exit_reason::kill);
          if (step != at + later) return;
          caf::anon_send_exit(nodes[0].node, caf::exit_reason::kill);
          caf::anon_send_exit(nodes[0].cast->part()->gate, caf::exit_reason::kill);
          for (const Watched& w : nodes[0].cast->all()) caf::anon_send_exit(w.actor, caf::exit_reason::kill);
        };
        const RunResult result = run_virtual(topology, run);
        nodes.clear();
        ASSERT_TRUE(sound(result)) << to_text(victim) << " at " << at << ", leader " << later
                                   << " later: " << why(result);
        ASSERT_EQ(bits(result), fault_free) << to_text(victim) << " at " << at << ", leader " << later << " later";
      }
}

TEST(TakeOver, goes_back_to_a_checkpoint_where_a_twin_is_lost_too) {
  const Topology topology =
      load(tiny_file(), on_nodes({1, 1, 1, 1}, with({"pipeline.stages=4", "checkpoint.every=1"})));
  const std::string fault_free = bits(run_virtual(topology));
  std::uint64_t last = 0;
  ASSERT_TRUE(sound(run_without(topology, {}, last)));
  const std::uint64_t steps = last;
  // The twin of the first node's stage lives on the second.
  for (std::uint64_t at = steps / 2; at < steps; at += 401) {
    VirtualRun run;
    run.disk = text_disk();
    run.options.checkpoint_folder = "/checkpoints/tiny";
    std::vector<NodeHandles> nodes;
    run.options.apart = true;
    run.options.started = [&](const std::vector<NodeHandles>& all) { nodes = all; };
    run.before_step = [&](std::uint64_t step) {
      if (step != at || nodes.empty()) return;
      const Member twin{Member::Role::twin, {{0}, {0}}};
      caf::anon_send_exit(nodes[1].cast->handle_of(twin), caf::exit_reason::kill);
      caf::anon_send_exit(nodes[0].node, caf::exit_reason::kill);
      caf::anon_send_exit(nodes[0].cast->part()->gate, caf::exit_reason::kill);
      for (const Watched& w : nodes[0].cast->all()) caf::anon_send_exit(w.actor, caf::exit_reason::kill);
    };
    const RunResult result = run_virtual(topology, run);
    nodes.clear();
    ASSERT_TRUE(sound(result)) << "at " << at << ": " << why(result);
    ASSERT_EQ(bits(result), fault_free) << "at " << at;
  }
}

}  // namespace
}  // namespace stagecraft::test
