// Runs the part of a job that lives on a node which does not lead it.
#pragma once

#include "actors/cluster/cluster.hpp"

namespace stagecraft {

/// From the begin that Cluster::join gave until the first node says how the job ended, or is lost. Ends every actor and
/// stream of this part before it returns. On the thread that owns the world. Throws CannotStart: too little memory
/// here.
/// `stop_asked`: asked often; once it says so the whole job finishes its iteration and ends.
FinishJob run_member(World& world, const Topology& topology, Cluster& cluster, const BeginJob& begin,
                     const std::function<bool()>& stop_asked);

}  // namespace stagecraft
