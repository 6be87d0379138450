// Where a run begins: anew, or from a checkpoint. Main thread only: it reads whole checkpoints.
#pragma once

#include <optional>
#include <string>
#include <variant>

#include "actors/runtime.hpp"
#include "tools/commands.hpp"

namespace stagecraft::tools {

/// The folder of a job's checkpoints.
std::string checkpoint_folder(const Topology& topology);

/// Fills in where `run` begins, with what was passed over on the way. The answer: the iteration after which it begins,
/// or the exit code of a command that ends here, which has said why: there are checkpoints and nobody said what is to
/// become of them, there is none that can be continued, or nothing is left to do.
std::variant<std::uint32_t, ExitCode> choose_start(Disk& disk, const Topology& topology,
                                                   const RunCommandOptions& options, RunOptions& run);

}  // namespace stagecraft::tools
