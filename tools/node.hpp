// What `node` and `run --processes` share. Main thread only.
#pragma once

#include <optional>

#include "actors/runtime.hpp"
#include "tools/child_processes.hpp"
#include "tools/commands.hpp"

namespace stagecraft::tools {

/// The network of a node: its certificates, checked, or none on loopback. Empty when it must not start so, which has
/// been said.
std::optional<NetworkOptions> network_of(const Topology& topology, std::uint32_t index);
/// Says what goes on while nodes come together. With `children`: gives up when one of them has ended.
RunOptions::StartUp start_up_of(ChildProcesses* children);
std::size_t worker_threads();
/// Runs the job as the first node of the file.
int lead_command(const Topology& topology, const RunCommandOptions& options);

}  // namespace stagecraft::tools
