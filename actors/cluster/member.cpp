#include "actors/cluster/member.hpp"

#include <fmt/format.h>

#include "actors/company.hpp"
#include "actors/runtime.hpp"
#include "model/memory_check.hpp"
#include "planning/bug.hpp"

namespace stagecraft {

FinishJob run_member(World& world, const Topology& topology, Cluster& cluster, const BeginJob& begin,
                     const std::function<bool()>& stop_asked) {
  JobPlan plan = plan_job(topology, {});
  if (const auto shortages = memory_shortages(topology, plan); !shortages.empty())
    throw CannotStart(fmt::format("{}", fmt::join(shortages, "\n")));
  // The text and the checkpoints are on the first node: here, what is said of them is enough.
  std::optional<CheckpointPlan> checkpoint;
  if (begin.checkpoints) checkpoint = CheckpointPlan{};
  const auto job = std::make_shared<const Job>(
      Job{world, topology, std::move(plan), {}, nullptr, {}, {}, {}, std::move(checkpoint), begin.start, {}});
  const auto outbox = std::make_shared<Outbox>([&world] { world.news(); });
  const Company company{{spawn_node(job, outbox, cluster.part())}, {}};
  std::optional<FinishJob> end;
  bool stopping = false;
  world.drive([&] {
    if (!stopping && stop_asked()) {
      stopping = true;
      tell_from_outside(company.cast().coordinator(), Stop{});
    }
    end = cluster.finished();
    return end.has_value();
  });
  const bool gone = end_all(world, company, 1, topology.timeouts.node);
  STAGECRAFT_ASSERT(gone, "{} actors are left after the end", world.system().registry().running());
  world.close_streams();
  return *end;
}

}  // namespace stagecraft
