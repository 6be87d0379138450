// What a topology file says, as validated values with every default filled in. Values only; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "planning/cost.hpp"
#include "planning/ids.hpp"
#include "planning/plan.hpp"
#include "planning/route.hpp"
#include "planning/schedule.hpp"
#include "planning/units.hpp"

namespace stagecraft {

struct JobSpec {
  std::string name;
  std::uint64_t seed = 1;
  std::uint32_t iterations = 1;
};

/// A Llama-style decoder. Only `layers` means anything on emulated devices.
struct ModelSpec {
  std::uint32_t layers = 1;  ///< transformer blocks
  std::uint32_t width = 64;  ///< a multiple of heads, head size even (RoPE turns pairs)
  std::uint32_t heads = 1;
  std::uint32_t kv_heads = 1;      ///< divides heads (grouped-query attention); default: heads
  std::uint32_t hidden = 0;        ///< SwiGLU width; default: 8/3 of width, rounded up to a multiple of 8
  std::uint32_t context = 64;      ///< longest piece of a document, in tokens
  std::uint32_t vocabulary = 257;  ///< bytes and one separator
  bool tied_embeddings = false;
  double rope_theta = 10000.0;
  double norm_epsilon = 1e-5;
};

struct SourceSpec {
  std::string files;                 ///< a path or a glob
  std::vector<std::string> exclude;  ///< globs matched against the file name
  std::optional<std::string> split;  ///< text between documents; none: a file is one document
};

struct DataSpec {
  std::vector<SourceSpec> sources;
  std::uint32_t micro_batch_tokens = 0;  ///< capacity of a micro-batch
};

enum class RateSchedule : std::uint8_t { constant, cosine, linear };

struct OptimizerSpec {  ///< AdamW
  double learning_rate = 3e-4;
  double beta1 = 0.9, beta2 = 0.95, epsilon = 1e-8;
  double weight_decay = 0.1;  ///< not applied to norm gains
  double clip = 1.0;          ///< largest gradient norm; 0: off
  RateSchedule schedule = RateSchedule::constant;
  std::uint32_t warmup_steps = 0;  ///< linear from 0
  double final_fraction = 0.1;     ///< of the learning rate, at the last iteration (cosine, linear)
};

/// Whose matrix products a cpu device runs.
enum class KernelKind : std::uint8_t {
  exact,   ///< ours: the same bits on every CPU, whatever the shapes
  onednn,  ///< the library's: faster, and the same bits only at equal shapes, library and CPU (relaxed consistency)
};

std::string_view name_of(KernelKind kernels);

struct TrainingSpec {
  std::uint32_t micro_batches = 1;   ///< per iteration, over all replicas
  std::uint32_t logical_shards = 1;  ///< a power of two; part of the job's identity
  KernelKind kernels = KernelKind::exact;
  OptimizerSpec optimizer;
};

struct PipelineSpec {
  std::uint32_t stages = 1, chunks = 1, replicas = 1;  ///< chunks: per stage
  std::vector<std::uint32_t> layout;  ///< layers per chunk in model order, stages x chunks entries; always filled in
  ScheduleKind schedule = ScheduleKind::one_f_one_b;
  Dispatch dispatch = Dispatch::reactive;
  std::vector<std::uint32_t>
      warmup;               ///< per stage: forwards started before the first backward; empty: the schedule's own
  CapSpec activations;      ///< forwards started minus weight gradients done, per stage
  CapSpec pending_weights;  ///< backwards started minus weight gradients done, per stage

  /// Where the chunks live. Of one replica, without its micro-batches.
  PipelineShape shape() const { return {stages, chunks, {}, 0, placement_of(schedule)}; }
  /// Of each chunk that the stage hosts, in model order.
  std::vector<std::uint32_t> layers_of(StageId stage) const;
};

enum class DeviceKind : std::uint8_t { cpu, emulated };

struct DeviceSpec {
  DeviceKind kind = DeviceKind::cpu;
  Bytes memory{};
  CostTable costs;  ///< emulated only
};

struct NodeSpec {
  std::string name;
  std::string listen;
  std::vector<DeviceSpec> devices;  ///< one entry per device, counts expanded
};

struct LinkSpec {
  StageId from, to;                    ///< neighbouring stages (or last and first, when there are chunks)
  std::optional<Direction> direction;  ///< none: both
  LinkCost cost;                       ///< of the link itself, whatever the route
  RouteSpec route;
};

struct LinksSpec {
  std::optional<std::uint32_t> credits;  ///< receive slots per boundary and direction; none: from the plan
  std::vector<LinkSpec> links;
};

/// The ladder of deadlines: each is longer than the one before.
struct TimeoutsSpec {
  Duration operation{};  ///< one operator
  Duration iteration{};  ///< one iteration without a commit
  Duration stage{};      ///< start-up of all stages
  Duration node{};       ///< the end of a run: everything gone
};

/// What is done about a loss.
struct RecoverySpec {
  bool twins = false;          ///< each stage's state has a copy that follows, on another node if there is one
  std::uint32_t attempts = 2;  ///< how often one iteration may be begun again; 0: a loss ends the run
  Duration detect_after{};     ///< a process that says nothing for so long is lost
};

/// How the processes of a job know each other.
struct SecuritySpec {
  std::string certificates;  ///< folder with ca.pem, <node>.pem and <node>.key; empty: none, on loopback only
};

struct CheckpointSpec {
  std::string dir = "checkpoints";  ///< a job keeps its own in <dir>/<job.name>
  std::uint32_t every = 0;          ///< iterations between two; 0: only when the run is stopped
  std::uint32_t keep = 3;           ///< the newest ones that stay
};

struct OutputSpec {
  std::string dir = "stagecraft-runs";  ///< where a run keeps its event log and trace
};

struct Topology {
  std::string file;  ///< as given
  JobSpec job;
  ModelSpec model;
  std::optional<DataSpec> data;  ///< always there on cpu devices
  TrainingSpec training;
  PipelineSpec pipeline;
  std::vector<NodeSpec> nodes;
  LinksSpec links;
  TimeoutsSpec timeouts;
  RecoverySpec recovery;
  SecuritySpec security;
  CheckpointSpec checkpoint;
  OutputSpec output;

  /// The device of a stage actor: devices in file order, stages of replica 0 first.
  struct Seat {
    std::uint32_t node = 0, device = 0;
  };
  Seat seat(Place place) const;
  /// Devices that no stage has, in file order: for stages that lose theirs.
  std::vector<Seat> spares() const;
  const DeviceSpec& device(Place place) const;
  bool emulated() const { return nodes.front().devices.front().kind == DeviceKind::emulated; }
};

}  // namespace stagecraft
