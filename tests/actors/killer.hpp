// Deaths at chosen messages of a run under the virtual clock.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "actors/node.hpp"
#include "fixture.hpp"

namespace stagecraft::test {

// One death: of whom, before which message.
struct Death {
  Member who;
  std::uint64_t step = 0;
};

struct Killer {
  std::vector<Death> deaths;
  std::shared_ptr<Cast> cast;
  std::uint64_t steps = 0;
  std::vector<std::uint64_t> committed;  // how many messages there had been, by iteration

  // `run.options` may be given; the run is over when this returns.
  RunResult run(const Topology& topology, VirtualRun run = {}) {
    run.options.started = [this](const std::vector<NodeHandles>& nodes) { cast = nodes.front().cast; };
    run.options.on_iteration = [this](const IterationReport&) { committed.push_back(steps); };
    run.before_step = [this](std::uint64_t step) {
      steps = step;
      for (const Death& death : deaths)
        if (cast && death.step == step) caf::anon_send_exit(cast->handle_of(death.who), caf::exit_reason::kill);
    };
    RunResult result = run_virtual(topology, run);
    cast.reset();
    return result;
  }
};

inline Member stage(std::uint32_t s, std::uint32_t r = 0) { return {Member::Role::stage, {{s}, {r}}}; }
inline Member twin(std::uint32_t s, std::uint32_t r = 0) { return {Member::Role::twin, {{s}, {r}}}; }

}  // namespace stagecraft::test
