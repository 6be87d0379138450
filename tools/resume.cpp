#include "tools/resume.hpp"

#include <fmt/format.h>

#include <array>
#include <nlohmann/json.hpp>

#include "model/checkpoint/checkpoint_folder.hpp"
#include "tools/output.hpp"

namespace stagecraft::tools {

namespace {

bool continue_newest(Disk& disk, const Topology& topology, RunOptions& run) {
  CheckpointChoice choice = newest_verified(disk, run.checkpoint_folder);
  for (const PassedOver& p : choice.passed_over) complain("passed over {}: {}\n", p.path, p.why);
  if (!choice.path) {
    complain(
        "{}: --resume found no checkpoint of job '{}' in '{}' that can be continued; start anew with --fresh, or "
        "name another place with --set checkpoint.dir=FOLDER\n",
        topology.file, topology.job.name, run.checkpoint_folder);
    return false;
  }
  run.resume_from = *choice.path;
  run.passed_over = std::move(choice.passed_over);
  return true;
}

bool nothing_is_there(Disk& disk, const Topology& topology, const std::string& folder) {
  if (const auto steps = list_steps(disk, folder); !steps) {
    complain("{}: {} (checkpoint.dir)\n", topology.file, steps.error().text());
    return false;
  }
  for (const CheckpointEntry& entry : list_checkpoints(disk, folder)) {
    if (entry.partial) continue;
    complain(
        "{}: job '{}' has checkpoints in '{}', the newest after iteration {}: continue it with --resume, or start "
        "anew with --fresh, which moves them aside\n",
        topology.file, topology.job.name, folder, entry.iteration);
    return false;
  }
  return true;
}

// The optimizer may change between two runs of a job; what follows is then not what one run would have given.
void note_changes(const OptimizerSpec& before, const OptimizerSpec& now) {
  const std::array<std::pair<std::string_view, double OptimizerSpec::*>, 7> numbers{
      {{"learning_rate", &OptimizerSpec::learning_rate},
       {"beta1", &OptimizerSpec::beta1},
       {"beta2", &OptimizerSpec::beta2},
       {"epsilon", &OptimizerSpec::epsilon},
       {"weight_decay", &OptimizerSpec::weight_decay},
       {"clip", &OptimizerSpec::clip},
       {"schedule.final_fraction", &OptimizerSpec::final_fraction}}};
  for (const auto& [name, member] : numbers)
    if (before.*member != now.*member)
      complain(
          "note: training.optimizer.{} was {} before the checkpoint and is {} from here on: the bits are not those "
          "of one uninterrupted run\n",
          name, before.*member, now.*member);
  if (before.schedule != now.schedule || before.warmup_steps != now.warmup_steps)
    complain(
        "note: training.optimizer.schedule changes at the checkpoint: the bits are not those of one uninterrupted "
        "run\n");
}

}  // namespace

std::string checkpoint_folder(const Topology& topology) {
  return fmt::format("{}/{}", topology.checkpoint.dir, topology.job.name);
}

std::variant<std::uint32_t, ExitCode> choose_start(Disk& disk, const Topology& topology,
                                                   const RunCommandOptions& options, RunOptions& run) {
  run.checkpoint_folder = checkpoint_folder(topology);
  if (options.fresh) return 0U;
  if (!options.resume) {
    if (!nothing_is_there(disk, topology, run.checkpoint_folder)) return bad_input;
    return 0U;
  }
  run.resume_from = options.resume_path;
  if (run.resume_from.empty() && !continue_newest(disk, topology, run)) return bad_input;
  const auto info = read_manifest(disk, run.resume_from);
  if (const auto* error = std::get_if<std::string>(&info)) {
    complain("{}\n", *error);
    return bad_input;
  }
  const auto& found = std::get<CheckpointInfo>(info);
  // The text is compared when it is loaded.
  if (const std::string why = differences(found.identity, identity_of(topology, found.identity.corpus_sha256));
      !why.empty()) {
    complain("{}: cannot continue the checkpoint '{}': {}; put that back, or start anew with --fresh\n", topology.file,
             run.resume_from, why);
    return bad_input;
  }
  if (found.iteration >= topology.job.iterations) {
    complain(
        "{}: '{}' holds the state after iteration {}, and job.iterations is {}: nothing is left to do; raise it to "
        "train on\n",
        topology.file, run.resume_from, found.iteration, topology.job.iterations);
    // Scripts get their one object also from a run that has nothing to do.
    if (options.file.json)
      say("{}\n", nlohmann::ordered_json{{"job", topology.job.name},
                                         {"ending", "done"},
                                         {"reason", "nothing is left to do"},
                                         {"resumed_from", run.resume_from},
                                         {"start_iteration", found.iteration},
                                         {"iterations", 0}}
                      .dump());
    return done;
  }
  note_changes(found.optimizer, topology.training.optimizer);
  return found.iteration;
}

}  // namespace stagecraft::tools
