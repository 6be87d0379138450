// The gradient as the value of one fixed binary tree over logical shards, whatever replicas and stages there are.
//
// Shard j of V owns micro-batches floor(jM/V) .. floor((j+1)M/V)-1, accumulated in order into one buffer. Across shards
// the gradient is T(0,V), T(a,b) = T(a,(a+b)/2) + T((a+b)/2,b). Replica r of R owns shards floor(rV/R) .. ; it merges
// equal aligned neighbours as they finish (a binary counter), so that at most log2(V/R)+1 buffers are alive, and sends
// what is left: maximal aligned subtrees. A shard without micro-batches is absent, and so is a tree of absent shards.
// Pure; any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "gpu/arena.hpp"
#include "model/arithmetic.hpp"

namespace stagecraft {

/// A half-open range of numbers.
struct Range {
  std::uint32_t begin = 0, end = 0;
  std::uint32_t size() const { return end - begin; }
  bool contains(std::uint32_t x) const { return begin <= x && x < end; }
  bool operator==(const Range&) const = default;
};

Range shards_of(ReplicaId replica, std::uint32_t replicas, std::uint32_t shards);
Range micro_batches_of_shard(std::uint32_t shard, std::uint32_t shards, std::uint32_t micro_batches);
/// The micro-batches of all shards of a replica.
Range micro_batches_of(ReplicaId replica, std::uint32_t replicas, std::uint32_t shards, std::uint32_t micro_batches);
std::uint32_t shard_of(MicroBatch micro_batch, std::uint32_t shards, std::uint32_t micro_batches);

/// Are two neighbouring subtrees the halves of one (aligned power-of-two ranges)?
bool can_merge(const Range& left, const Range& right);

/// The value of one subtree.
struct Segment {
  Range shards;
  Tensor value;
};

/// How subtrees are joined. `left_fold` is the negative control: replicas fold their shards from the left, then fold
/// the replicas' sums, so the bits depend on the number of replicas.
enum class ReductionOrder : std::uint8_t { tree, left_fold };

/// The finished shards of one parameter group on one replica.
class SegmentStack {
 public:
  explicit SegmentStack(ReductionOrder order = ReductionOrder::tree) : order_(order) {}
  /// Shards in increasing order without gaps; an empty `value` is an absent shard.
  void push(const Arithmetic& arithmetic, std::uint32_t shard, Tensor value);
  /// What is left, in order; the stack is empty afterwards.
  std::vector<Segment> take() { return std::move(segments_); }

 private:
  ReductionOrder order_;
  std::vector<Segment> segments_;
};

/// Writes elements [first, first + out.size()) of T(0, shards) to `out`. `segments` are all replicas' segments, in
/// order and without gaps. Returns false, and writes nothing, when every shard is absent. Allocates scratch of the size
/// of `out` per level of the tree from `arena`.
bool evaluate_tree(const Arithmetic& arithmetic, std::span<const Segment> segments, std::uint32_t shards,
                   std::size_t first, std::span<float> out, Arena& arena, ReductionOrder order);

/// Calls visit(first, count) for every block of a group that a replica owns: block b of group g belongs to replica
/// (g + b) mod R; a tied head table is owned like the embedding table.
void each_owned_block(const Arithmetic& arithmetic, GroupId group, ReplicaId replica, std::uint32_t replicas,
                      const std::function<void(std::size_t first, std::size_t count)>& visit);
std::size_t owned_elements(const Arithmetic& arithmetic, GroupId group, ReplicaId replica, std::uint32_t replicas);

}  // namespace stagecraft
