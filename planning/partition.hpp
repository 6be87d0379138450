// How the layers of a model are shared out over the chunks of a pipeline. Pure functions; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "planning/shape.hpp"
#include "planning/units.hpp"

namespace stagecraft {

/// Layers per chunk in model order, as even as possible; the remainder goes to the first chunks: 30 layers over 4
/// chunks give [8, 8, 7, 7]. With more chunks than layers the last ones get none. The sum is always `layers`. chunks >
/// 0.
std::vector<std::uint32_t> even_layout(std::uint32_t layers, std::uint32_t chunks);

struct LayoutProblem {
  enum class Kind : std::uint8_t {
    length,  ///< not one entry per chunk
    sum,     ///< the entries do not add up to the layers of the model
  } kind{};
  std::uint64_t expected = 0, got = 0;  ///< entries, or layers
};

/// What is wrong with a given layout; empty when it has one entry per chunk and adds up.
std::optional<LayoutProblem> check_layout(std::span<const std::uint32_t> layout, std::uint32_t layers,
                                          std::uint32_t chunks);

/// What is shared out. Text letters: E, t, m, L.
enum class UnitKind : std::uint8_t {
  embedding,
  layer,       ///< a transformer block
  prediction,  ///< a multi-token-prediction block
  head,        ///< with the loss
};

/// One indivisible piece of the model.
struct PartitionUnit {
  UnitKind kind = UnitKind::layer;
  Duration time{};   ///< F + B + W of one micro-batch
  Bytes activation;  ///< of one micro-batch in flight
  Bytes state;       ///< parameters, gradients, optimizer state
};

struct PartitionProblem {
  PipelineShape shape;
  std::vector<PartitionUnit> units;      ///< in model order
  std::vector<std::uint32_t> in_flight;  ///< per chunk: micro-batches held at once at the peak; empty: one
  std::vector<Bytes> memory;             ///< per stage; empty: no limit
};

/// Consecutive runs of units, one per chunk. Every chunk takes as many slots as the longest one; what a shorter one
/// lacks are No-Ops, which hand their tensor on: no kernel, no parameter, no random number, no checkpoint entry.
struct Partition {
  std::vector<std::uint32_t> units, layers, no_ops;  ///< per chunk; `layers` counts transformer blocks alone
  std::vector<Duration> chunk_time, stage_time;
  std::vector<Bytes> stage_memory;
  bool proven = true;  ///< no other partition is better; false where the search over stage sums had to be cut short

  /// Slots of the No-Ops, counted along the model over all chunks: those at the end of each chunk.
  std::vector<std::uint32_t> no_op_slots() const;
};

/// Why there is no partition.
struct PartitionShortage {
  enum class Kind : std::uint8_t {
    units,   ///< fewer units than chunks: every chunk needs one
    memory,  ///< no partition fits
  } kind{};
  std::uint64_t available = 0, needed = 0;  ///< units, or bytes of `stage`
  StageId stage;  ///< the one that lacks most where the lack is as small as it can be; `needed` would do there
};

/// "E t t n | t t t t | t t m L": chunks in model order, n for a No-Op.
std::string to_text(const Partition& partition, const PartitionProblem& problem);
/// What there is, what would do, and what to try.
std::string to_text(const PartitionShortage& shortage);

/// The best partition within memory: least time of the slowest chunk; then (several chunks per stage) of the slowest
/// stage; then least sum of the squared chunk times; then least peak memory; and where nothing else differs the
/// shortest early chunks, as early stages hold the most micro-batches. One chunk per stage: dynamic programming, always
/// exact. Several: the same over sets of states none of which is better in every respect, exact until a set outgrows
/// its limit (see `proven`). Every chunk gets at least one unit. Times must not be negative.
std::variant<Partition, PartitionShortage> make_partition(const PartitionProblem& problem);

}  // namespace stagecraft
