// Jobs of several nodes in one virtual world, and deaths of whole nodes at chosen messages.
#pragma once

#include <fmt/format.h>

#include <memory>
#include <string>
#include <vector>

#include "actors/node.hpp"
#include "fixture.hpp"

namespace stagecraft::test {

/// A node of the file for each number of devices.
inline std::vector<std::string> on_nodes(const std::vector<std::uint32_t>& devices, std::vector<std::string> more) {
  std::string nodes;
  for (std::size_t n = 0; n < devices.size(); ++n)
    nodes += fmt::format("{}{{ name: n{}, devices: [{{ kind: cpu, count: {}, memory: 1GiB }}] }}", n > 0 ? ", " : "", n,
                         devices[n]);
  more.push_back(fmt::format("nodes=[{}]", nodes));
  more.push_back("job.iterations=4");
  return more;
}

/// A whole node: its cast, its node actor and its gate.
inline void kill(const NodeHandles& node) {
  caf::anon_send_exit(node.node, caf::exit_reason::kill);
  caf::anon_send_exit(node.cast->part()->gate, caf::exit_reason::kill);
  for (const Watched& w : node.cast->all()) caf::anon_send_exit(w.actor, caf::exit_reason::kill);
}

/// Which node, before which message.
struct NodeDeath {
  std::uint32_t node = 0;
  std::uint64_t step = 0;
};

/// `last`: how many messages there were.
inline RunResult run_without(const Topology& topology, const std::vector<NodeDeath>& deaths, std::uint64_t& last,
                             const std::vector<Move>& moves = {}, VirtualRun run = {}) {
  std::vector<NodeHandles> nodes;
  run.options.apart = true;
  run.options.moves = moves;
  run.options.started = [&](const std::vector<NodeHandles>& all) { nodes = all; };
  run.before_step = [&](std::uint64_t step) {
    last = step;
    for (const NodeDeath& death : deaths)
      if (death.step == step && !nodes.empty()) kill(nodes[death.node]);
  };
  RunResult result = run_virtual(topology, run);
  nodes.clear();
  return result;
}

}  // namespace stagecraft::test
