// Pipelines small enough to solve: the stored optima, and random ones. For the tests of bounds and searches.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "planning/problem.hpp"
#include "planning/random.hpp"
#include "planning/replay.hpp"

namespace stagecraft::small {

using std::chrono::milliseconds;

struct Solved {
  PipelineProblem problem;
  Duration optimum{};
  std::string text;  ///< for messages of failed expectations
};

/// `file`: optima.json or optima_medium.json.
inline std::vector<Solved> stored_optima(const std::string& file) {
  std::ifstream in(std::string(STAGECRAFT_SOURCE_DIR) + "/tests/data/schedules/" + file);
  std::vector<Solved> cases;
  for (const nlohmann::json& record : nlohmann::json::parse(in)) {
    const auto ms = [](const nlohmann::json& number) { return milliseconds(number.get<int>()); };
    Solved solved{{}, ms(record["optimal"]), record.dump()};
    PipelineProblem& problem = solved.problem;
    problem.shape.stages = record["S"];
    problem.shape.micro_batches = record["N"];
    for (std::size_t s = 0; s < problem.shape.stages; ++s) {
      problem.times.push_back({ms(record["tF"][s]), ms(record["tB"][s]), ms(record["tW"][s])});
      problem.caps.push_back({std::nullopt, std::nullopt, record["caps"][s].get<std::uint32_t>()});
    }
    for (const nlohmann::json& latency : record["lat"]) problem.forward_links.push_back({ms(latency), {}, {}});
    problem.backward_links = problem.forward_links;
    cases.push_back(std::move(solved));
  }
  return cases;
}

struct Ranges {
  std::uint64_t stages = 4, micro_batches = 5;  ///< from 1 to this
  bool occupancy = false;                       ///< some messages queue
};

/// Unequal stages, any caps on all three counts, latencies that differ by direction.
inline PipelineProblem random_problem(Entropy& draws, const Ranges& ranges) {
  PipelineProblem problem;
  problem.shape.stages = static_cast<std::uint32_t>(draws.between(1, ranges.stages));
  problem.shape.micro_batches = static_cast<std::uint32_t>(draws.between(1, ranges.micro_batches));
  problem.shape.first = MicroBatch{static_cast<std::uint32_t>(draws.below(3))};
  const auto ms = [&](std::uint64_t low, std::uint64_t high) { return milliseconds(draws.between(low, high)); };
  const auto cap = [&](std::uint64_t chance) {
    return draws.below(chance) != 0
               ? std::nullopt
               : std::optional(static_cast<std::uint32_t>(draws.between(1, problem.shape.micro_batches)));
  };
  const auto links = [&] {
    std::vector<LinkCost> costs;
    const std::uint64_t slowest = draws.below(2) == 0 ? 0 : 6;
    for (std::uint32_t b = 0; b + 1 < problem.shape.stages; ++b)
      costs.push_back({ms(0, slowest), ranges.occupancy ? ms(0, 8) : milliseconds(0), {}});
    return costs;
  };
  for (std::uint32_t s = 0; s < problem.shape.stages; ++s) {
    problem.times.push_back({ms(1, 9), ms(1, 9), ms(1, 9)});
    problem.caps.push_back({cap(3), cap(3), cap(2)});
  }
  problem.forward_links = links();
  problem.backward_links = links();
  return problem;
}

inline std::string to_text(const PipelineProblem& problem) {
  std::string text = std::to_string(problem.shape.micro_batches) + " micro-batches";
  for (std::uint32_t s = 0; s < problem.shape.stages; ++s) {
    const OperatorTimes& t = problem.times[s];
    text += "; stage " + std::to_string(s) + ": " + format(t.forward) + ", " + format(t.backward_input) + ", " +
            format(t.backward_weight) + ", caps";
    for (const auto& cap : {problem.caps[s].activations, problem.caps[s].pending_weights, problem.caps[s].held})
      text += cap ? " " + std::to_string(*cap) : " -";
    if (s + 1 == problem.shape.stages) continue;
    for (const auto* links : {&problem.forward_links, &problem.backward_links})
      text += ", " + format((*links)[s].latency) + " + " + format((*links)[s].occupancy);
  }
  return text;
}

/// The static order runs, within the caps; its makespan. Empty otherwise.
inline std::optional<Duration> makespan_within_caps(const PipelineProblem& problem, const Schedule& schedule) {
  const SimulationResult played = replay(problem, schedule);
  if (played.hung) return std::nullopt;
  for (std::size_t s = 0; s < problem.caps.size(); ++s) {
    const StageCaps& caps = problem.caps[s];
    const StagePeaks& peaks = played.peaks[s];
    if (caps.activations && peaks.activations > *caps.activations) return std::nullopt;
    if (caps.pending_weights && peaks.pending_weights > *caps.pending_weights) return std::nullopt;
    if (caps.held && peaks.held > *caps.held) return std::nullopt;
  }
  return played.makespan;
}

}  // namespace stagecraft::small
