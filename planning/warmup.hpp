// Warm-up planning: how many forwards each stage runs before its first backward, so that the pipeline keeps a period in
// spite of latency with the least memory. Pure; any thread.
//
// The period is that of the cycle bound (planning/delay.hpp). A period P asks of every interval of stages i < j that
// x_i - x_j + 1 >= ceil(cycle time / P), unless x_i = N (all forwards first: nothing comes round). Such a system has
// one smallest solution, stage by stage, so it also has the smallest sum of bytes, whatever a micro-batch weighs where.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "planning/delay.hpp"
#include "planning/problem.hpp"

namespace stagecraft {

/// What a stage has, and what a micro-batch takes of it.
struct StageMemory {
  StageCaps caps;               ///< counts on the device; `activations` counts those on the host not
  Bytes activation;             ///< of one micro-batch, kept from F to B
  Bytes weight_activation;      ///< of one micro-batch, kept from B to W
  Bytes fixed;                  ///< parameters, gradients, optimizer state
  std::optional<Bytes> device;  ///< none: no limit
  Bytes host;                   ///< second tier, for activations that wait for their backward; zero: none
};

struct WarmupRequest {
  AlternatingPipeline pipeline;     ///< its `warmup` is not looked at
  std::vector<StageMemory> memory;  ///< per stage; empty: no limits and no bytes
  Duration target{};                ///< the period to meet; at least the slowest stage's work
};

/// What one stage holds under a plan.
struct StageHolding {
  std::uint32_t warmup = 0;           ///< peak of F - B
  std::uint32_t pending_weights = 0;  ///< peak of B - W
  std::uint32_t held = 0;             ///< peak of F - W
  std::uint32_t on_host = 0;          ///< micro-batches whose activations go to the host: warmup - on_host stay
  Bytes device, host;                 ///< peak bytes
};

struct WarmupPlan {
  std::vector<StageHolding> stages;
  StageCycle binding;  ///< the period that it reaches
  std::vector<std::uint32_t> warmup() const;
  Bytes device_bytes() const;  ///< summed over the stages
  Bytes host_bytes() const;
};

/// What a stage lacks: the smallest amount of one resource with which the target would be met.
struct StageShortage {
  enum class Resource : std::uint8_t {
    period,           ///< nanoseconds: the stage's work alone takes `needed`
    activations,      ///< F - B
    pending_weights,  ///< B - W
    held,             ///< F - W
    device_bytes,
  } resource{};
  StageId stage;
  std::uint64_t available = 0, needed = 0;
};

struct WarmupShortage {
  std::vector<StageShortage> stages;  ///< every stage that lacks something, in order; at least one
};

/// "stage 0 may hold 4 activations; the period needs 7", one line per stage, with what to try.
std::string to_text(const WarmupShortage& shortage);

using WarmupOutcome = std::variant<WarmupPlan, WarmupShortage>;

/// The smallest warm-ups that meet the target within memory, valid for any number of stages and micro-batches:
/// 1 = x_last <= ... <= x_0 <= N. Activations beyond the device's share go to the host, as few as possible, at least
/// one stays. O(stages^2 + stages * N).
WarmupOutcome plan_warmup(const WarmupRequest& request);

/// The same for the shortest period that the memory allows, to the nanosecond; `target` is not looked at. A shortage
/// only where not even one micro-batch at a time fits.
WarmupOutcome fastest_warmup(const WarmupRequest& request);

/// The smallest warm-ups for a period of at least the slowest stage's work, without regard to memory.
std::vector<std::uint32_t> smallest_warmup(const AlternatingPipeline& pipeline, Duration period);

/// Device bytes of a stage at its peak: `warmup` forwards, then strict alternation, at most `on_device` of the
/// activations held on the device.
Bytes peak_bytes(const StageMemory& memory, WeightWork weights, std::uint32_t micro_batches, std::uint32_t warmup,
                 std::uint32_t on_device);

}  // namespace stagecraft
