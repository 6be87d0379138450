// What a transformer costs: time of a layer's operators by tokens and sequence lengths, bytes of its state and
// activations, and how many micro-batches a schedule holds at once. Values only; any thread.
//
// Formulas per layer (zero-bubble paper; the usual block with a feed-forward of 4h): with T tokens, squared lengths Q
// (their sum over the sequences) and hidden size h, F takes 24 T h^2 + 4 h Q floating-point operations, B 24 T h^2 + 8
// h Q, W 24 T h^2. For b sequences of length s, T = sb and Q = s^2 b.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "planning/cost.hpp"
#include "planning/ids.hpp"
#include "planning/schedule.hpp"
#include "planning/shape.hpp"

namespace stagecraft {

/// What a micro-batch holds.
struct Workload {
  std::uint64_t tokens = 0;
  std::uint64_t squared_lengths = 0;  ///< summed over its sequences: attention stays within each
  static Workload of(std::span<const std::uint32_t> lengths);
};

/// Time of one operator of one layer: fixed + per_token * tokens + per_square * squared lengths, in nanoseconds.
struct TimeModel {
  double fixed = 0, per_token = 0, per_square = 0;
  Duration of(const Workload& work) const;
};

struct TimeSample {
  Workload work;
  Duration time{};
};

/// Least squares over relative errors. Empty with fewer than three samples, with a sample that took no time, or where
/// the samples do not tell the three terms apart (all of one length, for example).
std::optional<TimeModel> fit(std::span<const TimeSample> samples);

/// Experts in place of the feed-forward part of a layer.
struct Experts {
  std::uint32_t count = 1;
  std::uint32_t top_k = 1;  ///< experts per token
  double imbalance = 1;     ///< load of the fullest expert / the mean; at least 1
  std::optional<double>
      capacity_factor;  ///< tokens beyond this multiple of the mean are dropped, so it bounds the load
  /// How much longer the feed-forward takes than for one expert per token and even loads.
  double load() const;
};

struct LayerShape {
  std::uint64_t hidden = 0;
  std::uint32_t heads = 1;
  std::optional<Experts> experts;
};

/// Floating-point operations of one layer.
struct LayerFlops {
  double forward = 0, backward_input = 0, backward_weight = 0;
};
LayerFlops layer_flops(const LayerShape& layer, const Workload& work);

/// A tensor-parallel group, as one device: compute divided by its members, plus two all-reduces of the layer's tensor
/// per forward and two per backward.
struct DeviceGroup {
  double flops_per_second = 0;  ///< of one member, as reached in practice; > 0
  std::uint32_t members = 1;
  Bandwidth bandwidth;  ///< of one member's link within the group; zero: collectives cost `latency` alone
  Duration latency{};   ///< of one collective
  std::uint32_t bytes_per_element = 2;
};

/// Time of one all-reduce of a layer's tensor (ring: 2 (t - 1) / t of its bytes); nothing in a group of one.
Duration collective_time(const LayerShape& layer, const Workload& work, const DeviceGroup& group);
/// Times of one layer's operators, from operation counts.
OperatorTimes layer_times(const LayerShape& layer, const Workload& work, const DeviceGroup& group);

/// Parameters of one layer: 12 h^2 + 13 h, and with experts count times the feed-forward part, and the router.
std::uint64_t layer_parameters(const LayerShape& layer);

/// How numbers are kept in training with Adam.
enum class Precision : std::uint8_t {
  fp32,   ///< 16 bytes per parameter: weight, gradient, two moments
  mixed,  ///< bf16 weights, fp32 gradient, fp32 master and moments: 18 bytes
};

struct StateBytes {
  Bytes parameters, gradients, optimizer;
  Bytes sum() const { return parameters + gradients + optimizer; }
};
/// State of `parameters` weights on one of `shards` replicas that share out the optimizer (1: none does): fp32 8 + 8 /
/// d, mixed 6 + 12 / d bytes per parameter, rounded up.
StateBytes state_bytes(std::uint64_t parameters, Precision precision, std::uint32_t shards = 1);

/// Activations of one layer for one micro-batch in 16-bit numbers, attention scores kept (zero-bubble paper): kept from
/// F to B, 34 T h + 5 a Q with a heads; kept from B to W, 32 T h. Divided by the members of the group.
Bytes activation_bytes(const LayerShape& layer, const Workload& work, std::uint32_t members = 1);
Bytes weight_activation_bytes(const LayerShape& layer, const Workload& work, std::uint32_t members = 1);

/// Peak counts of one stage, in micro-batches x chunks.
struct InFlight {
  std::uint32_t activations = 0;  ///< F - B
  std::uint32_t held = 0;         ///< F - W
  bool operator==(const InFlight&) const = default;
};

/// What a schedule holds on each stage at its peak, by its recipe (for zb-auto with one pipeline's worth of memory;
/// for zb-v with fewer than 2p - 1 micro-batches, v-half and v-min an upper bound on every stage). Empty for schedules
/// whose warm-ups are planned (pipemorph).
std::optional<std::vector<InFlight>> in_flight(ScheduleKind kind, const PipelineShape& shape);

/// The same spread over the chunks of each stage, for `PartitionProblem::in_flight`: the stage's peak of F - W, shared
/// as evenly as possible, early chunks first. Never fewer than one.
std::optional<std::vector<std::uint32_t>> in_flight_per_chunk(ScheduleKind kind, const PipelineShape& shape);

}  // namespace stagecraft
