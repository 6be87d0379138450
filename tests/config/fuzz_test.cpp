// Mutated files: whatever happens to the bytes, the loader answers, and what it accepts is sane and loads back.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <numeric>

#include "tests/config/examples.hpp"
#include "tests/config/mutants.hpp"
#include "tests/config/same_topology.hpp"

namespace stagecraft {
namespace {

const std::string rich_file = R"(version: 1
job: { name: "rich", seed: 7, iterations: 30 }
model:
  layers: 8   # blocks
  width: 64
  heads: 8
  context: 128
  tied_embeddings: false
  rope_theta: 1e4
data:
  sources:
    - files: '/tmp/it''s/*'
      exclude: ["*.dat", "*.u8"]
      split: "\n%\n"
  micro_batch_tokens: 512
training:
  micro_batches: 8
  logical_shards: 4
  optimizer: { learning_rate: 3e-4, clip: 1.0, schedule: { kind: cosine, warmup_steps: 3 } }
pipeline:
  stages: 2
  chunks: 2
  replicas: 2
  layout: [2, 2, 2, 2]
  schedule: interleaved
  warmup: [5, 3]
  caps: { activations: 9, pending_weights: off }
nodes:
  - name: n0
    listen: "127.0.0.1:0"
    devices: [{ kind: cpu, count: 3, memory: 2GiB }]
  - { name: n1, devices: [{ kind: cpu, memory: 64MiB }] }
links:
  defaults: { credits: 2, latency: 1ms }
  overrides:
    - { between: [0, 1], direction: forward, occupancy: 3us, bandwidth: 50GB/s }
timeouts: { operation: 10s, iteration: 20s, stage: 30s, node: 40s }
output: { dir: runs }
)";

// Words and numbers that a mutant may have instead of others.
const std::vector<std::string> other_values{"0",    "1",    "2",    "3",   "16",  "1024",  "65536", "-1",
                                            "1e3",  "0.5",  "auto", "off", "cpu", "gpipe", "bfs",   "1f1b",
                                            "10ms", "1GiB", "[]",   "{}",  "~",   "true"};

void expect_sane(const Topology& t) {
  const PipelineSpec& p = t.pipeline;
  ASSERT_EQ(p.layout.size(), std::size_t{p.stages} * p.chunks);
  ASSERT_EQ(std::accumulate(p.layout.begin(), p.layout.end(), std::uint64_t{0}), t.model.layers);
  ASSERT_GE(t.model.layers, 1U);
  ASSERT_LE(t.model.layers, 1024U);
  ASSERT_EQ(t.model.width % t.model.heads, 0U);
  ASSERT_EQ(t.model.heads % t.model.kv_heads, 0U);
  ASSERT_GE(t.job.iterations, 1U);
  ASSERT_TRUE(std::has_single_bit(t.training.logical_shards));
  ASSERT_GE(t.training.logical_shards, p.replicas);
  ASSERT_GE(t.training.micro_batches, p.replicas);
  ASSERT_TRUE(p.warmup.empty() || p.warmup.size() == p.stages);
  ASSERT_TRUE(t.links.credits.value_or(1) >= 1 && t.links.credits.value_or(1) <= 64);
  ASSERT_LT(t.timeouts.operation, t.timeouts.iteration);
  ASSERT_LT(t.timeouts.iteration, t.timeouts.stage);
  ASSERT_LT(t.timeouts.stage, t.timeouts.node);
  ASSERT_NO_THROW(t.seat({{p.stages - 1}, {p.replicas - 1}}));
  const auto again = load_topology(t.file, describe(t));
  ASSERT_TRUE(again.topology) << text_of(again) << describe(t);
  expect_same(*again.topology, t);
}

void expect_sane(const LoadResult& result) {
  const bool refused = std::any_of(result.diagnostics.begin(), result.diagnostics.end(),
                                   [](const Diagnostic& d) { return d.severity == Severity::error; });
  ASSERT_EQ(result.topology.has_value(), !refused) << text_of(result);
  for (const Diagnostic& d : result.diagnostics) {
    ASSERT_FALSE(d.message.empty());
    ASSERT_EQ(to_text(d).find('\n'), std::string::npos) << to_text(d);
  }
  ASSERT_TRUE(std::is_sorted(result.diagnostics.begin(), result.diagnostics.end(),
                             [](const Diagnostic& a, const Diagnostic& b) { return a.at < b.at; }));
  if (result.topology) expect_sane(*result.topology);
}

TEST(Fuzz, the_file_to_be_mutated_is_good) { expect_sane(load(rich_file)); }

TEST(Fuzz, five_thousand_mutants_are_refused_or_sane) {
  constexpr int mutants = 5000;
  int accepted = 0;
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < mutants; ++i) {
    Entropy entropy(static_cast<std::uint64_t>(i), "mutants of a topology");
    const std::string text = mutant_of(rich_file, other_values, entropy);
    const auto result = load_topology("t.yaml", text);
    expect_sane(result);
    if (HasFatalFailure()) FAIL() << "seed " << i << ":\n" << text;
    accepted += result.topology ? 1 : 0;
  }
  // Both ways out are taken often enough to mean something.
  EXPECT_GT(accepted, mutants / 20);
  EXPECT_LT(accepted, mutants * 9 / 10);
  RecordProperty("accepted", accepted);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::minutes(4));
}

TEST(Fuzz, texts_of_random_pieces_of_yaml_are_answered) {
  for (std::uint64_t seed = 0; seed < 3000; ++seed) {
    Entropy entropy(seed, "pieces of YAML");
    const std::string text = pieces_of_yaml(entropy);
    expect_sane(load_topology("t.yaml", text));
    if (HasFatalFailure()) FAIL() << "seed " << seed << ":\n" << text;
  }
}

TEST(Fuzz, random_overrides_are_answered) {
  static const std::vector<std::string> words{"nodes",  "0", "1",     "devices", "count",  "pipeline",   "stages",
                                              "layout", "=", ".",     "model",   "layers", "[",          "]",
                                              "8",      "x", "links", "\"",      "{",      "99999999999"};
  for (std::uint64_t seed = 0; seed < 2000; ++seed) {
    Entropy entropy(seed, "overrides");
    std::vector<std::string> overrides(entropy.between(1, 3));
    for (std::string& text : overrides) {
      for (std::uint64_t n = entropy.between(1, 8); n > 0; --n) text += words[entropy.below(words.size())];
    }
    expect_sane(load_topology("t.yaml", rich_file, overrides));
    if (HasFatalFailure()) FAIL() << "seed " << seed << ": " << overrides[0];
  }
}

}  // namespace
}  // namespace stagecraft
