// Scenario files that the tests start from, and how they look for a problem.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "config/load_scenario.hpp"

namespace stagecraft {

inline const std::string rich_scenario = R"(version: 1
name: slow first link, then a dead stage
shows: one sentence
topology: ../gpt.yaml
set: ["job.iterations=60", "checkpoint.every=10"]
world: virtual
seeds: 1..100
deadline: 500s
faults:
  - { id: slow, at: { iteration: 5 }, do: delay, on: { link: [0, 1] }, with: { mean: 30ms }, for: { iterations: 20 } }
  - { id: crash, when: { event: backward_started, stage: 2, micro_batch: 3, iteration: 9 }, do: kill, on: { stage: 2 } }
  - { id: chaos, every: { mtbf: 3s, at_most: 5 }, do: kill, on: { stage: 1, replica: 0 } }
  - { id: cut, at: { time: 2s }, do: partition, on: { nodes: [n0, n1] }, for: { time: 3s } }
  - { id: late, do: skew, on: { node: n1 }, with: { behind: 4ms } }
expect:
  - iteration_time: { during: slow, settle: 3, at_most: 1.10x }
  - iteration_time: { after: slow, settle: 3, at_most: 450ms }
  - progress: { within: 20s, after: crash }
  - loss: { equals: fault_free, tolerance: exact }
  - never: [stale_epoch_accepted, micro_batch_lost]
  - committed: { at_least: 30 }
  - checkpoint: { at_least: 20 }
  - shutdown: { within: 5s }
calm: { iteration: 40, progress: { within: 10s } }
)";

/// A small file with these faults and expectations (lists in brackets), and other keys after them.
inline std::string scenario_of(const std::string& faults, const std::string& expect = "",
                               const std::string& more = "") {
  return fmt::format("version: 1\nname: test\ntopology: t.yaml\nfaults: [{}]\nexpect: [{}]\n{}", faults, expect, more);
}

inline std::string lines_of(const std::vector<Diagnostic>& diagnostics) {
  std::string text;
  for (const Diagnostic& d : diagnostics) text += to_text(d) + "\n";
  return text;
}

inline Scenario load_good(const std::string& text, const std::string& file = "s.yaml") {
  auto result = load_scenario(file, text);
  if (!result.scenario) throw std::runtime_error("refused:\n" + lines_of(result.diagnostics) + text);
  EXPECT_EQ(lines_of(result.diagnostics), "");
  return std::move(*result.scenario);
}

/// Two faults as they stand in a file, named after what they do.
inline const std::string slow_fault =
    "{ id: slow, do: slow, on: { stage: 1 }, with: { factor: 2 }, for: { iterations: 5 } }";
inline const std::string kill_fault = "{ id: kill, do: kill, on: { stage: 1 } }";

/// "s.yaml:4:12: " for the first place of the piece in the text. `skip`: that many places before it don't count.
inline std::string place_of(const std::string& text, const std::string& piece, int skip = 0) {
  std::size_t at = text.find(piece);
  for (; skip > 0 && at != std::string::npos; --skip) at = text.find(piece, at + 1);
  EXPECT_NE(at, std::string::npos) << piece << " in " << text;
  const std::string before = text.substr(0, at);
  const auto line = std::count(before.begin(), before.end(), '\n') + 1;
  return fmt::format("s.yaml:{}:{}: ", line, at - (before.rfind('\n') + 1) + 1);
}

/// Exactly one problem, of that code, where `place` stands in the text; its message holds all of `pieces`.
inline void expect_one(const std::vector<Diagnostic>& diagnostics, const std::string& text, const std::string& place,
                       const std::string& code, const std::vector<std::string>& pieces, int skip = 0) {
  ASSERT_EQ(diagnostics.size(), 1U) << lines_of(diagnostics) << text;
  const std::string line = to_text(diagnostics[0]);
  EXPECT_TRUE(line.starts_with(place_of(text, place, skip) + code + ": "))
      << line << "\nexpected " << place_of(text, place, skip) << code;
  for (const std::string& piece : pieces) EXPECT_NE(line.find(piece), std::string::npos) << piece << " in " << line;
}

inline void expect_bad(const std::string& text, const std::string& place, const std::string& code,
                       const std::vector<std::string>& pieces = {}, int skip = 0) {
  const auto result = load_scenario("s.yaml", text);
  EXPECT_FALSE(result.scenario) << text;
  expect_one(result.diagnostics, text, place, code, pieces, skip);
}

}  // namespace stagecraft
