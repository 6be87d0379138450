// A checkpoint: what a job was after one committed iteration, as files that outlive it.
//
//   <folder>/step-00000050/          <folder> belongs to one job: checkpoint.dir/<job>
//     config.json                    the model, as Hugging Face's Llama; not on emulated devices
//     model.safetensors              parameters, by global names
//     optimizer.safetensors          both moments of each, as `first_moment.<name>` and `second_moment.<name>`
//     manifest.json                  CheckpointInfo, size and XXH128 of every other file, SHA-256 of itself
//
// Either tensor file may be split, as Hugging Face does it (tensor_files.hpp). Written in two phases: everything into
// `step-00000050.partial`, each file synced, the manifest last; then one rename (names: checkpoint_folder.hpp). A
// folder without a sound manifest is no checkpoint. Nothing depends on stages, chunks or replicas: tensors are keyed
// by name, so any layout reads what another wrote.
//
// Who knocks: the checkpointer (on its own device), `run --resume`, the verbs of `stagecraft checkpoint`. What it never
// does: throw, print, choose a name, or touch a folder that it did not write, but for what `keep` says.
// Thread promise: any thread, one writer per folder; every call blocks on the disk.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "config/topology.hpp"
#include "model/arithmetic.hpp"
#include "transport/disk.hpp"

namespace stagecraft {

/// What two runs must share so that one continues the other with the same bits.
struct JobIdentity {
  ModelSpec model;
  bool emulated = false;  ///< parameters are digests; only `model.layers` and `model.tied_embeddings` mean anything
  std::uint64_t seed = 1;
  std::uint32_t micro_batches = 1, logical_shards = 1;
  std::uint32_t micro_batch_tokens = 0;  ///< 0 on emulated devices
  std::string corpus_sha256;             ///< empty on emulated devices
  KernelKind kernels = KernelKind::exact;
};

struct CheckpointInfo {
  std::string job;
  JobIdentity identity;
  OptimizerSpec optimizer;
  std::uint32_t iteration = 0;  ///< the last one that is in the parameters
  std::uint64_t steps = 0;      ///< optimizer steps so far; fewer than iterations when some were skipped
  std::uint64_t tokens = 0;     ///< trained on so far
  std::string layout;           ///< of the run that wrote it, for people: "4 stages x 1 chunks x 2 replicas"
};

/// A run of elements of one group, from `first` on. The values are borrowed.
struct Fragment {
  std::size_t first = 0;
  std::span<const float> values;
};
/// Fragments of one group in any order; together they must cover it exactly once.
struct GroupFragments {
  std::vector<Fragment> parameters, first_moments, second_moments;
};
/// By group; of tied tables only the embedding.
using StateView = std::map<GroupId, GroupFragments>;

/// The values of one group.
struct GroupValues {
  std::vector<float> parameters, first_moments, second_moments;
};

/// What went wrong with a checkpoint: what, where, why and what to try. Empty when all went well.
using CheckpointStatus = std::optional<std::string>;

/// Writes `<folder>/step-<iteration>`. All or nothing, whatever happens at whatever moment; after an error there is
/// either nothing new, or, when only the last sync failed, the whole checkpoint. First removes abandoned `.partial`
/// folders, in the end the checkpoints beyond the newest `keep` that look sound; what can't be removed stays for the
/// next time. A step that is there already stays when it is the same, and is replaced once its successor is durable
/// when it is not. `parameters` in model order (Arithmetic::parameters).
CheckpointStatus write_checkpoint(Disk& disk, const std::string& folder, const CheckpointInfo& info,
                                  const std::vector<ParameterInfo>& parameters, const StateView& state,
                                  std::uint32_t keep);

/// A folder that looks like a checkpoint, newest first.
struct CheckpointEntry {
  std::string path;
  std::uint32_t iteration = 0;
  bool partial = false;  ///< the writer did not get to the rename, or the folder is on its way out
};
std::vector<CheckpointEntry> list_checkpoints(Disk& disk, const std::string& folder);

/// Reads the manifest alone.
std::variant<CheckpointInfo, std::string> read_manifest(Disk& disk, const std::string& path);
/// Reads everything and compares sizes, hashes, headers, names and shapes: what is wrong, or the manifest.
std::variant<CheckpointInfo, std::string> verify_checkpoint(Disk& disk, const std::string& path);

struct PassedOver {
  std::string path, why;
};
/// The newest checkpoint that verifies, and the newer ones that do not. A folder that can't be looked into is passed
/// over itself; one that is not there holds no checkpoint.
struct CheckpointChoice {
  std::optional<std::string> path;
  std::vector<PassedOver> passed_over;
};
CheckpointChoice newest_verified(Disk& disk, const std::string& folder);

struct LoadedCheckpoint {
  CheckpointInfo info;
  std::map<GroupId, GroupValues> state;  ///< of tied tables only the embedding
};
/// Verifies, then reads. `parameters`: of the model that will take it; a missing, alien or differently shaped tensor is
/// an error that names it.
std::variant<LoadedCheckpoint, std::string> load_checkpoint(Disk& disk, const std::string& path,
                                                            const std::vector<ParameterInfo>& parameters);

/// Why a run with `wanted` can't continue a checkpoint of `found`: every difference, with both values; empty when it
/// can.
std::string differences(const JobIdentity& found, const JobIdentity& wanted);

}  // namespace stagecraft
