// The sections expect and calm.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "config/common_fields.hpp"
#include "config/scenario_draft.hpp"

namespace stagecraft {
namespace {

constexpr std::size_t expectations_at_most = 1000;
constexpr double largest_ratio = 1000;

// "1.10x"; empty when it is no number before the x.
std::optional<double> parse_ratio(std::string_view text) {
  if (!text.ends_with('x')) return std::nullopt;
  text.remove_suffix(1);
  double ratio = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), ratio, std::chars_format::fixed);
  if (error != std::errc{} || end != text.data() + text.size() || !std::isfinite(ratio)) return std::nullopt;
  return ratio;
}

// A ratio of the fault-free run, or a duration.
void read_at_most(Section& body, Expectation& e, Report& report) {
  const auto value = body.required_value("at_most", "a ratio such as 1.10x, or a duration");
  if (!value) return;
  const bool scalar = value->node->kind == YamlNode::Kind::scalar;
  const auto ratio = scalar ? parse_ratio(value->node->text) : std::nullopt;
  if (ratio) {
    e.ratio = ratio;
    if (*ratio >= 1 && *ratio <= largest_ratio) return;
    report.add(
        ErrorCode::out_of_range, value->at, value->path,
        fmt::format("expected a ratio of the fault-free run from 1x to {}x, got {}; choose a value in that range",
                    largest_ratio, quoted(value->node->text)));
  } else if (scalar && !parse_duration(value->node->text)) {
    report.add(ErrorCode::bad_unit, value->at, value->path,
               fmt::format("expected a ratio of the fault-free run or a duration, got {}; write for example 1.10x or "
                           "450ms",
                           quoted(value->node->text)));
  } else {
    e.within = read_duration(*value, waiting_time, report);
  }
}

void read_fault_id(Section& body, std::string_view key, Expectation& e, Report& report) {
  const auto id = read_line(body, key, 64, "", report);
  e.fault = id.value;
  e.fault_at = id.at;
}

void read_iteration_time(Section& body, Expectation& e, Report& report) {
  const auto span = choose_key(body, {"during", "after"}, false, report);
  if (span) {
    e.after = span->key == "after";
    read_fault_id(body, span->key, e, report);
  }
  const auto settle = body.integer<std::uint32_t>("settle", 0, 1'000'000, 0);
  e.settle = settle.value;
  e.number_at = settle.at;
  read_at_most(body, e, report);
}

void read_loss(Section& body, Expectation& e, Report& report) {
  body.choice<int>("equals", {{"fault_free", 0}});
  const auto value = body.value("tolerance");
  if (!value || is_word(*value, "exact")) return;
  e.tolerance = read_number(*value, {.low = 0, .high = 1, .open_low = true}, report).value_or(0);
}

void read_never(const Value& value, Expectation& e, Report& report) {
  const auto items = read_list(value, {1, invariants}, "invariants", report);
  if (!items) return;
  for (const Value& item : *items) {
    if (const auto word = read_named<Invariant>(item, invariants, report)) e.never.push_back(*word);
  }
}

void read_at_least(Section& body, Expectation& e) {
  const auto number = body.integer<std::uint32_t>("at_least", 1, most_iterations);
  e.at_least = number.value;
  e.number_at = number.at;
}

void read_body(Section& body, Expectation& e, Report& report) {
  using enum Expectation::Kind;
  if (e.kind == iteration_time) {
    read_iteration_time(body, e, report);
  } else if (e.kind == loss) {
    read_loss(body, e, report);
  } else if (e.kind == committed || e.kind == checkpoint || e.kind == moved) {
    read_at_least(body, e);
  } else {
    e.within = body.duration("within", waiting_time).value;
    e.after = e.kind == progress && body.value("after").has_value();
    if (e.after) read_fault_id(body, "after", e, report);
  }
  body.finish();
}

Expectation read_expectation(const Value& value, Report& report) {
  Section item(value, report);
  std::vector<std::string_view> names;
  for (std::size_t i = 0; i < expectation_kinds; ++i) names.push_back(name_of(static_cast<Expectation::Kind>(i)));
  Expectation e;
  e.at = e.number_at = e.fault_at = item.at();
  const auto chosen = choose_key(item, names, true, report);
  item.finish();
  if (!chosen) return e;
  e.kind = static_cast<Expectation::Kind>(std::find(names.begin(), names.end(), chosen->key) - names.begin());
  e.at = e.number_at = chosen->value.at;
  if (e.kind == Expectation::Kind::never) {
    read_never(chosen->value, e, report);
  } else {
    Section body(chosen->value, report);
    read_body(body, e, report);
  }
  return e;
}

}  // namespace

void read_expectations(Section& root, ScenarioDraft& draft, Report& report) {
  const auto value = root.value("expect");
  const auto items = value ? read_list(*value, {0, expectations_at_most}, "expectations", report) : std::nullopt;
  if (!items) return;
  for (const Value& item : *items) draft.scenario.expect.push_back(read_expectation(item, report));
}

void read_calm(Section& root, ScenarioDraft& draft) {
  if (!root.value("calm")) return;
  Section calm = root.section("calm", true);
  const auto from = calm.integer<std::uint32_t>("iteration", 1, most_iterations);
  Section progress = calm.section("progress", true);
  const auto within = progress.duration("within", waiting_time);
  progress.finish();
  calm.finish();
  if (from && within) draft.scenario.calm = Calm{{from.value}, within.value, from.at};
}

}  // namespace stagecraft
