// Runs the part of a job that lives on a node which does not lead it, or not yet: when the leading node is lost, this
// one may have to go on in its place.
#pragma once

#include "actors/cluster/cluster.hpp"

namespace stagecraft {

struct MemberOptions {
  std::function<bool()> stop_asked;                          ///< asked often; true: the whole job ends
  std::function<void(const std::string&)> say;               ///< what people should know
  std::function<void(const IterationReport&)> on_iteration;  ///< called once this node leads, on the driving thread
  std::string checkpoint_folder;                             ///< of the job, as this node finds it
  std::function<void(RunningJob&)> attend;                   ///< as in RunOptions, once this node leads
};

struct MemberEnd {
  FinishJob end;
  std::optional<RunResult> led;  ///< what the run leaves, where this node leads the job at its end
};

/// From the begin that Cluster::join gave until the leading node says how the job ended, or no node can lead it. Ends
/// every actor and stream of this part before it returns. On the thread that owns the world. Throws CannotStart: too
/// little memory here.
MemberEnd run_member(World& world, const Topology& topology, Cluster& cluster, const BeginJob& begin,
                     const MemberOptions& options);

}  // namespace stagecraft
