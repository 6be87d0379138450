#include "planning/predictor.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "planning/bug.hpp"
#include "planning/replay.hpp"

namespace stagecraft {

namespace {
std::uint64_t divide_up(std::uint64_t a, std::uint64_t b) { return (a + b - 1) / b; }
Duration nanoseconds(double ns) { return Duration{std::llround(ns)}; }
}  // namespace

ModelPrediction predict(const ScaleConfig& c) {
  STAGECRAFT_ASSERT(c.stages > 0 && c.chunks > 0 && c.replicas > 0 && c.micro_batch > 0 && c.layers > 0,
                    "{} stages x {} chunks x {} replicas, micro-batches of {}, {} layers", c.stages, c.chunks,
                    c.replicas, c.micro_batch, c.layers);
  const std::uint32_t units = c.layers + c.extra_units, chunks = c.stages * c.chunks;
  ModelPrediction result;
  result.micro_batches = divide_up(c.global_batch, c.micro_batch * c.replicas);
  result.units_per_chunk = static_cast<std::uint32_t>(divide_up(units, chunks));
  result.no_ops = chunks * result.units_per_chunk - units;
  const Duration chunk = result.units_per_chunk * c.layer_time;
  result.ideal = static_cast<std::int64_t>(result.micro_batches * c.chunks) * chunk;
  result.bubble = (c.stages - 1) * chunk;
  return result;
}

UnequalBounds unequal_bounds(std::span<const Duration> stage_times, std::uint32_t micro_batches) {
  STAGECRAFT_ASSERT(!stage_times.empty() && micro_batches > 0, "bounds for {} stages and {} micro-batches",
                    stage_times.size(), micro_batches);
  UnequalBounds bounds;
  Duration above{}, slowest{};
  for (const Duration time : stage_times) {
    bounds.lower = std::max(bounds.lower, above + micro_batches * time);
    above += time;
    slowest = std::max(slowest, time);
  }
  bounds.upper = above + (micro_batches - 1) * slowest;
  return bounds;
}

std::vector<OperatorTimes> chunk_times(std::span<const OperatorTimes> unit_times,
                                       std::span<const std::uint32_t> units_per_chunk) {
  const auto units = std::accumulate(units_per_chunk.begin(), units_per_chunk.end(), std::uint64_t{0});
  STAGECRAFT_ASSERT(units == unit_times.size(), "chunks of {} units in all, times of {}", units, unit_times.size());
  std::vector<OperatorTimes> chunks;
  std::size_t next = 0;
  for (const std::uint32_t count : units_per_chunk) {
    OperatorTimes sum;
    for (const OperatorTimes& unit : unit_times.subspan(next, count)) {
      sum.forward += unit.forward;
      sum.backward_input += unit.backward_input;
      sum.backward_weight += unit.backward_weight;
    }
    next += count;
    chunks.push_back(sum);
  }
  return chunks;
}

Duration reduction_time(const StageTail& tail, const TailModel& model) {
  if (model.replicas <= 1) return {};
  STAGECRAFT_ASSERT(model.bandwidth.bytes_per_second > 0, "a reduction over {} replicas without bandwidth",
                    model.replicas);
  const double share = 2.0 * (model.replicas - 1) / model.replicas;
  const Duration whole =
      nanoseconds(share * static_cast<double>(tail.gradients.value) / model.bandwidth.bytes_per_second * 1e9);
  return std::max(Duration{}, whole - tail.overlap);
}

Duration step_time(const StageTail& tail, const TailModel& model) {
  const double parameters = static_cast<double>(tail.parameters) / (model.sharded_optimizer ? model.replicas : 1);
  return nanoseconds(model.step_ns_per_parameter * parameters);
}

std::optional<ProfilePrediction> predict(const PipelineProblem& problem, const Schedule& schedule,
                                         std::span<const StageTail> tails, const TailModel& model) {
  const PipelineShape& shape = problem.shape;
  STAGECRAFT_ASSERT(tails.empty() || tails.size() == shape.stages, "tails of {} stages for {}", tails.size(),
                    shape.stages);
  const SimulationResult played = replay(problem, schedule);
  if (played.hung) return std::nullopt;
  ProfilePrediction result;
  result.pipeline = played.makespan;
  result.stage_end.resize(shape.stages);
  for (const TimedOperator& item : played.timeline) {
    Duration& end = result.stage_end[shape.stage_of(item.op.chunk).value];
    end = std::max(end, item.end);
    result.work += problem.times[item.op.chunk.value].of(item.op.kind);
  }
  for (std::uint32_t s = 0; s < shape.stages; ++s) {
    Duration end = result.stage_end[s];
    if (!tails.empty()) end += reduction_time(tails[s], model) + step_time(tails[s], model);
    result.time = std::max(result.time, end);
  }
  result.time += model.scalars;
  return result;
}

std::string_view name_of(RowVerdict verdict) {
  switch (verdict) {
    case RowVerdict::ok:
      return "ok";
    case RowVerdict::memory:
      return "memory";
    case RowVerdict::deviation:
      return "deviation";
    case RowVerdict::work_bound:
      return "work-bound";
    case RowVerdict::not_best:
      return "not-best";
    case RowVerdict::trend:
      return "trend";
    case RowVerdict::dominated:
      return "dominated";
    case RowVerdict::marginal:
      return "marginal";
  }
  return "?";
}

namespace {

double seconds(Duration d) { return static_cast<double>(d.count()) * 1e-9; }
double ratio(Duration a, Duration b) { return static_cast<double>(a.count()) / static_cast<double>(b.count()); }

void reject(ScaleRow& row, RowVerdict verdict, std::string reason) {
  row.verdict = verdict;
  row.reason = std::move(reason);
}

// R1, R3 and R4: what a row shows by itself.
void judge_alone(ScaleRow& row, const ScaleRow& base, const FilterRules& rules) {
  const double allowed = rules.memory_share * static_cast<double>(row.capacity.value);
  for (std::size_t s = 0; s < row.memory.size() && row.capacity.value > 0; ++s) {
    if (static_cast<double>(row.memory[s].value) <= allowed) continue;
    return reject(row, RowVerdict::memory,
                  fmt::format("stage {} needs {} of {} allowed (R1)", s, format(row.memory[s]),
                              format(Bytes{static_cast<std::uint64_t>(allowed)})));
  }
  if (row.measured) return;
  const double by_model = ratio(base.model, row.model), by_profile = ratio(base.time(), row.profile);
  if (std::abs(std::log(by_profile / by_model)) > rules.deviation)
    return reject(row, RowVerdict::deviation,
                  fmt::format("{:.3f} times the base by the model, {:.3f} by the profile (R3)", by_model, by_profile));
  const Duration floor = row.work / row.devices;
  if (seconds(row.profile) < rules.work_share * seconds(floor))
    reject(row, RowVerdict::work_bound,
           fmt::format("{} is less than its operators take on {} devices, {} (R4)", format(row.profile), row.devices,
                       format(floor)));
}

// R2, R6 and R5 against the row kept before, which has fewer devices.
void judge_step(ScaleRow& row, const ScaleRow& kept, const FilterRules& rules) {
  const auto change = [&](Duration before, Duration after) { return (after < before) - (before < after); };
  const int by_model = change(kept.model, row.model), by_profile = change(kept.time(), row.time());
  if (by_model * by_profile < 0)
    return reject(row, RowVerdict::trend,
                  fmt::format("{} than {} devices by the model, {} by the profile (R2)",
                              by_model > 0 ? "faster" : "slower", kept.devices, by_profile > 0 ? "faster" : "slower"));
  if (row.time() >= kept.time())
    return reject(row, RowVerdict::dominated,
                  fmt::format("no faster than {} devices, {} (R6)", kept.devices, format(kept.time())));
  const double gain = ratio(kept.time(), row.time());
  const double needed = 1 + rules.marginal_share * (static_cast<double>(row.devices) / kept.devices - 1);
  if (gain < needed)
    reject(row, RowVerdict::marginal,
           fmt::format("{:.3f} times {} devices, {:.3f} needed (R5)", gain, kept.devices, needed));
}

}  // namespace

std::vector<ScaleRow> filter(std::vector<ScaleRow> rows, std::size_t base, const FilterRules& rules) {
  if (rows.empty()) return rows;
  STAGECRAFT_ASSERT(base < rows.size(), "row {} of {} as the base", base, rows.size());
  for (const ScaleRow& row : rows)
    STAGECRAFT_ASSERT(row.devices > 0 && row.model > Duration{} && row.time() > Duration{},
                      "a row of {} devices that takes no time", row.devices);
  const ScaleRow reference = rows[base];
  for (ScaleRow& row : rows) {
    row.verdict = RowVerdict::ok;
    row.reason.clear();
    row.speedup = ratio(reference.time(), row.time());
    judge_alone(row, reference, rules);
  }
  std::stable_sort(rows.begin(), rows.end(), [](const ScaleRow& a, const ScaleRow& b) {
    return std::pair(a.devices, a.time()) < std::pair(b.devices, b.time());
  });
  const ScaleRow *best = nullptr, *kept = nullptr;  // of these devices; of the last row that stays
  for (ScaleRow& row : rows) {
    if (row.verdict != RowVerdict::ok) continue;
    if (best && best->devices == row.devices) {
      reject(row, RowVerdict::not_best,
             fmt::format("{} devices take {} as {} x {} x {} (R6)", row.devices, format(best->time()), best->stages,
                         best->chunks, best->replicas));
      continue;
    }
    best = &row;
    if (kept) judge_step(row, *kept, rules);
    if (row.verdict == RowVerdict::ok) kept = &row;
  }
  return rows;
}

std::string to_text(std::span<const ScaleRow> rows) {
  std::string text = fmt::format("{:>7} {:>12} {:>10} {:>10} {:>8}  {}\n", "devices", "p x v x d", "model", "profile",
                                 "speedup", "verdict");
  for (const ScaleRow& row : rows) {
    text +=
        fmt::format("{:>7} {:>12} {:>10} {:>10} {:>8.4f}  {}{}{}\n", row.devices,
                    fmt::format("{} x {} x {}", row.stages, row.chunks, row.replicas), format(row.model),
                    format(row.time()), row.speedup, name_of(row.verdict), row.reason.empty() ? "" : ": ", row.reason);
  }
  return text;
}

}  // namespace stagecraft
