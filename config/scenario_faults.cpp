// The section faults: what each one is, with its arguments and how long it lasts.
#include <fmt/format.h>

#include <algorithm>

#include "config/common_fields.hpp"
#include "config/scenario_draft.hpp"

namespace stagecraft {
namespace {

constexpr std::size_t most_faults = 1000;

bool has_arguments(FaultKind kind) {
  using enum FaultKind;
  return kind != partition && kind != link_down && kind != pause && kind != kill && kind != oom && kind != nan;
}

// Reports a key that the kind has no use for.
void refuse(Section& fault, std::string_view key, FaultKind kind, std::string_view why, Report& report) {
  const auto value = fault.value(key);
  if (!value) return;
  report.add(ErrorCode::key_not_of_fault, value->at, value->path,
             fmt::format("expected no '{}' with {}, which {}, got one; remove it", key, name_of(kind), why));
}

// The one of two durations that is given, each into its place.
void read_either(Section& with, std::string_view one, Duration& first, std::string_view other, Duration& second,
                 Report& report) {
  const auto chosen = choose_key(with, {one, other}, true, report);
  if (!chosen) return;
  (chosen->key == one ? first : second) = with.duration(chosen->key, fault_time).value;
}

void read_arguments(Section& fault, FaultSpec& spec, Report& report) {
  if (!has_arguments(spec.kind)) {
    refuse(fault, "with", spec.kind, "has no arguments", report);
    return;
  }
  using enum FaultKind;
  Section with = fault.section("with", !is_disk_fault(spec.kind));
  const Bounds<double> share{.low = 0, .high = 1, .open_low = true};
  if (spec.kind == delay) {
    read_either(with, "mean", spec.mean, "constant", spec.constant, report);
  } else if (spec.kind == throttle || spec.kind == slow) {
    spec.factor = with.number("factor", {.low = 1, .high = 1000, .open_low = true}).value;
  } else if (spec.kind == drop || spec.kind == duplicate) {
    spec.probability = with.number("probability", share).value;
  } else if (spec.kind == reorder) {
    spec.probability = with.number("probability", share, 1.0).value;
    spec.mean = with.duration("mean", fault_time).value;
  } else if (spec.kind == skew) {
    Duration ahead{}, behind{};
    read_either(with, "ahead", ahead, "behind", behind, report);
    spec.offset = ahead - behind;
  } else {
    spec.operation = with.integer<std::uint32_t>("operation", 1, 1'000'000, 1).value;
  }
  with.finish();
}

void read_duration_of(Section& fault, FaultSpec& spec, Report& report) {
  if (strikes_once(spec.kind)) {
    refuse(fault, "for", spec.kind, "strikes once", report);
    return;
  }
  // Again and again makes sense only for what ends in between.
  const bool again = spec.trigger.kind == Trigger::Kind::drawn && spec.trigger.at_most > 1;
  const auto value = again ? fault.required_value("for", "because it strikes several times, how long each one lasts")
                           : fault.value("for");
  if (!value) return;
  Section lasts(*value, report);
  const auto chosen = choose_key(lasts, {"iterations", "time"}, true, report);
  if (chosen && chosen->key == "iterations") {
    spec.iterations = lasts.integer<std::uint32_t>("iterations", 1, most_iterations).value;
  } else if (chosen) {
    spec.time = lasts.duration("time", fault_time).value;
  }
  lasts.finish();
}

FaultSpec read_fault(const Value& value, Report& report) {
  Section fault(value, report);
  for (const char* key : {"id", "at", "when", "every", "do", "on", "with", "for"}) fault.value(key);
  FaultSpec spec;
  spec.at = fault.at();
  spec.id = read_name(fault, "id", report).value;
  spec.trigger = read_trigger(fault, report);
  const auto word = fault.required_value("do", "what happens, for example kill");
  spec.kind_at = word ? word->at : fault.at();
  if (const auto kind = word ? read_named<FaultKind>(*word, fault_kinds, report) : std::nullopt) {
    spec.kind = *kind;
    spec.on = read_target(fault, spec.kind, report);
    read_arguments(fault, spec, report);
    read_duration_of(fault, spec, report);
  }
  fault.finish();
  return spec;
}

}  // namespace

std::optional<ChosenKey> choose_key(Section& section, std::span<const std::string_view> keys, bool required,
                                    Report& report) {
  std::optional<ChosenKey> chosen;
  std::size_t given = 0;
  for (std::string_view key : keys) {
    const auto value = section.value(key);
    if (!value) continue;
    if (++given == 2) {
      report.add(ErrorCode::one_of_keys, value->at, value->path,
                 fmt::format("expected only one of {}, got '{}' beside '{}'; remove one of them", fmt::join(keys, ", "),
                             key, chosen->key));
    }
    if (given == 1) chosen = ChosenKey{key, *value};
  }
  if (given == 0 && required && section.given() && !section.has_unknown_key()) {
    report.add(ErrorCode::one_of_keys, section.at(), section.path(),
               fmt::format("expected one of {}, got none of them; add one", fmt::join(keys, ", ")));
  }
  return given == 1 ? chosen : std::nullopt;
}

std::optional<ChosenKey> choose_key(Section& section, std::initializer_list<std::string_view> keys, bool required,
                                    Report& report) {
  return choose_key(section, std::span(keys.begin(), keys.size()), required, report);
}

std::size_t find_fault(const Scenario& scenario, std::string_view id) {
  const auto found = std::find_if(scenario.faults.begin(), scenario.faults.end(),
                                  [&](const FaultSpec& fault) { return fault.id == id; });
  return static_cast<std::size_t>(found - scenario.faults.begin());
}

void read_faults(Section& root, ScenarioDraft& draft, Report& report) {
  const auto value = root.value("faults");
  if (!value) return;
  const auto items = read_list(*value, {0, most_faults}, "faults", report);
  if (!items) {
    draft.all_ids_known = false;
    return;
  }
  for (const Value& item : *items) {
    const std::size_t before = report.error_count();
    FaultSpec fault = read_fault(item, report);
    draft.all_ids_known &= !fault.id.empty();
    if (report.error_count() > before) draft.damaged.insert(draft.scenario.faults.size());
    draft.scenario.faults.push_back(std::move(fault));
  }
}

}  // namespace stagecraft
