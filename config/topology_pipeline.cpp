// The section pipeline and the checks on its stages, chunks, layout, warm-ups and caps.
#include <fmt/format.h>

#include <algorithm>

#include "config/topology_draft.hpp"
#include "planning/partition.hpp"

namespace stagecraft {
namespace {

constexpr std::uint32_t most_stages = 1024, most_chunks = 64, most_replicas = 256;
constexpr std::uint32_t most_forwards = 65536 * most_chunks;      // of one stage in one iteration
constexpr std::uint64_t most_operators = std::uint64_t{1} << 24;  // forwards of one iteration

// Everything of a list of numbers, or nothing.
std::optional<std::vector<std::uint32_t>> read_numbers(const Value& value, std::size_t longest,
                                                       Bounds<std::uint64_t> range, Report& report) {
  const auto items = read_list(value, {1, longest}, "integers", report);
  if (!items) return std::nullopt;
  std::vector<std::uint32_t> numbers;
  for (const Value& item : *items) {
    if (const auto number = read_integer(item, range, report)) numbers.push_back(static_cast<std::uint32_t>(*number));
  }
  if (numbers.size() != items->size()) return std::nullopt;
  return numbers;
}

// A list, or the word auto, which counts as not given. `what`: of what the list is, with an example.
Field<std::vector<std::uint32_t>> read_list_field(Section& section, std::string_view key, std::string_view what,
                                                  std::string_view example, std::size_t longest,
                                                  Bounds<std::uint64_t> range, Report& report) {
  Field<std::vector<std::uint32_t>> field;
  field.at = section.at();
  field.path = section.path_of(key);
  field.valid = true;
  const auto value = section.value(key);
  if (!value) return field;
  field.at = value->at;
  if (is_word(*value, "auto")) return field;
  field.given = true;
  if (value->node->kind != YamlNode::Kind::list) {
    report.add(
        ErrorCode::wrong_type, value->at, value->path,
        fmt::format("expected auto or a list of {}, got something else; write auto or for example {}", what, example));
    field.valid = false;
    return field;
  }
  auto numbers = read_numbers(*value, longest, range, report);
  field.valid = numbers.has_value();
  if (numbers) field.value = std::move(*numbers);
  return field;
}

Field<CapSpec> read_cap(Section& caps, std::string_view key, Report& report) {
  Field<CapSpec> field;
  field.at = caps.at();
  field.path = caps.path_of(key);
  field.valid = true;
  const auto value = caps.value(key);
  if (!value) return field;
  field.given = true;
  field.at = value->at;
  if (is_word(*value, "auto")) return field;
  if (is_word(*value, "off")) {
    field.value.kind = CapSpec::Kind::off;
    return field;
  }
  const auto number = read_integer(*value, {1, most_forwards}, report, "auto or off");
  field.valid = number.has_value();
  if (number) field.value = {CapSpec::Kind::fixed, static_cast<std::uint32_t>(*number)};
  return field;
}

Field<ScheduleKind> read_schedule(Section& pipeline) {
  const auto named = [](ScheduleKind kind) { return Choice<ScheduleKind>{name_of(kind), kind}; };
  using enum ScheduleKind;
  return pipeline.choice<ScheduleKind>(
      "schedule",
      {named(gpipe), named(one_f_one_b), named(interleaved), named(bfs), named(zb_h1), named(zb_h2), named(zb_auto),
       named(zb_v), named(v_half), named(v_min), named(pipemorph), named(planned)},
      one_f_one_b, {"file"});
}

Field<Dispatch> read_dispatch(Section& pipeline) {
  const auto named = [](Dispatch dispatch) { return Choice<Dispatch>{name_of(dispatch), dispatch}; };
  return pipeline.choice<Dispatch>(
      "dispatch", {named(Dispatch::in_order), named(Dispatch::reactive), named(Dispatch::follow)}, Dispatch::reactive);
}

bool has_warmup(ScheduleKind kind) {
  using enum ScheduleKind;
  return kind == one_f_one_b || kind == interleaved || kind == zb_h1 || kind == zb_h2 || kind == pipemorph;
}

void check_layout_of(TopologyDraft& draft, Report& report) {
  if (!draft.layers || !draft.stages || !draft.chunks || !draft.layout) return;
  const std::uint32_t slots = draft.stages.value * draft.chunks.value, layers = draft.layers.value;
  const auto even = even_layout(layers, slots);
  auto& layout = draft.layout;
  if (!layout.given) {
    layout.value = even;
  } else if (const auto problem = check_layout(layout.value, layers, slots)) {
    const bool length = problem->kind == LayoutProblem::Kind::length;
    report.add(
        length ? ErrorCode::layout_length : ErrorCode::layout_sum, layout.at, layout.path,
        length ? fmt::format("expected {} entries (stages {} x chunks {}), got {}; try layout: auto, which gives {}",
                             problem->expected, draft.stages.value, draft.chunks.value, problem->got, list_text(even))
               : fmt::format("expected {} layers in all (model.layers), got {} from {}; try layout: auto, which "
                             "gives {}",
                             problem->expected, problem->got, list_text(layout.value), list_text(even)));
    return;
  }
  const auto empty = std::count(layout.value.begin(), layout.value.end(), 0U);
  if (empty > 0) {
    report.add(ErrorCode::empty_chunks, layout.given ? layout.at : draft.stages.at, layout.path,
               fmt::format("expected at least one layer per chunk, got {} of {} chunks without any in {}; take fewer "
                           "stages or chunks",
                           empty, slots, list_text(layout.value)));
  }
  draft.topology.pipeline.layout = layout.value;
}

void check_chunks(const TopologyDraft& draft, Report& report) {
  const auto& chunks = draft.chunks;
  const auto& schedule = draft.schedule;
  if (!chunks || !schedule) return;
  const auto needed = chunks_needed(schedule.value);
  if (!needed || chunks.value == *needed) return;
  const Position& at = chunks.given ? chunks.at : schedule.at;
  if (*needed > 1) {
    report.add(ErrorCode::chunks_need_schedule, at, chunks.path,
               fmt::format("expected {} chunks per stage with schedule {}, got {}; write chunks: {}", *needed,
                           name_of(schedule.value), chunks.value, *needed));
    return;
  }
  const std::string_view twos = chunks.value == 2 ? ", or zb-v, v-half or v-min" : "";
  report.add(ErrorCode::chunks_need_schedule, at, chunks.path,
             fmt::format("expected 1 chunk per stage with schedule {}, got {}; write schedule: interleaved or bfs{}",
                         name_of(schedule.value), chunks.value, twos));
}

void check_warmup(const TopologyDraft& draft, Report& report) {
  const auto& warmup = draft.warmup;
  if (!warmup.given || !warmup) return;
  if (draft.schedule && !has_warmup(draft.schedule.value)) {
    report.add(
        ErrorCode::warmup_without_list, warmup.at, warmup.path,
        fmt::format("expected no warm-ups with schedule {}, got {}; remove them, or take 1f1b, interleaved, zb-h1, "
                    "zb-h2 or pipemorph",
                    name_of(draft.schedule.value), list_text(warmup.value)));
  }
  if (draft.stages && warmup.value.size() != draft.stages.value) {
    report.add(ErrorCode::warmup_length, warmup.at, warmup.path,
               fmt::format("expected one entry for each of the {} stages, got {}; add or remove entries",
                           draft.stages.value, warmup.value.size()));
  }
  if (!draft.micro_batches || !draft.replicas || !draft.chunks) return;
  const auto per_replica = (std::uint64_t{draft.micro_batches.value} + draft.replicas.value - 1) / draft.replicas.value;
  const std::uint64_t forwards = per_replica * draft.chunks.value;
  const std::uint32_t largest = *std::max_element(warmup.value.begin(), warmup.value.end());
  if (largest > forwards) {
    report.add(ErrorCode::warmup_above_work, warmup.at, warmup.path,
               fmt::format("expected at most {} (micro-batches per replica x chunks), got {}; it counts as {}",
                           forwards, largest, forwards));
  }
}

void check_cap(const Field<CapSpec>& cap, const Field<std::uint32_t>& chunks, Report& report) {
  if (!cap || !chunks || cap.value.kind != CapSpec::Kind::fixed || cap.value.value >= chunks.value) return;
  report.add(ErrorCode::cap_below_chunks, cap.at, cap.path,
             fmt::format("expected at least pipeline.chunks = {}, got {}; raise it, or write auto or off", chunks.value,
                         cap.value.value));
}

// The share of an iteration in which a stage waits, for m micro-batches, p > m stages and v chunks of equal cost: an
// iteration takes p v + m - 1 chunk times, of which a stage is busy for m v. With one chunk this is (p - 1) / (m + p -
// 1) (Huang et al. 2019, GPipe, section 2.3).
double bubble_share(double m, double p, double v) { return 1 - m * v / (p * v + m - 1); }

void warn_about_bubble(const TopologyDraft& draft, Report& report) {
  const auto &micro_batches = draft.micro_batches, &stages = draft.stages, &replicas = draft.replicas;
  if (!micro_batches || !stages || !replicas || !draft.chunks) return;
  const std::uint32_t per_replica = micro_batches.value / replicas.value;
  if (per_replica == 0 || per_replica >= stages.value) return;
  const double share = bubble_share(per_replica, stages.value, draft.chunks.value);
  report.add(
      ErrorCode::few_micro_batches, micro_batches.at, micro_batches.path,
      fmt::format("expected at least as many micro-batches per replica as the {} stages, got {}, so a stage waits "
                  "about {:.0f} % of the time; take more micro-batches or fewer stages",
                  stages.value, per_replica, share * 100));
}

void check_operators(const TopologyDraft& draft, Report& report) {
  if (!draft.micro_batches || !draft.stages || !draft.chunks) return;
  const std::uint64_t operators = std::uint64_t{draft.micro_batches.value} * draft.stages.value * draft.chunks.value;
  if (operators <= most_operators) return;
  report.add(
      ErrorCode::too_many_operators, draft.micro_batches.at, draft.micro_batches.path,
      fmt::format("expected at most {} forwards in an iteration, got {} = {} micro-batches x {} stages x {} chunks; "
                  "take fewer",
                  most_operators, operators, draft.micro_batches.value, draft.stages.value, draft.chunks.value));
}

}  // namespace

void read_pipeline(Section& root, TopologyDraft& draft, Report& report) {
  Section pipeline = root.section("pipeline", true);
  draft.stages = pipeline.integer<std::uint32_t>("stages", 1, most_stages);
  draft.chunks = pipeline.integer<std::uint32_t>("chunks", 1, most_chunks, 1);
  draft.replicas = pipeline.integer<std::uint32_t>("replicas", 1, most_replicas, 1);
  draft.layout = read_list_field(pipeline, "layout", "layers per chunk in model order", "[8, 8, 7, 7]",
                                 most_stages * most_chunks, {0, 1024}, report);
  draft.schedule = read_schedule(pipeline);
  const auto dispatch = read_dispatch(pipeline);
  draft.warmup = read_list_field(pipeline, "warmup", "forwards per stage", "[7, 5, 3, 1]", most_stages,
                                 {1, most_forwards}, report);
  Section caps = pipeline.section("caps", false);
  draft.activations = read_cap(caps, "activations", report);
  draft.pending_weights = read_cap(caps, "pending_weights", report);
  caps.finish();
  pipeline.finish();

  PipelineSpec& spec = draft.topology.pipeline;
  spec.stages = draft.stages.value;
  spec.chunks = draft.chunks.value;
  spec.replicas = draft.replicas.value;
  spec.schedule = draft.schedule.value;
  spec.dispatch = dispatch.value;
  spec.warmup = draft.warmup.value;
  spec.activations = draft.activations.value;
  spec.pending_weights = draft.pending_weights.value;
}

void check_pipeline(TopologyDraft& draft, Report& report) {
  check_layout_of(draft, report);
  check_chunks(draft, report);
  check_warmup(draft, report);
  check_cap(draft.activations, draft.chunks, report);
  check_cap(draft.pending_weights, draft.chunks, report);
  warn_about_bubble(draft, report);
  check_operators(draft, report);
}

}  // namespace stagecraft
