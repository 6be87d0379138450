// How fast a job would run on other devices: a closed-form model, a path from profiled operators, and the filters that
// decide which rows of a scale table can be trusted. Pure; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "planning/problem.hpp"
#include "planning/schedule.hpp"

namespace stagecraft {

/// One way to run a model: p stages of v chunks, d replicas.
struct ScaleConfig {
  std::uint32_t stages = 1, chunks = 1, replicas = 1;
  std::uint32_t layers = 1;
  std::uint32_t extra_units = 0;   ///< embedding, head, prediction blocks, in layer equivalents
  std::uint64_t global_batch = 1;  ///< samples per iteration
  std::uint64_t micro_batch = 1;   ///< samples per micro-batch
  Duration layer_time{};           ///< F + B (+ W) of one layer for one micro-batch
};

/// The closed form: communication is taken as hidden and layers as equal, so it is a lower bound on time. Exact for
/// interleaved 1f1b with at least as many micro-batches as stages.
struct ModelPrediction {
  std::uint64_t micro_batches = 0;    ///< m = B / (b d), of the fullest replica
  std::uint32_t units_per_chunk = 0;  ///< K = ceil((L + extra) / (p v))
  std::uint32_t no_ops = 0;           ///< p v K - (L + extra)
  Duration ideal{};                   ///< m v K t
  Duration bubble{};                  ///< (p - 1) K t
  Duration time() const { return ideal + bubble; }
};
ModelPrediction predict(const ScaleConfig& config);

/// Bounds on one 1f1b iteration of unequal stages (c = F + B + W of each, free links): from below, the longest
/// max_s(sum of c above s + m c_s); from above, sum of c + (m - 1) max c.
struct UnequalBounds {
  Duration lower{}, upper{};
};
UnequalBounds unequal_bounds(std::span<const Duration> stage_times, std::uint32_t micro_batches);

/// Times of chunks from medians of their units: consecutive units, `units_per_chunk` of them. The sums must agree.
std::vector<OperatorTimes> chunk_times(std::span<const OperatorTimes> unit_times,
                                       std::span<const std::uint32_t> units_per_chunk);

/// What follows the last operator of a stage.
struct StageTail {
  Bytes gradients;  ///< to be reduced over the replicas
  std::uint64_t parameters = 0;
  Duration overlap{};  ///< of the reduction with the pipeline
};

struct TailModel {
  std::uint32_t replicas = 1;
  Bandwidth bandwidth;  ///< of the reduction; > 0 where there are several replicas
  double step_ns_per_parameter = 0;
  bool sharded_optimizer = false;  ///< each replica steps its share
  Duration scalars{};              ///< gathers of loss and norm, once
};

/// What of the ring reduction (2 (d - 1) / d of the bytes) the pipeline does not hide.
Duration reduction_time(const StageTail& tail, const TailModel& model);
Duration step_time(const StageTail& tail, const TailModel& model);

/// The profile path: the order played on the re-mapped operators, then the tails.
struct ProfilePrediction {
  Duration pipeline{};              ///< first start to last end
  Duration time{};                  ///< with reduction, step and scalars of the slowest stage
  std::vector<Duration> stage_end;  ///< last operator of each stage
  Duration work{};                  ///< sum of all operator times
};
/// Empty where the order can't proceed. `tails`: one per stage, or none.
std::optional<ProfilePrediction> predict(const PipelineProblem& problem, const Schedule& schedule,
                                         std::span<const StageTail> tails = {}, const TailModel& model = {});

/// Bytes of a stage: state, live activations at the peak, the largest transient, and what the device's context takes.
struct StageFootprint {
  Bytes state, live, transient, context;
  Bytes sum() const { return state + live + transient + context; }
};

/// Why a row of a scale table is not offered.
enum class RowVerdict : std::uint8_t {
  ok,
  memory,      ///< a stage above the allowed share of its memory
  deviation,   ///< model and profile disagree on the speedup over the base row
  work_bound,  ///< faster than its own operators on all devices
  not_best,    ///< another row with as many devices is faster
  trend,       ///< model and profile disagree whether it is faster than the next smaller row
  dominated,   ///< no faster than a row with fewer devices
  marginal,    ///< too little gain for its devices
};
std::string_view name_of(RowVerdict verdict);

struct ScaleRow {
  std::uint32_t devices = 1;
  std::uint32_t stages = 1, chunks = 1, replicas = 1;
  Duration model{}, profile{};       ///< one iteration, by either path
  std::optional<Duration> measured;  ///< of a real run: in place of the profile, and past doubt (no R3, no R4)
  Duration work{};                   ///< of all operators of all replicas
  std::vector<Bytes> memory;         ///< per stage
  Bytes capacity;                    ///< of one device; zero: memory is not looked at
  // Filled in by `filter`:
  RowVerdict verdict = RowVerdict::ok;
  std::string reason;  ///< the verdict in words and numbers; empty when ok
  double speedup = 0;  ///< over the base row
  Duration time() const { return measured.value_or(profile); }
};

struct FilterRules {
  double memory_share = 0.92;    ///< R1
  double deviation = 0.15;       ///< R3, of |ln(S_profile / S_model)|
  double work_share = 0.97;      ///< R4
  double marginal_share = 0.25;  ///< R5, of the relative gain in devices
};

/// All rows with their verdicts, by devices, then by time. Every row runs the same global batch; rows[base] is the
/// configuration that speedups refer to. Rules in this order, the first that fails gives the reason: R1 memory, R3, R4;
/// then among those left R6 (the best per number of devices), R2 (trend), R6 (dominated), R5 (marginal), each against
/// the row kept before it.
std::vector<ScaleRow> filter(std::vector<ScaleRow> rows, std::size_t base, const FilterRules& rules = {});

/// A line per row: devices, p x v x d, both times, speedup, verdict with its reason.
std::string to_text(std::span<const ScaleRow> rows);

}  // namespace stagecraft
