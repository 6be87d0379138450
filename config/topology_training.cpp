// The section training and the checks on how its work is shared out.
#include <fmt/format.h>

#include <bit>

#include "config/topology_draft.hpp"

namespace stagecraft {
namespace {

void read_rate_schedule(Section& optimizer, OptimizerSpec& spec, TopologyDraft& draft, Report& report) {
  Section schedule = optimizer.section("schedule", false);
  const OptimizerSpec defaults;
  const auto kind = schedule.choice<RateSchedule>(
      "kind",
      {{"constant", RateSchedule::constant}, {"cosine", RateSchedule::cosine}, {"linear", RateSchedule::linear}},
      defaults.schedule);
  draft.warmup_steps = schedule.integer<std::uint32_t>("warmup_steps", 0, 1'000'000'000, defaults.warmup_steps);
  const auto final_fraction = schedule.number("final_fraction", {.low = 0, .high = 1}, defaults.final_fraction);
  schedule.finish();
  spec.schedule = kind.value;
  spec.warmup_steps = draft.warmup_steps.value;
  if (kind && kind.value == RateSchedule::constant) {
    if (!final_fraction.given) return;
    report.add(ErrorCode::unused_key, final_fraction.at, final_fraction.path,
               "expected a schedule that decays (cosine, linear), got constant; remove the key or change kind");
    return;
  }
  spec.final_fraction = final_fraction.value;
}

void read_optimizer(Section& training, TopologyDraft& draft, Report& report) {
  Section optimizer = training.section("optimizer", false);
  OptimizerSpec& spec = draft.topology.training.optimizer;
  optimizer.choice<int>("kind", {{"adamw", 0}}, 0);
  spec.learning_rate = optimizer.number("learning_rate", {.low = 0, .high = 10}, spec.learning_rate).value;
  const Bounds<double> decay{.low = 0, .high = 1, .open_high = true};
  spec.beta1 = optimizer.number("beta1", decay, spec.beta1).value;
  spec.beta2 = optimizer.number("beta2", decay, spec.beta2).value;
  spec.epsilon = optimizer.number("epsilon", {.low = 0, .high = 1, .open_low = true}, spec.epsilon).value;
  spec.weight_decay = optimizer.number("weight_decay", {.low = 0, .high = 10}, spec.weight_decay).value;
  spec.clip = optimizer.number("clip", {.low = 0, .high = 1e9}, spec.clip).value;
  read_rate_schedule(optimizer, spec, draft, report);
  optimizer.finish();
}

void read_kernels(Section& training, TopologyDraft& draft, Report& report) {
  const auto kernels = training.choice<KernelKind>(
      "kernels", {{"exact", KernelKind::exact}, {"onednn", KernelKind::onednn}}, KernelKind::exact);
  draft.topology.training.kernels = kernels.value;
  if (!kernels || kernels.value == KernelKind::exact) return;
  if (draft.kind == DeviceKind::emulated) {
    report.add(ErrorCode::unused_key, kernels.at, kernels.path,
               "expected no kernels on emulated devices, which compute nothing, got onednn; remove the key");
    draft.topology.training.kernels = KernelKind::exact;
    return;
  }
  report.add(ErrorCode::relaxed_consistency, kernels.at, kernels.path,
             "expected exact, got onednn: losses and weights stay the same only at equal shapes, library and CPU; take "
             "exact to keep the bits everywhere");
}

void check_shards(TopologyDraft& draft, Report& report) {
  auto& shards = draft.logical_shards;
  const auto& replicas = draft.replicas;
  if (!shards.given) {
    shards.value = replicas ? std::bit_ceil(replicas.value) : 1;
    shards.valid = replicas.valid;
    if (shards) {
      report.add(ErrorCode::default_shards, shards.at, shards.path,
                 fmt::format("expected a power of two, got none; took {}, the smallest that gives each of the {} "
                             "replicas a shard; write it down if the job may grow to more replicas",
                             shards.value, replicas.value));
    }
  } else if (shards && !std::has_single_bit(shards.value)) {
    report.add(ErrorCode::shards_not_power_of_two, shards.at, shards.path,
               fmt::format("expected a power of two, got {}; take {} or {}", shards.value, std::bit_floor(shards.value),
                           std::bit_ceil(shards.value)));
  } else if (shards && replicas && shards.value < replicas.value) {
    report.add(ErrorCode::shards_below_replicas, shards.at, shards.path,
               fmt::format("expected at least pipeline.replicas = {}, got {}; take {}", replicas.value, shards.value,
                           std::bit_ceil(replicas.value)));
  }
  draft.topology.training.logical_shards = shards.value;
}

void warn_about_shares(const TopologyDraft& draft, Report& report) {
  const auto& micro_batches = draft.micro_batches;
  const auto& shards = draft.logical_shards;
  const auto& replicas = draft.replicas;
  if (micro_batches && shards && shards.given && shards.value > micro_batches.value) {
    report.add(ErrorCode::empty_shards, shards.at, shards.path,
               fmt::format("expected at most training.micro_batches = {}, got {}, so {} shards stay empty; take fewer",
                           micro_batches.value, shards.value, shards.value - micro_batches.value));
  }
  if (!micro_batches || !shards || !replicas) return;
  if (replicas.value > micro_batches.value || replicas.value > shards.value) return;  // errors of their own
  if (micro_batches.value % replicas.value != 0 || shards.value % replicas.value != 0) {
    report.add(ErrorCode::uneven_replicas, replicas.at, replicas.path,
               fmt::format("expected a divisor of the {} micro-batches and of the {} logical shards, got {}, so the "
                           "replicas get different shares; change one of them",
                           micro_batches.value, shards.value, replicas.value));
  }
  constexpr std::uint32_t plenty = 1024;
  if (micro_batches.value / replicas.value > plenty) {
    report.add(ErrorCode::many_micro_batches, micro_batches.at, micro_batches.path,
               fmt::format("expected at most {} micro-batches per replica, got {}; make them larger instead", plenty,
                           micro_batches.value / replicas.value));
  }
}

}  // namespace

void read_training(Section& root, TopologyDraft& draft, Report& report) {
  Section training = root.section("training", true);
  draft.micro_batches = training.integer<std::uint32_t>("micro_batches", 1, 65536);
  draft.logical_shards = training.integer<std::uint32_t>("logical_shards", 1, 65536, 1);
  draft.topology.training.micro_batches = draft.micro_batches.value;
  read_kernels(training, draft, report);
  read_optimizer(training, draft, report);
  training.finish();
}

void check_training(TopologyDraft& draft, Report& report) {
  check_shards(draft, report);
  warn_about_shares(draft, report);
  const auto& micro_batches = draft.micro_batches;
  const auto& replicas = draft.replicas;
  if (micro_batches && replicas && replicas.value > micro_batches.value) {
    report.add(ErrorCode::replicas_above_micro_batches, replicas.at, replicas.path,
               fmt::format("expected at most training.micro_batches = {}, got {}; take more micro-batches or fewer "
                           "replicas",
                           micro_batches.value, replicas.value));
  }
  const auto& warmup = draft.warmup_steps;
  if (warmup && warmup.given && draft.iterations && warmup.value > draft.iterations.value) {
    report.add(
        ErrorCode::rate_never_reached, warmup.at, warmup.path,
        fmt::format("expected at most job.iterations = {}, got {}, so the learning rate is never reached; shorten "
                    "the warm-up",
                    draft.iterations.value, warmup.value));
  }
}

}  // namespace stagecraft
