// Nodes apart: each has a cast of its own, and whatever passes between two of them takes its wire form. Same bits.
#include <gtest/gtest.h>

#include "actors/cluster/stand_in.hpp"
#include "actors/node.hpp"
#include "node_killer.hpp"

namespace stagecraft::test {
namespace {

void expect_same_bits_apart(const std::vector<std::uint32_t>& devices, const std::vector<std::string>& sets) {
  const Topology topology = load(tiny_file(), on_nodes(devices, sets));
  const RunResult together = run_virtual(topology);
  ASSERT_TRUE(sound(together)) << together.reason;
  for (const Duration late : {Duration{0}, Duration{3'000'000}}) {
    VirtualRun run;
    run.options.apart = true;
    run.lateness = late;
    const RunResult apart = run_virtual(topology, run);
    EXPECT_TRUE(sound(apart)) << apart.reason << fmt::format("{}", fmt::join(apart.violations, "; "));
    EXPECT_EQ(bits(apart), bits(together));
    EXPECT_EQ(apart.corpus_sha256, together.corpus_sha256);
  }
}

TEST(NodesApart, have_the_bits_of_nodes_together) { expect_same_bits_apart({2, 2}, {"pipeline.stages=4"}); }
TEST(NodesApart, one_stage_each) { expect_same_bits_apart({1, 1, 1}, {"pipeline.stages=3"}); }
TEST(NodesApart, with_replicas_and_tied_tables_across_nodes) {
  expect_same_bits_apart({1, 2, 1}, {"pipeline.stages=2", "pipeline.replicas=2", "model.tied_embeddings=true"});
}
TEST(NodesApart, with_chunks_and_a_plan) {
  expect_same_bits_apart({1, 1}, {"pipeline.stages=2", "pipeline.chunks=2", "pipeline.schedule=zb-v"});
  expect_same_bits_apart({1, 1, 1}, {"pipeline.stages=3", "pipeline.schedule=planned", "pipeline.dispatch=follow"});
}
TEST(NodesApart, without_twins) { expect_same_bits_apart({2, 1}, {"pipeline.stages=3", "recovery.twins=false"}); }

TEST(NodesApart, on_emulated_devices) {
  const std::string node =
      "devices: [{ kind: emulated, count: 2, memory: 8GiB, costs: { forward: 10ms, backward_input: 10ms, "
      "backward_weight: 10ms, activation: 64MiB } }] }";
  const Topology topology =
      load(emulated_file(), {"pipeline.stages=4", fmt::format("nodes=[{{ name: n0, {0}, {{ name: n1, {0}]", node)});
  const RunResult together = run_virtual(topology);
  VirtualRun run;
  run.options.apart = true;
  const RunResult apart = run_virtual(topology, run);
  ASSERT_TRUE(sound(apart)) << apart.reason;
  EXPECT_EQ(bits(apart), bits(together));
  for (std::size_t s = 0; s < 4; ++s) EXPECT_EQ(apart.memory[s].peak, together.memory[s].peak);
}

TEST(NodesApart, continue_a_checkpoint_of_any_layout) {
  const auto disk = std::make_shared<MemoryDisk>(text_disk());
  const Topology two = load(tiny_file(), on_nodes({1, 1}, {"pipeline.stages=2", "checkpoint.every=2"}));
  const Topology three = load(tiny_file(), on_nodes({1, 1, 1}, {"pipeline.stages=3", "checkpoint.every=2"}));
  VirtualRun run;
  run.disk = disk;
  run.options.apart = true;
  run.options.checkpoint_folder = "/checkpoints/tiny";
  const RunResult whole = run_virtual(two, run);
  ASSERT_TRUE(sound(whole)) << whole.reason;
  run.options.resume_from = "/checkpoints/tiny/step-00000002";
  const RunResult rest = run_virtual(three, run);
  ASSERT_TRUE(sound(rest)) << rest.reason;
  EXPECT_EQ(rest.weights_sha256, whole.weights_sha256);
  EXPECT_EQ(rest.moments_sha256, whole.moments_sha256);
}

// A stage or a twin, wherever it lives, before every n-th message.
TEST(NodesApart, replace_whoever_dies_on_whichever_of_them) {
  const Topology topology =
      load(tiny_file(), on_nodes({1, 1, 1}, {"pipeline.stages=3", "training.micro_batches=4", "recovery.twins=true"}));
  const std::string fault_free = bits(run_virtual(topology));
  std::uint64_t last = 0;
  const auto run_with = [&](std::optional<Member> victim, std::uint64_t at) {
    std::vector<NodeHandles> nodes;
    VirtualRun run;
    run.options.apart = true;
    run.options.started = [&](const std::vector<NodeHandles>& all) { nodes = all; };
    run.before_step = [&](std::uint64_t step) {
      last = step;
      if (!victim || step != at || nodes.empty()) return;
      for (const NodeHandles& node : nodes)
        if (!node.cast->node_of(*victim)) caf::anon_send_exit(node.cast->handle_of(*victim), caf::exit_reason::kill);
    };
    RunResult result = run_virtual(topology, run);
    nodes.clear();
    return result;
  };
  ASSERT_TRUE(sound(run_with({}, 0)));
  const std::uint64_t steps = last;
  for (const Member::Role role : {Member::Role::stage, Member::Role::twin})
    for (std::uint32_t s = 0; s < 3; ++s)
      for (std::uint64_t at = 20 + s; at < steps; at += 97) {
        const Member victim{role, {{s}, {0}}};
        const RunResult result = run_with(victim, at);
        ASSERT_TRUE(sound(result)) << to_text(victim) << " at " << at << ": " << result.reason
                                   << fmt::format("{}", fmt::join(result.violations, "; "));
        ASSERT_EQ(bits(result), fault_free) << to_text(victim) << " at " << at;
      }
}

// Layers 1 and 2 go from the first node to the second, and a node dies at every n-th message meanwhile.
TEST(NodesApart, move_layers_from_one_to_another) {
  const Topology topology =
      load(tiny_file(), on_nodes({1, 1, 1}, {"pipeline.stages=3", "training.micro_batches=4", "recovery.twins=true",
                                             "pipeline.layout=[3, 1, 1]", "recovery.attempts=4"}));
  const std::string without = bits(run_virtual(topology));
  std::uint64_t last = 0;
  Move move;
  move.at = Iteration{1};
  move.layout = {1, 3, 1};
  const RunResult moved = run_without(topology, {}, last, {move});
  ASSERT_TRUE(sound(moved)) << moved.reason << fmt::format("{}", fmt::join(moved.violations, "; "));
  EXPECT_EQ(moved.moves, 1U);
  EXPECT_EQ(moved.layout, (Layout{1, 3, 1}));
  EXPECT_EQ(bits(moved), without);
  const std::uint64_t steps = last;
  for (std::uint32_t victim = 1; victim < 3; ++victim)
    for (std::uint64_t at = 250 + victim; at < steps; at += 61) {
      const RunResult result = run_without(topology, {{victim, at}}, last, {move});
      ASSERT_TRUE(sound(result)) << "node " << victim << " at " << at << ": " << result.reason
                                 << fmt::format("{}", fmt::join(result.violations, "; "));
      ASSERT_EQ(bits(result), without) << "node " << victim << " at " << at;
    }
}

// A whole node but the first, before every n-th message: its cast, its node actor and its gate.
TEST(NodesApart, go_on_without_a_node_whatever_it_was_doing) {
  const Topology topology = load(
      tiny_file(), on_nodes({1, 1, 1, 1}, {"pipeline.stages=4", "training.micro_batches=4", "recovery.twins=true"}));
  const std::string fault_free = bits(run_virtual(topology));
  std::uint64_t last = 0;
  ASSERT_TRUE(sound(run_without(topology, {}, last)));
  const std::uint64_t steps = last;
  for (std::uint32_t victim = 1; victim < 4; ++victim)
    for (std::uint64_t at = 250 + victim; at < steps; at += 131) {
      const RunResult result = run_without(topology, {{victim, at}}, last);
      ASSERT_TRUE(sound(result)) << "node " << victim << " at " << at << ": " << result.reason
                                 << fmt::format("{}", fmt::join(result.violations, "; "));
      ASSERT_EQ(bits(result), fault_free) << "node " << victim << " at " << at;
    }
}

// Two nodes lose each other, before every n-th message; the first one reaches both.
TEST(NodesApart, go_on_when_two_of_them_do_not_reach_each_other) {
  const Topology topology = load(
      tiny_file(), on_nodes({1, 1, 1, 1}, {"pipeline.stages=4", "training.micro_batches=4", "recovery.twins=true"}));
  const std::string fault_free = bits(run_virtual(topology));
  std::uint64_t last = 0;
  const auto run_with = [&](std::uint32_t one, std::uint32_t other, std::uint64_t at) {
    std::vector<NodeHandles> nodes;
    VirtualRun run;
    run.options.apart = true;
    run.options.started = [&](const std::vector<NodeHandles>& all) { nodes = all; };
    run.before_step = [&](std::uint64_t step) {
      last = step;
      if (step != at || nodes.empty()) return;
      tell_from_outside(nodes[one].cast->part()->gate, NodeLost{other, "the cable is cut"});
      tell_from_outside(nodes[other].cast->part()->gate, NodeLost{one, "the cable is cut"});
    };
    RunResult result = run_virtual(topology, run);
    nodes.clear();
    return result;
  };
  ASSERT_TRUE(sound(run_with(1, 2, 0)));
  const std::uint64_t steps = last;
  for (const auto& [one, other] : {std::pair{1U, 2U}, std::pair{1U, 3U}, std::pair{3U, 2U}})
    for (std::uint64_t at = 250 + one; at < steps; at += 197) {
      const RunResult result = run_with(one, other, at);
      ASSERT_TRUE(sound(result)) << one << " and " << other << " at " << at << ": " << result.reason
                                 << fmt::format("{}", fmt::join(result.violations, "; "));
      ASSERT_EQ(bits(result), fault_free) << one << " and " << other << " at " << at;
    }
}

TEST(Homes, of_a_lost_node_are_found_apart_from_each_other) {
  const Topology topology = load(tiny_file(), on_nodes({1, 1, 1}, {"pipeline.stages=3", "recovery.twins=true"}));
  Homes homes(topology);
  const Member stage{Member::Role::stage, {{1}, {0}}}, twin_of_0{Member::Role::twin, {{0}, {0}}};
  EXPECT_EQ(homes.of(stage), 1U);
  EXPECT_EQ(homes.of(twin_of_0), 1U);
  EXPECT_EQ(homes.keep({0, 2}), (std::vector<std::pair<Member, std::uint32_t>>{{twin_of_0, 1}, {stage, 1}}));
  EXPECT_EQ(homes.of(stage), 0U);      // its twin is on node 2
  EXPECT_EQ(homes.of(twin_of_0), 2U);  // its stage is on node 0
  EXPECT_EQ(homes.of(ActorName::at(ActorName::Role::reducer, stage.place)), 0U);
  EXPECT_EQ(homes.of(ActorName::end(ActorName::Role::lower_end, 1, ReplicaId{0})), 0U);
  Homes other(topology);
  other.adopt(homes.moved());
  EXPECT_EQ(other.of(stage), 0U);
}

TEST(Wire, gives_back_what_was_written) {
  const auto arena = Arena::make("test", {});
  ParameterParts parts{{Epoch{3}, Iteration{4}}, ReplicaId{1}, {}, Duration{5}};
  parts.parts[GroupId{2}] = Tensor(*arena, 7);
  parts.parts[GroupId{5}] = Tensor(*arena, 0);
  parts.parts[GroupId{9}] = Tensor{};
  std::vector<char> bytes;
  std::vector<Tensor> payloads;
  WireWriter{bytes, &payloads}(parts);
  ASSERT_EQ(payloads.size(), 1U);
  ParameterParts back;
  WireReader read(bytes.data(), bytes.size(), &payloads);
  read(back);
  read.finish();
  EXPECT_EQ(back.key, parts.key);
  EXPECT_EQ(back.parts.at(GroupId{2}).buffer(), parts.parts.at(GroupId{2}).buffer());
  EXPECT_FALSE(back.parts.at(GroupId{5}).empty());
  EXPECT_EQ(back.parts.at(GroupId{5}).size(), 0U);
  EXPECT_TRUE(back.parts.at(GroupId{9}).empty());
}

// No length is believed: whatever bytes come, reading ends in a value or in WireError.
TEST(Wire, survives_every_cut_and_every_flipped_byte) {
  Events events;
  for (std::uint32_t i = 0; i < 5; ++i)
    events.events.push_back({.kind = EventKind::ran, .place = Place{{i}, {0}}, .op = Operator{}, .text = "a text"});
  const std::vector<char> bytes = to_bytes(events);
  const auto survives = [](const std::vector<char>& damaged) {
    try {
      from_bytes<Events>(damaged);
    } catch (const WireError&) {
    }
  };
  for (std::size_t cut = 0; cut < bytes.size(); ++cut)
    EXPECT_THROW(from_bytes<Events>({bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(cut)}), WireError);
  for (std::size_t i = 0; i < bytes.size(); ++i)
    for (const int flip : {0x01, 0x80, 0xff}) {
      std::vector<char> damaged = bytes;
      damaged[i] = static_cast<char>(damaged[i] ^ flip);
      survives(damaged);
    }
}

}  // namespace
}  // namespace stagecraft::test
