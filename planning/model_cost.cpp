#include "planning/model_cost.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "planning/bug.hpp"

namespace stagecraft {

Workload Workload::of(std::span<const std::uint32_t> lengths) {
  Workload work;
  for (const std::uint64_t length : lengths) {
    work.tokens += length;
    work.squared_lengths += length * length;
  }
  return work;
}

namespace {

// Nearest nanosecond, never negative and never beyond a century.
Duration nanoseconds(double ns) { return Duration{std::llround(std::clamp(ns, 0.0, 3.2e18))}; }

using Row = std::array<double, 4>;  // three coefficients and the right side

// Gaussian elimination with row pivots; empty where the system is singular to working precision.
std::optional<std::array<double, 3>> solve(std::array<Row, 3> rows) {
  for (std::size_t i = 0; i < 3; ++i) {
    const auto pivot = std::max_element(rows.begin() + static_cast<std::ptrdiff_t>(i), rows.end(),
                                        [&](const Row& a, const Row& b) { return std::abs(a[i]) < std::abs(b[i]); });
    std::swap(rows[i], *pivot);
    if (std::abs(rows[i][i]) < 1e-9) return std::nullopt;
    for (std::size_t k = i + 1; k < 3; ++k) {
      const double factor = rows[k][i] / rows[i][i];
      for (std::size_t j = i; j < 4; ++j) rows[k][j] -= factor * rows[i][j];
    }
  }
  std::array<double, 3> x{};
  for (std::size_t i = 3; i-- > 0;) {
    double rest = rows[i][3];
    for (std::size_t j = i + 1; j < 3; ++j) rest -= rows[i][j] * x[j];
    x[i] = rest / rows[i][i];
  }
  return x;
}

std::array<double, 3> terms(const Workload& work) {
  return {1.0, static_cast<double>(work.tokens), static_cast<double>(work.squared_lengths)};
}

}  // namespace

Duration TimeModel::of(const Workload& work) const {
  const auto [one, tokens, squares] = terms(work);
  return nanoseconds(fixed * one + per_token * tokens + per_square * squares);
}

// Each sample counts by its relative error, and each term is scaled to a column of length 1: then a small pivot means
// that the terms can't be told apart, whatever the units.
std::optional<TimeModel> fit(std::span<const TimeSample> samples) {
  if (samples.size() < 3) return std::nullopt;
  std::array<double, 3> scale{};
  for (const TimeSample& sample : samples) {
    if (sample.time <= Duration{}) return std::nullopt;
    for (std::size_t i = 0; i < 3; ++i)
      scale[i] += std::pow(terms(sample.work)[i] / static_cast<double>(sample.time.count()), 2);
  }
  for (double& s : scale) {
    if (s <= 0) return std::nullopt;
    s = std::sqrt(s);
  }
  std::array<Row, 3> normal{};
  for (const TimeSample& sample : samples) {
    std::array<double, 3> row = terms(sample.work);
    for (std::size_t i = 0; i < 3; ++i) row[i] /= static_cast<double>(sample.time.count()) * scale[i];
    for (std::size_t i = 0; i < 3; ++i) {
      for (std::size_t j = 0; j < 3; ++j) normal[i][j] += row[i] * row[j];
      normal[i][3] += row[i];
    }
  }
  const auto solution = solve(normal);
  if (!solution) return std::nullopt;
  return TimeModel{(*solution)[0] / scale[0], (*solution)[1] / scale[1], (*solution)[2] / scale[2]};
}

double Experts::load() const {
  const double fullest = capacity_factor ? std::min(imbalance, *capacity_factor) : imbalance;
  return top_k * fullest;
}

LayerFlops layer_flops(const LayerShape& layer, const Workload& work) {
  const auto h = static_cast<double>(layer.hidden), tokens = static_cast<double>(work.tokens);
  const double attention = 8 * tokens * h * h, mixing = 4 * h * static_cast<double>(work.squared_lengths);
  double feed_forward = 16 * tokens * h * h;
  if (layer.experts) feed_forward = feed_forward * layer.experts->load() + 2 * tokens * h * layer.experts->count;
  const double weights = attention + feed_forward;
  return {weights + mixing, weights + 2 * mixing, weights};
}

Duration collective_time(const LayerShape& layer, const Workload& work, const DeviceGroup& group) {
  if (group.members <= 1) return {};
  if (group.bandwidth.bytes_per_second <= 0) return group.latency;
  const double bytes = static_cast<double>(work.tokens) * static_cast<double>(layer.hidden) * group.bytes_per_element;
  const double share = 2.0 * (group.members - 1) / group.members;
  return group.latency + nanoseconds(share * bytes / group.bandwidth.bytes_per_second * 1e9);
}

OperatorTimes layer_times(const LayerShape& layer, const Workload& work, const DeviceGroup& group) {
  STAGECRAFT_ASSERT(group.flops_per_second > 0 && group.members > 0, "a device of {} flop/s, a group of {}",
                    group.flops_per_second, group.members);
  const LayerFlops flops = layer_flops(layer, work);
  const Duration collectives = 2 * collective_time(layer, work, group);
  const auto compute = [&](double f) { return nanoseconds(f / (group.flops_per_second * group.members) * 1e9); };
  return {compute(flops.forward) + collectives, compute(flops.backward_input) + collectives,
          compute(flops.backward_weight)};
}

std::uint64_t layer_parameters(const LayerShape& layer) {
  const std::uint64_t h = layer.hidden;
  if (!layer.experts) return 12 * h * h + 13 * h;
  const std::uint64_t attention = 4 * h * h + 8 * h, feed_forward = 8 * h * h + 5 * h;  // with biases and norms
  return attention + layer.experts->count * (feed_forward + h);
}

StateBytes state_bytes(std::uint64_t parameters, Precision precision, std::uint32_t shards) {
  STAGECRAFT_ASSERT(shards > 0, "optimizer state in {} shards", shards);
  const bool mixed = precision == Precision::mixed;
  const std::uint64_t optimizer = parameters * (mixed ? 12 : 8);
  return {{parameters * (mixed ? 2 : 4)}, {parameters * 4}, {(optimizer + shards - 1) / shards}};
}

Bytes activation_bytes(const LayerShape& layer, const Workload& work, std::uint32_t members) {
  STAGECRAFT_ASSERT(members > 0, "activations on a group of {}", members);
  const std::uint64_t bytes = 34 * work.tokens * layer.hidden + 5 * layer.heads * work.squared_lengths;
  return {(bytes + members - 1) / members};
}

Bytes weight_activation_bytes(const LayerShape& layer, const Workload& work, std::uint32_t members) {
  STAGECRAFT_ASSERT(members > 0, "activations on a group of {}", members);
  return {(32 * work.tokens * layer.hidden + members - 1) / members};
}

namespace {

// One stage `s` of p, with m micro-batches on v chunks.
std::optional<InFlight> in_flight_of(ScheduleKind kind, std::uint32_t s, std::uint32_t p, std::uint32_t v,
                                     std::uint32_t m) {
  const auto both = [](std::uint32_t count) { return InFlight{count, count}; };
  switch (kind) {
    case ScheduleKind::gpipe:
    case ScheduleKind::bfs:
      return both(m * v);
    case ScheduleKind::one_f_one_b:
      return both(std::min(m, p - s));
    case ScheduleKind::interleaved: {
      // Groups of p or a little more, the larger ones first; the first decides how far ahead the forwards run.
      const std::uint32_t groups = std::max(1U, m / p), first = (m + groups - 1) / groups;
      const std::uint32_t warmup = std::min(m * v, 2 * (p - 1 - s) + (v - 1) * first);
      return both(std::min(m * v, warmup + 1));
    }
    case ScheduleKind::zb_h1:
      return InFlight{std::min(m, p - s), std::min(m, p)};
    case ScheduleKind::zb_h2:
      return InFlight{std::min(m, 2 * (p - 1 - s) + 1), std::min(m, 2 * p - 1)};
    case ScheduleKind::zb_auto:
      return both(std::min(m, p));
    case ScheduleKind::zb_v:
      return both(std::min(2 * m, 2 * p));
    case ScheduleKind::v_half:
      return both(std::min(2 * m, 2 * ((p + 2) / 2)));
    case ScheduleKind::v_min:
      return both(std::min(2 * m, 2 * ((p + 4) / 3)));
    case ScheduleKind::pipemorph:
    case ScheduleKind::planned:
      return std::nullopt;
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::vector<InFlight>> in_flight(ScheduleKind kind, const PipelineShape& shape) {
  std::vector<InFlight> stages;
  for (std::uint32_t s = 0; s < shape.stages; ++s) {
    const auto here = in_flight_of(kind, s, shape.stages, shape.chunks, shape.micro_batches);
    if (!here) return std::nullopt;
    stages.push_back(*here);
  }
  return stages;
}

std::optional<std::vector<std::uint32_t>> in_flight_per_chunk(ScheduleKind kind, const PipelineShape& shape) {
  const auto stages = in_flight(kind, shape);
  if (!stages) return std::nullopt;
  std::vector<std::uint32_t> counts(shape.total_chunks());
  for (std::uint32_t s = 0; s < shape.stages; ++s) {
    const std::uint32_t held = (*stages)[s].held;
    for (std::uint32_t local = 0; local < shape.chunks; ++local) {
      const std::uint32_t share = held / shape.chunks + (local < held % shape.chunks ? 1 : 0);
      counts[shape.chunk_of({s}, local).value] = std::max(1U, share);
    }
  }
  return counts;
}

}  // namespace stagecraft
