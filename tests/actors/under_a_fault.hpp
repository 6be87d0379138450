// One pipeline under one fault of which nobody is told, and what its event log says of that. Thread promise: one
// thread.
#pragma once

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "actors/faults/fault_board.hpp"
#include "config/load_scenario.hpp"
#include "fixture.hpp"

namespace stagecraft::test {

using Json = nlohmann::json;

struct Told {
  RunResult result;
  std::vector<Json> stragglers, plans, routes;
};

/// Four stages with twelve micro-batches of 10 ms operators, for sixty iterations. `fault`: as in a scenario, or empty.
inline Told run_under(const std::string& fault, std::vector<std::string> overrides) {
  overrides.insert(overrides.end(), {"pipeline.stages=4", "training.micro_batches=12", "job.iterations=60"});
  const Topology topology = load(emulated_file(), overrides);
  const auto scenario = load_scenario("s.yaml", "version: 1\nname: test\ntopology: t.yaml\nfaults: [" + fault + "]\n");
  for (const Diagnostic& d : scenario.diagnostics) ADD_FAILURE() << to_text(d);
  const auto disk = text_disk();
  const auto world = make_virtual_world({.seed = 1, .log_disk = disk}, disk);
  world->inject(std::make_shared<FaultBoard>(*scenario.scenario, topology, 1));
  RunOptions options;
  options.log_path = "/events.jsonl";
  Told told;
  told.result = run_job(*world, topology, options);
  EXPECT_TRUE(sound(told.result)) << told.result.reason;
  std::istringstream log(disk->read("/events.jsonl").value());
  for (std::string line; std::getline(log, line);) {
    const Json event = Json::parse(line);
    if (event.at("event") == "straggler") told.stragglers.push_back(event);
    if (event.at("event") == "planned") told.plans.push_back(event);
    if (event.at("event") == "rerouted") told.routes.push_back(event);
  }
  return told;
}

inline std::string text(const Json& event) { return event.at("text"); }
inline bool has(const Json& event, const std::string& part) { return text(event).find(part) != std::string::npos; }
inline std::string all(const std::vector<Json>& events) {
  std::string out;
  for (const Json& event : events) out += event.dump() + "\n";
  return out;
}

}  // namespace stagecraft::test
