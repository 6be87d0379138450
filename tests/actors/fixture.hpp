// Small jobs for the tests of whole runs: a tiny model on a text in memory, or emulated devices.
#pragma once

#include <fmt/format.h>

#include <memory>
#include <string>
#include <vector>

#include "actors/runtime.hpp"
#include "config/load_topology.hpp"
#include "planning/random.hpp"
#include "transport/memory_disk.hpp"

namespace stagecraft::test {

/// Documents of 1 to 60 letters with a little structure to learn: what follows a letter is mostly fixed.
inline std::shared_ptr<MemoryDisk> text_disk() {
  auto disk = std::make_shared<MemoryDisk>();
  std::string text;
  for (std::uint64_t d = 0; d < 600; ++d) {
    std::uint64_t letter = keyed(11, d) % 26;
    const std::uint64_t length = 1 + keyed(12, d) % 60;
    for (std::uint64_t i = 0; i < length; ++i) {
      text += static_cast<char>('a' + letter);
      letter = keyed(13, d, i) % 8 == 0 ? keyed(14, d, i) % 26 : (letter * 5 + 3) % 26;
    }
    text += "\n\n";
  }
  disk->make_directories("/text");
  disk->write_whole("/text/a.txt", text);
  return disk;
}

/// Clipping is always active at this clip; five layers so that most layouts are uneven.
inline std::string tiny_file() {
  return R"(version: 1
job: { name: tiny, seed: 7, iterations: 20 }
model: { layers: 5, width: 16, heads: 2, kv_heads: 1, hidden: 24, context: 24, tied_embeddings: false }
data: { sources: [{ files: "/text/*.txt", split: "\n\n" }], micro_batch_tokens: 32 }
training:
  micro_batches: 8
  logical_shards: 4
  optimizer: { kind: adamw, learning_rate: 1e-2, clip: 0.05, schedule: { kind: cosine, warmup_steps: 3 } }
pipeline: { stages: 1, chunks: 1, replicas: 1, schedule: 1f1b, dispatch: reactive }
nodes: [{ name: n0, devices: [{ kind: cpu, count: 64, memory: 1GiB }] }]
)";
}

inline std::string emulated_file() {
  return R"(version: 1
job: { name: emulated, seed: 7, iterations: 5 }
model: { layers: 5 }
training: { micro_batches: 8, logical_shards: 4 }
pipeline: { stages: 1, chunks: 1, replicas: 1, schedule: 1f1b, dispatch: reactive }
nodes:
  - name: n0
    devices:
      - kind: emulated
        count: 64
        memory: 8GiB
        costs: { forward: 10ms, backward_input: 10ms, backward_weight: 10ms }
)";
}

/// Fails with every diagnostic in the text.
inline Topology load(const std::string& text, const std::vector<std::string>& overrides) {
  LoadResult loaded = load_topology("test.yaml", text, overrides);
  if (loaded.topology) return *loaded.topology;
  std::string all;
  for (const Diagnostic& d : loaded.diagnostics) all += to_text(d) + "\n";
  throw std::runtime_error(all);
}

struct VirtualRun {
  std::uint64_t seed = 1;
  Duration lateness{};
  RunOptions options;
  std::shared_ptr<Disk> disk{};  ///< none: a fresh one with the text
  std::function<void(std::uint64_t)> before_step{};
};

inline RunResult run_virtual(const Topology& topology, const VirtualRun& run = {}) {
  static const std::shared_ptr<MemoryDisk> text = text_disk();
  VirtualOptions options{run.seed, run.lateness, topology.nodes.size() > 1, run.before_step};
  const auto world = make_virtual_world(options, run.disk ? run.disk : std::make_shared<MemoryDisk>(text));
  return run_job(*world, topology, run.options);
}

/// What promise P1 is about: losses, weights and moments, to the bit.
inline std::string bits(const RunResult& r) {
  std::string out = r.weights_sha256 + " " + r.moments_sha256;
  for (const IterationReport& i : r.iterations) out += fmt::format(" {:a}/{:a}", i.loss, i.gradient_norm);
  return out;
}

inline bool sound(const RunResult& r) { return r.ending == Ending::done && r.violations.empty(); }

}  // namespace stagecraft::test
