// describe(): what it prints loads back to the same topology.
#include <gtest/gtest.h>

#include <fstream>

#include "tests/config/examples.hpp"
#include "tests/config/same_topology.hpp"

namespace stagecraft {
namespace {

void expect_round_trip(const Topology& topology) {
  const std::string text = describe(topology);
  const auto again = load_topology(topology.file, text);
  ASSERT_TRUE(again.topology) << text_of(again) << text;
  expect_same(*again.topology, topology);
  EXPECT_EQ(describe(*again.topology), text);
}

TEST(Describe, a_file_of_defaults_loads_back) {
  expect_round_trip(load(cpu_file));
  expect_round_trip(load(emulated_file));
}
TEST(Describe, what_it_prints_earns_no_remark) {
  EXPECT_EQ(text_of(load_topology("t.yaml", describe(load(cpu_file)))), "");
  EXPECT_EQ(text_of(load_topology("t.yaml", describe(load(emulated_file)))), "");
}
TEST(Describe, a_file_with_every_key_loads_back) {
  const std::string text = R"(version: 1
job: { name: every-key.1, seed: 18446744073709551615, iterations: 1000000 }
model: { layers: 7, width: 48, heads: 6, kv_heads: 2, hidden: 100, context: 33, vocabulary: bytes,
         tied_embeddings: true, rope_theta: 12345.678, norm_epsilon: 1.0e-6 }
data:
  sources:
    - { files: "a b/*'\"\\", exclude: ["*.dat", "x y"], split: "\n%\n\t\"\\" }
    - { files: "caf\u00e9/\u65e5\u672c" }
  micro_batch_tokens: 99
training:
  micro_batches: 12
  logical_shards: 8
  optimizer: { kind: adamw, learning_rate: 0.00123456789, beta1: 0.85, beta2: 0.999, epsilon: 1e-9, weight_decay: 0,
               clip: 0, schedule: { kind: cosine, warmup_steps: 17, final_fraction: 0.333333333333333314829616256247 } }
pipeline: { stages: 3, chunks: 2, replicas: 2, layout: [1, 2, 0, 1, 2, 1], schedule: interleaved, dispatch: static,
            warmup: [9, 5, 1], caps: { activations: 7, pending_weights: off } }
nodes:
  - { name: n0, listen: "10.1.2.3:7000",
      devices: [{ kind: cpu, count: 3, memory: 3GiB }, { kind: cpu, memory: 2000001B }] }
  - { name: n1, listen: "[::1]:0", devices: [{ kind: cpu, count: 2, memory: 1.5MiB }] }
links:
  defaults: { credits: 3, latency: 1500us, bandwidth: 3GB/s }
  overrides:
    - { between: [0, 1], latency: 7ns, direction: forward }
    - { between: [2, 0], occupancy: 3ms, bandwidth: unlimited }
timeouts: { operation: 1.5s, iteration: 2s, stage: 1m, node: 1h }
checkpoint: { dir: "./check points", every: 7, keep: 2 }
output: { dir: "./out put" }
)";
  expect_round_trip(load(text));
  expect_round_trip(load(text, {"training.optimizer.schedule.kind=constant"}));
  expect_round_trip(load(text, {"training.kernels=onednn"}));
}
TEST(Describe, emulated_costs_and_links_load_back) {
  const Topology t =
      load(emulated_file, {"nodes.0.devices.0.costs.per=layer", "nodes.0.devices.0.costs.reduce=3us",
                           "nodes.0.devices.0.costs.step=1ns", "nodes.0.devices.0.costs.activation=64MiB",
                           "nodes.0.devices.0.costs.weight_activation=1KiB", "nodes.0.devices.0.costs.boundary=100B",
                           "nodes.0.devices.0.costs.parameters=2GB", "links.defaults.latency=20ms"});
  EXPECT_TRUE(t.nodes[0].devices[0].costs.per_layer);
  EXPECT_EQ(t.nodes[0].devices[0].costs.parameters, Bytes{2'000'000'000});
  expect_round_trip(t);
}
TEST(Describe, a_large_file_loads_back) {
  expect_round_trip(load(
      emulated_file, {"model.layers=1024", "pipeline.stages=1024", "pipeline.chunks=2", "pipeline.schedule=bfs",
                      "nodes.0.devices.0.count=1024", "links.defaults.latency=1ms", "training.micro_batches=1024"}));
}
TEST(Describe, the_reference_of_the_format_shows_a_file_that_loads_back) {
  std::ifstream file(STAGECRAFT_SOURCE_DIR "/docs/topology.md");
  ASSERT_TRUE(file);
  std::vector<std::string> blocks;  // of YAML that begin with `version:`
  bool inside = false;
  for (std::string line; std::getline(file, line);) {
    if (line == "```yaml") {
      blocks.emplace_back();
      inside = true;
    } else if (line == "```") {
      inside = false;
    } else if (inside) {
      blocks.back() += line + "\n";
    }
  }
  int whole = 0;
  for (const std::string& block : blocks) {
    if (!block.starts_with("version:")) continue;
    const auto result = load_topology("docs/topology.md", block);
    ASSERT_TRUE(result.topology) << text_of(result) << block;
    EXPECT_EQ(text_of(result), "");
    expect_round_trip(*result.topology);
    ++whole;
  }
  EXPECT_GE(whole, 2);
}

}  // namespace
}  // namespace stagecraft
