// Files that the tests of this folder start from, and how they look for a problem.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "config/load_topology.hpp"

namespace stagecraft {

// Line numbers matter: the tests cite them.
inline const std::string cpu_file = R"(version: 1
job: { name: quickstart, seed: 7, iterations: 30 }
model:
  layers: 8
  width: 256
  heads: 8
  context: 512
data:
  sources: [{ files: /tmp/corpus/*, exclude: ["*.dat", "*.u8"], split: "\n%\n" }]
  micro_batch_tokens: 512
training:
  micro_batches: 8
  logical_shards: 4
pipeline:
  stages: 4
nodes:
  - name: n0
    devices: [{ kind: cpu, count: 4, memory: 2GiB }]
)";

inline const std::string emulated_file = R"(version: 1
job: { name: emulated, iterations: 3 }
model: { layers: 8 }
training: { micro_batches: 8, logical_shards: 4 }
pipeline: { stages: 4 }
nodes:
  - name: n0
    devices:
      - kind: emulated
        count: 4
        memory: 80GiB
        costs: { forward: 10ms, backward_input: 10ms, backward_weight: 10ms }
)";

/// The text with one piece replaced; the piece must be there exactly once.
inline std::string with(std::string text, const std::string& piece, const std::string& instead) {
  const auto at = text.find(piece);
  EXPECT_NE(at, std::string::npos) << piece;
  EXPECT_EQ(text.find(piece, at + 1), std::string::npos) << piece << " is there twice";
  return text.replace(at, piece.size(), instead);
}

inline std::vector<std::string> lines_of(const LoadResult& result) {
  std::vector<std::string> lines;
  for (const Diagnostic& d : result.diagnostics) lines.push_back(to_text(d));
  return lines;
}

inline std::string text_of(const LoadResult& result) {
  std::string text;
  for (const std::string& line : lines_of(result)) text += line + "\n";
  return text;
}

/// The text has exactly this one problem: the line begins with `head` (position and code) and holds all of `pieces`.
inline void expect_only(const LoadResult& result, const std::string& head, const std::vector<std::string>& pieces) {
  const auto lines = lines_of(result);
  ASSERT_EQ(lines.size(), 1U) << text_of(result);
  EXPECT_TRUE(lines[0].starts_with(head + ": ")) << lines[0] << "\nexpected " << head;
  for (const std::string& piece : pieces)
    EXPECT_NE(lines[0].find(piece), std::string::npos) << piece << " in " << lines[0];
}

inline void expect_refused(const std::string& text, const std::string& head,
                           const std::vector<std::string>& pieces = {}) {
  const auto result = load_topology("t.yaml", text);
  EXPECT_FALSE(result.topology);
  expect_only(result, head, pieces);
}

inline void expect_warned(const std::string& text, const std::string& head,
                          const std::vector<std::string>& pieces = {}) {
  const auto result = load_topology("t.yaml", text);
  EXPECT_TRUE(result.topology);
  expect_only(result, head, pieces);
}

inline Topology load(const std::string& text, const std::vector<std::string>& overrides = {}) {
  auto result = load_topology("t.yaml", text, overrides);
  if (!result.topology) throw std::runtime_error("refused:\n" + text_of(result));
  return std::move(*result.topology);
}

inline bool has_code(const LoadResult& result, ErrorCode code) {
  return std::any_of(result.diagnostics.begin(), result.diagnostics.end(),
                     [&](const Diagnostic& d) { return d.code == code; });
}

}  // namespace stagecraft
