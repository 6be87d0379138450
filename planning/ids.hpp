// Strong types for the numbers that name things. Values only; any thread.
#pragma once

#include <compare>
#include <cstdint>

namespace stagecraft {

/// A number that names one thing of one kind. Two kinds never mix by accident.
template <class Tag>
struct Id {
  std::uint32_t value = 0;
  constexpr auto operator<=>(const Id&) const = default;
};

using StageId = Id<struct StageTag>;          ///< one scheduler: a device x job x replica column of the pipeline
using ChunkId = Id<struct ChunkTag>;          ///< a run of layers, numbered along the model
using ReplicaId = Id<struct ReplicaTag>;      ///< a copy of the whole pipeline
using MicroBatch = Id<struct MicroBatchTag>;  ///< 0 .. M-1 within an iteration, over all replicas
using LayerId = Id<struct LayerTag>;          ///< a transformer block, 0 .. layers-1
using UnitId = Id<struct UnitTag>;            ///< embedding (0), blocks (1 .. L), head (L+1): what F, B and W act on
using GroupId = Id<struct GroupTag>;          ///< parameters that are reduced and stepped together
using Iteration = Id<struct IterationTag>;    ///< counted from 1
using Epoch = Id<struct EpochTag>;            ///< number of the plan and attempt in force; only grows

/// What a data message must match. Ordered: the newest key wins; older ones are dropped, newer ones held.
struct Key {
  Epoch epoch;
  Iteration iteration;
  constexpr auto operator<=>(const Key&) const = default;
};

/// The place of one stage actor: its stage and its replica.
struct Place {
  StageId stage;
  ReplicaId replica;
  constexpr auto operator<=>(const Place&) const = default;
};

enum class Direction : std::uint8_t { forward, backward };

}  // namespace stagecraft
