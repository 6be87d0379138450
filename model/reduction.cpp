#include "model/reduction.hpp"

#include <algorithm>
#include <cstring>

#include "planning/bug.hpp"

namespace stagecraft {

namespace {

std::uint32_t split(std::uint32_t i, std::uint32_t total, std::uint32_t parts) {
  return static_cast<std::uint32_t>(static_cast<std::uint64_t>(i) * total / parts);
}

void merge_into(const Arithmetic& arithmetic, Segment& left, Segment&& right) {
  left.shards.end = right.shards.end;
  if (left.value.empty()) {
    left.value = std::move(right.value);
  } else if (!right.value.empty()) {
    arithmetic.add(left.value.span(), right.value.span(), left.value.span());
  }
}

struct Evaluation {
  const Arithmetic& arithmetic;
  std::span<const Segment> segments;
  std::size_t first;
  Arena& arena;

  // Writes T(range) to out; false when absent.
  bool operator()(Range range, std::span<float> out) const {
    for (const Segment& s : segments) {
      if (s.shards != range) continue;
      if (s.value.empty()) return false;
      std::memcpy(out.data(), s.value.data() + first, out.size_bytes());
      return true;
    }
    STAGECRAFT_ASSERT(range.size() > 1, "no segment holds shard {}", range.begin);
    const std::uint32_t middle = range.begin + range.size() / 2;
    Tensor scratch(arena, out.size());
    const bool left = (*this)({range.begin, middle}, out);
    const bool right = (*this)({middle, range.end}, scratch.span());
    if (left && right) arithmetic.add(out, scratch.span(), out);
    if (!left && right) std::memcpy(out.data(), scratch.data(), out.size_bytes());
    return left || right;
  }
};

}  // namespace

bool can_merge(const Range& left, const Range& right) {
  return left.end == right.begin && left.size() == right.size() && left.begin % (2 * left.size()) == 0;
}

Range shards_of(ReplicaId replica, std::uint32_t replicas, std::uint32_t shards) {
  return {split(replica.value, shards, replicas), split(replica.value + 1, shards, replicas)};
}

Range micro_batches_of_shard(std::uint32_t shard, std::uint32_t shards, std::uint32_t micro_batches) {
  return {split(shard, micro_batches, shards), split(shard + 1, micro_batches, shards)};
}

Range micro_batches_of(ReplicaId replica, std::uint32_t replicas, std::uint32_t shards, std::uint32_t micro_batches) {
  const Range own = shards_of(replica, replicas, shards);
  return {split(own.begin, micro_batches, shards), split(own.end, micro_batches, shards)};
}

std::uint32_t shard_of(MicroBatch micro_batch, std::uint32_t shards, std::uint32_t micro_batches) {
  std::uint32_t shard = split(micro_batch.value, shards, micro_batches);
  while (!micro_batches_of_shard(shard, shards, micro_batches).contains(micro_batch.value)) ++shard;
  return shard;
}

void SegmentStack::push(const Arithmetic& arithmetic, std::uint32_t shard, Tensor value) {
  STAGECRAFT_ASSERT(segments_.empty() || segments_.back().shards.end == shard, "shard {} finished out of order", shard);
  segments_.push_back({{shard, shard + 1}, std::move(value)});
  while (segments_.size() > 1) {
    Segment& left = segments_[segments_.size() - 2];
    if (order_ == ReductionOrder::tree && !can_merge(left.shards, segments_.back().shards)) break;
    merge_into(arithmetic, left, std::move(segments_.back()));
    segments_.pop_back();
  }
}

bool evaluate_tree(const Arithmetic& arithmetic, std::span<const Segment> segments, std::uint32_t shards,
                   std::size_t first, std::span<float> out, Arena& arena, ReductionOrder order) {
  if (order == ReductionOrder::tree) return Evaluation{arithmetic, segments, first, arena}({0, shards}, out);
  bool any = false;
  for (const Segment& s : segments) {
    if (s.value.empty()) continue;
    const std::span<const float> part(s.value.data() + first, out.size());
    if (any) {
      arithmetic.add(out, part, out);
    } else {
      std::copy(part.begin(), part.end(), out.begin());
    }
    any = true;
  }
  return any;
}

void each_owned_block(const Arithmetic& arithmetic, GroupId group, ReplicaId replica, std::uint32_t replicas,
                      const std::function<void(std::size_t first, std::size_t count)>& visit) {
  const std::size_t size = arithmetic.elements(group), block = arithmetic.block_elements();
  const bool tied_head = arithmetic.tied() && group == arithmetic.head_group();  // owned as its other end is
  const std::uint32_t offset = tied_head ? arithmetic.embedding_group().value : group.value;
  for (std::size_t first = 0, b = 0; first < size; first += block, ++b)
    if ((offset + b) % replicas == replica.value) visit(first, std::min(block, size - first));
}

std::size_t owned_elements(const Arithmetic& arithmetic, GroupId group, ReplicaId replica, std::uint32_t replicas) {
  std::size_t total = 0;
  each_owned_block(arithmetic, group, replica, replicas, [&](std::size_t, std::size_t count) { total += count; });
  return total;
}

}  // namespace stagecraft
