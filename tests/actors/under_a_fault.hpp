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
#include "node_killer.hpp"

namespace stagecraft::test {

using Json = nlohmann::json;

/// A whole node (its cast, its node actor and its gate) that dies when an iteration is over.
struct NodeLoss {
  std::uint32_t node = 0, after = 0;  ///< no iteration: none is lost, and all nodes are together
};

struct Told {
  RunResult result;
  std::vector<Json> stragglers, plans, routes;
};

/// Four stages with twelve micro-batches of 10 ms operators, for sixty iterations. `fault`: as in a scenario, or empty.
/// `lost`: a node of the file that its overrides give.
inline Told run_under(const std::string& fault, std::vector<std::string> overrides, NodeLoss lost = {}) {
  overrides.insert(overrides.end(), {"pipeline.stages=4", "training.micro_batches=12", "job.iterations=60"});
  const Topology topology = load(emulated_file(), overrides);
  const auto scenario = load_scenario("s.yaml", "version: 1\nname: test\ntopology: t.yaml\nfaults: [" + fault + "]\n");
  for (const Diagnostic& d : scenario.diagnostics) ADD_FAILURE() << to_text(d);
  const auto disk = text_disk();
  RunOptions options;
  options.log_path = "/events.jsonl";
  std::vector<NodeHandles> nodes;
  bool now = false;
  VirtualOptions virtual_options{.seed = 1, .log_disk = disk};
  if (lost.after > 0) {
    options.apart = true;
    options.started = [&](const std::vector<NodeHandles>& all) { nodes = all; };
    options.on_iteration = [&](const IterationReport& x) { now = x.iteration.value == lost.after; };
    virtual_options.before_step = [&](std::uint64_t) {
      if (std::exchange(now, false)) kill(nodes.at(lost.node));
    };
  }
  const auto world = make_virtual_world(virtual_options, disk);
  world->inject(std::make_shared<FaultBoard>(*scenario.scenario, topology, 1));
  Told told;
  told.result = run_job(*world, topology, options);
  nodes.clear();
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
