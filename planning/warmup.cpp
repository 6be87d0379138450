#include "planning/warmup.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "planning/bug.hpp"

namespace stagecraft {

std::vector<std::uint32_t> WarmupPlan::warmup() const {
  std::vector<std::uint32_t> counts;
  for (const StageHolding& stage : stages) counts.push_back(stage.warmup);
  return counts;
}

Bytes WarmupPlan::device_bytes() const {
  Bytes sum;
  for (const StageHolding& stage : stages) sum += stage.device;
  return sum;
}

Bytes WarmupPlan::host_bytes() const {
  Bytes sum;
  for (const StageHolding& stage : stages) sum += stage.host;
  return sum;
}

std::vector<std::uint32_t> smallest_warmup(const AlternatingPipeline& pipeline, Duration period) {
  STAGECRAFT_ASSERT(period > Duration{}, "a period of {} ns", period.count());
  const std::uint32_t stages = pipeline.stages();
  const std::uint64_t all = pipeline.micro_batches;
  std::vector<std::uint32_t> x(stages, 1);
  for (std::uint32_t i = stages - 1; i-- > 0;) {
    std::uint64_t least = x[i + 1];
    Duration time = cycle_time(pipeline, i, i + 1);
    for (std::uint32_t j = i + 1; j < stages; ++j) {
      const auto tokens = static_cast<std::uint64_t>((time + period - Duration{1}) / period);
      least = std::max(least, x[j] + std::max<std::uint64_t>(tokens, 1) - 1);
      if (j + 1 == stages) break;
      const OperatorTimes& next = pipeline.times[j + 1];
      time += pipeline.round_trip(j) + next.forward + next.backward_input;
      if (pipeline.weights == WeightWork::fused) time += next.backward_weight;
    }
    x[i] = static_cast<std::uint32_t>(std::min(least, all));
  }
  return x;
}

namespace {

std::uint32_t peak_pending(WeightWork weights, std::uint32_t micro_batches) {
  if (weights == WeightWork::fused) return 0;
  return weights == WeightWork::deferred ? micro_batches : 1;
}

}  // namespace

// While the k-th backward runs (from 0), its own activations are still there and its share for W is already: the most
// is held either when the device's share starts to fall or in the last backward, as both counts are linear in between.
Bytes peak_bytes(const StageMemory& memory, WeightWork weights, std::uint32_t micro_batches, std::uint32_t warmup,
                 std::uint32_t on_device) {
  const auto at = [&](std::uint32_t k) {
    const std::uint64_t activations = std::min(on_device, std::min(micro_batches, k + warmup) - k);
    const std::uint64_t pending = weights == WeightWork::deferred ? k + 1 : peak_pending(weights, micro_batches);
    return activations * memory.activation.value + pending * memory.weight_activation.value;
  };
  const std::uint64_t most = std::max(at(micro_batches - std::min(on_device, warmup)), at(micro_batches - 1));
  return {memory.fixed.value + most};
}

namespace {

using Resource = StageShortage::Resource;

// One stage with its warm-up: what it holds, or what it lacks.
class StageFit {
 public:
  StageFit(const WarmupRequest& request, std::uint32_t stage, std::uint32_t warmup)
      : memory_(request.memory.empty() ? StageMemory{} : request.memory[stage]),
        weights_(request.pipeline.weights),
        n_(request.pipeline.micro_batches),
        stage_(stage),
        warmup_(warmup) {}

  std::variant<StageHolding, StageShortage> fit() const {
    StageHolding holding{warmup_, peak_pending(weights_, n_), weights_ == WeightWork::deferred ? n_ : warmup_, 0, {},
                         {}};
    const StageCaps& caps = memory_.caps;
    if (caps.pending_weights && *caps.pending_weights < holding.pending_weights)
      return lacks(Resource::pending_weights, *caps.pending_weights, holding.pending_weights);
    if (caps.held && *caps.held < holding.held) return lacks(Resource::held, *caps.held, holding.held);
    const std::uint32_t least = least_on_device();
    if (caps.activations && *caps.activations < least) return lacks(Resource::activations, *caps.activations, least);
    if (memory_.device && bytes(least) > *memory_.device)
      return lacks(Resource::device_bytes, memory_.device->value, bytes(least).value);
    std::uint32_t stay = caps.activations ? std::min(warmup_, *caps.activations) : warmup_;
    while (memory_.device && bytes(stay) > *memory_.device) --stay;
    holding.on_host = warmup_ - stay;
    holding.device = bytes(stay);
    holding.host = {holding.on_host * memory_.activation.value};
    return holding;
  }

 private:
  StageShortage lacks(Resource resource, std::uint64_t available, std::uint64_t needed) const {
    return {resource, {stage_}, available, needed};
  }
  Bytes bytes(std::uint32_t on_device) const { return peak_bytes(memory_, weights_, n_, warmup_, on_device); }

  // With as much on the host as that takes; the one that the backward reads is always on the device.
  std::uint32_t least_on_device() const {
    if (memory_.host.value == 0) return warmup_;
    if (memory_.activation.value == 0) return 1;
    const std::uint64_t places = memory_.host.value / memory_.activation.value;
    return places >= warmup_ ? 1 : std::max(1U, warmup_ - static_cast<std::uint32_t>(places));
  }

  StageMemory memory_;
  WeightWork weights_;
  std::uint32_t n_, stage_, warmup_;
};

void require_valid(const WarmupRequest& request) {
  const AlternatingPipeline& pipeline = request.pipeline;
  STAGECRAFT_ASSERT(!pipeline.times.empty() && pipeline.micro_batches > 0, "an empty pipeline needs no warm-up");
  STAGECRAFT_ASSERT(request.memory.empty() || request.memory.size() == pipeline.times.size(),
                    "memory of {} stages for a pipeline of {}", request.memory.size(), pipeline.times.size());
}

WarmupShortage too_fast(const AlternatingPipeline& pipeline, Duration target) {
  WarmupShortage shortage;
  for (std::uint32_t s = 0; s < pipeline.stages(); ++s) {
    if (pipeline.work(s) <= target) continue;
    const auto available = static_cast<std::uint64_t>(std::max<std::int64_t>(target.count(), 0));
    shortage.stages.push_back({Resource::period, {s}, available, static_cast<std::uint64_t>(pipeline.work(s).count())});
  }
  return shortage;
}

WarmupOutcome plan_for(const WarmupRequest& request, Duration target) {
  if (WarmupShortage shortage = too_fast(request.pipeline, target); !shortage.stages.empty()) return shortage;
  AlternatingPipeline pipeline = request.pipeline;
  // Nothing to do takes no time, and any warm-up will do.
  pipeline.warmup = smallest_warmup(pipeline, std::max(target, Duration{1}));
  WarmupPlan plan;
  WarmupShortage shortage;
  for (std::uint32_t s = 0; s < pipeline.stages(); ++s) {
    const auto fit = StageFit(request, s, pipeline.warmup[s]).fit();
    if (const auto* lack = std::get_if<StageShortage>(&fit))
      shortage.stages.push_back(*lack);
    else
      plan.stages.push_back(std::get<StageHolding>(fit));
  }
  if (!shortage.stages.empty()) return shortage;
  plan.binding = analyse_delay(pipeline).binding;
  return plan;
}

Duration work_bound(const AlternatingPipeline& pipeline) {
  Duration most{};
  for (std::uint32_t s = 0; s < pipeline.stages(); ++s) most = std::max(most, pipeline.work(s));
  return most;
}

}  // namespace

WarmupOutcome plan_warmup(const WarmupRequest& request) {
  require_valid(request);
  return plan_for(request, request.target);
}

// A longer period never needs a larger warm-up, so the shortest one that fits is found by bisection.
WarmupOutcome fastest_warmup(const WarmupRequest& request) {
  require_valid(request);
  const AlternatingPipeline& pipeline = request.pipeline;
  Duration low = work_bound(pipeline), high = low;
  for (std::uint32_t s = 0; s + 1 < pipeline.stages(); ++s)
    high = std::max(high, cycle_time(pipeline, s, pipeline.stages() - 1));
  WarmupOutcome best = plan_for(request, high);
  if (std::holds_alternative<WarmupShortage>(best)) return best;
  while (low < high) {
    const Duration middle = low + (high - low) / 2;
    WarmupOutcome outcome = plan_for(request, middle);
    if (std::holds_alternative<WarmupPlan>(outcome))
      best = std::move(outcome), high = middle;
    else
      low = middle + Duration{1};
  }
  return best;
}

std::string to_text(const WarmupShortage& shortage) {
  std::string text;
  for (const StageShortage& lack : shortage.stages) {
    const auto amount = [&](std::uint64_t value, std::string_view what) { return fmt::format("{} {}", value, what); };
    const auto line = [&](const std::string& has, const std::string& needs, std::string_view advice) {
      text += fmt::format("stage {} has {}, the period needs {}; {}\n", lack.stage.value, has, needs, advice);
    };
    switch (lack.resource) {
      case Resource::period:
        text += fmt::format("stage {} alone works {} per micro-batch, longer than the period of {}; move layers away\n",
                            lack.stage.value, format(Duration{static_cast<std::int64_t>(lack.needed)}),
                            format(Duration{static_cast<std::int64_t>(lack.available)}));
        break;
      case Resource::activations:
        line(amount(lack.available, "places for activations (F-B)"), fmt::format("{}", lack.needed),
             "raise the cap, give it host memory or accept a longer period");
        break;
      case Resource::pending_weights:
        line(amount(lack.available, "places for pending weight gradients (B-W)"), fmt::format("{}", lack.needed),
             "raise the cap or run weight gradients in place");
        break;
      case Resource::held:
        line(amount(lack.available, "places for micro-batches (F-W)"), fmt::format("{}", lack.needed),
             "raise the cap or run weight gradients in place");
        break;
      case Resource::device_bytes:
        line(format(Bytes{lack.available}), format(Bytes{lack.needed}),
             "give it more memory, host memory or fewer layers, or accept a longer period");
        break;
    }
  }
  return text;
}

}  // namespace stagecraft
