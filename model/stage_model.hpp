// The share of a model that one stage of one replica holds: parameters, moments, gradients and activations of its
// chunks, and every operator that its device runs on them. Knows no actor, no schedule, no time.
//
// Who knocks: bodies of device work (one at a time), and the owner between them. Thread promise: none of its own; the
// device runs one body at a time, and the owner touches it only when none is in flight.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "gpu/arena.hpp"
#include "model/arithmetic.hpp"
#include "model/checkpoint/checkpoint.hpp"
#include "model/reduction.hpp"

namespace stagecraft {

/// A chunk as a run of units; empty when the layout gives it no layer and it is neither first nor last.
struct ChunkUnits {
  ChunkId id;
  Range units;
};

/// What survives an iteration, as handles. Moments: owned blocks.
struct HeldGroups {
  std::map<GroupId, Tensor> parameters, first_moments, second_moments;
};

/// What a stage actor is to host.
struct StageShare {
  Place place;
  std::uint32_t replicas = 1;
  std::uint32_t micro_batches = 1;  ///< M, over all replicas
  std::uint32_t shards = 1;         ///< V
  std::vector<ChunkUnits> chunks;   ///< in model order
};

/// Switches that break promise P1 on purpose, so that tests can prove they would notice.
struct NegativeControls {
  ReductionOrder reduction = ReductionOrder::tree;
  bool round_norm_per_stage = false;  ///< a rounded partial norm per stage instead of the exact sum
  bool free_weight_order = false;     ///< W of one chunk in any order
  bool one_tied_accumulator = false;  ///< embedding and head add to one buffer where they share a stage
};

/// The two ends of tied embeddings, as seen from one stage.
enum class TieRole : std::uint8_t {
  none,       ///< untied, or neither table is here
  both,       ///< both tables here: one set of parameters
  embedding,  ///< this stage has the first table, another one the head's copy
  head,
};

class StageModel {
 public:
  StageModel(std::shared_ptr<const Arithmetic> arithmetic, StageShare share, std::shared_ptr<Arena> arena,
             NegativeControls controls = {});

  /// Allocates and fills parameters and moments. Once, before the first iteration.
  void initialise();
  /// Takes parameters and moments from a checkpoint, after initialise(). Every group of the stage must be there with
  /// its size (load_checkpoint sees to that).
  void restore(const std::map<GroupId, GroupValues>& state);
  /// Copies parameters and moments of a model that holds these groups too; buffers are made where there are none.
  void take_over(const std::map<GroupId, Tensor>& parameters, const std::map<GroupId, Tensor>& first_moments,
                 const std::map<GroupId, Tensor>& second_moments);
  /// From now on this is its share: groups that are not in it are forgotten, with their gradients. Those that are new
  /// are taken by handle from `arriving`; what is not there must be brought by restore() or take_over().
  void reshape(std::shared_ptr<const Arithmetic> arithmetic, std::vector<ChunkUnits> chunks, HeldGroups arriving = {});
  /// Every group of the share is there.
  bool complete() const;
  /// Handles of everything, or of some groups; and everything in new buffers.
  HeldGroups held() const { return {parameters_, first_moments_, second_moments_}; }
  HeldGroups held(const std::vector<GroupId>& groups) const;
  HeldGroups copy();
  /// Depends on every bit of these groups that this replica owns: parameters and moments.
  std::uint64_t digest(const std::vector<GroupId>& groups) const;
  /// Moves parameters and moments to buffers of its own: who holds the old handles keeps what they show now.
  void separate();
  /// Forgets what the last iteration left: activations, gradients, losses.
  void begin(Iteration iteration);

  // -- the operators of an iteration
  /// `input` is empty in chunk 0; the result is empty in the last chunk. `batch` must have inputs in chunk 0 and
  /// targets in the last chunk.
  Tensor forward(ChunkId chunk, Tensor input, std::shared_ptr<const TokenBatch> batch);
  /// `gradient` is empty in the last chunk; the result is empty in chunk 0.
  Tensor backward_input(ChunkId chunk, MicroBatch micro_batch, Tensor gradient);
  /// Micro-batches of one chunk in increasing order. The last one of a logical shard also merges finished shards.
  void backward_weight(ChunkId chunk, MicroBatch micro_batch);

  // -- the end of an iteration
  /// The parameter groups of a chunk, and of the whole stage.
  std::vector<GroupId> groups_of(ChunkId chunk) const;
  std::vector<GroupId> groups() const;
  /// This replica's finished subtrees of a group; leaves none behind.
  std::vector<Segment> take_segments(GroupId group);
  /// Evaluates the tree on the owned blocks of a group; the sum of squares is zero where a tie is still to come.
  ExactSum reduce(GroupId group, const std::vector<Segment>& segments);
  /// The reduced gradient of a group: its owned blocks, packed. Of a tied table before tie(): this end's part.
  const Tensor& prepared(GroupId group) const { return prepared_.at(group); }
  /// Takes a reduced gradient from elsewhere, to step by it.
  void prepare(GroupId group, Tensor gradient) { prepared_[group] = std::move(gradient); }
  /// The tied table that this stage steps.
  GroupId tied_group() const;
  /// Adds the two tied gradients (embedding + head, in that order); counted in the norm at the embedding's end.
  /// `partner` is the other end's part, or empty when both ends are here.
  ExactSum tie(const Tensor& partner);
  /// One step of every owned block. Needs a reduced gradient of every group.
  void step(const StepFactors& factors);
  /// Forgets the reduced gradients (after a step, or instead of one).
  void drop_prepared() { prepared_.clear(); }

  // -- parameters between replicas
  /// A copy of the owned blocks of a group's parameters.
  Tensor owned_parameters(GroupId group) const;
  /// Puts the blocks that `owner` owns into this replica's parameters.
  void adopt_parameters(GroupId group, ReplicaId owner, const Tensor& part);

  // -- what it knows
  TieRole tie_role() const { return tie_role_; }
  const LossSum& loss() const { return loss_; }
  const Tensor& parameters(GroupId group) const { return parameters_.at(alias(group)); }
  const Tensor& first_moment(GroupId group) const { return first_moments_.at(group); }
  const Tensor& second_moment(GroupId group) const { return second_moments_.at(group); }
  /// True for the head table that shares the embedding's parameters.
  bool is_alias(GroupId group) const { return alias(group) != group; }
  const StageShare& share() const { return share_; }
  const Arithmetic& arithmetic() const { return *arithmetic_; }
  Arena& arena() { return *arena_; }

 private:
  struct Activation {
    std::vector<Saved> units;
    std::shared_ptr<const TokenBatch> batch;
  };
  // How far the shards of one chunk are.
  struct ShardProgress {
    std::uint32_t next = 0;                        // the shard that is pushed next
    std::map<std::uint32_t, std::uint32_t> added;  // shard -> micro-batches that are in
  };
  using Slot = std::pair<ChunkId, MicroBatch>;

  const ChunkUnits& chunk(ChunkId id) const;
  GroupId alias(GroupId group) const;
  GroupId accumulator(GroupId group) const;
  std::vector<Tensor> weights(UnitId unit) const;
  BatchView view(const TokenBatch& batch) const;
  Tensor make(GroupId group, std::size_t elements);
  Tensor copy_of(GroupId group, const Tensor& tensor);
  void accumulate(UnitId unit, std::uint32_t shard, Saved& saved, const BatchView& batch);
  void close_shards(ChunkId chunk, std::uint32_t shard);
  ExactSum square_sum(GroupId group, const Tensor& owned) const;

  std::shared_ptr<const Arithmetic> arithmetic_;
  StageShare share_;
  std::shared_ptr<Arena> arena_;
  NegativeControls controls_;
  TieRole tie_role_ = TieRole::none;
  Iteration iteration_;
  std::map<GroupId, Tensor> parameters_;                      // full
  std::map<GroupId, Tensor> first_moments_, second_moments_;  // owned blocks, packed
  std::map<std::pair<GroupId, std::uint32_t>, Tensor> open_;  // by shard: what is being accumulated (one at a time)
  std::map<ChunkId, ShardProgress> progress_;
  std::map<GroupId, SegmentStack> finished_;
  std::map<GroupId, Tensor> prepared_;  // reduced gradient, owned blocks, packed
  std::map<Slot, Activation> activations_;
  LossSum loss_;
};

}  // namespace stagecraft
