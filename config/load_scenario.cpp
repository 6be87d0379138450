#include "config/load_scenario.hpp"

#include <fmt/format.h>

#include <charconv>
#include <filesystem>
#include <limits>
#include <utility>

#include "config/common_fields.hpp"
#include "config/scenario_draft.hpp"

namespace stagecraft {
namespace {

using namespace std::chrono_literals;

// A path within the scenario's folder, from where the scenario's own path starts.
std::string beside(const std::string& file_name, const std::string& path) {
  return (std::filesystem::path(file_name).parent_path() / path).lexically_normal().string();
}

std::optional<std::uint64_t> parse_number(std::string_view digits) {
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (error != std::errc{} || end != digits.data() + digits.size()) return std::nullopt;
  return number;
}

// A..B. Everything else is read as one number, which also says what is wrong with it.
void read_seeds(Section& root, Scenario& scenario, Report& report) {
  const auto value = root.value("seeds");
  if (!value) return;
  const std::string_view text = value->node->text;
  const std::size_t dots = text.find("..");
  if (value->node->kind != YamlNode::Kind::scalar || dots == std::string_view::npos) {
    const auto seed = read_integer(*value, {0, std::numeric_limits<std::uint64_t>::max()}, report, "A..B");
    scenario.first_seed = scenario.last_seed = seed.value_or(1);
    return;
  }
  const auto first = parse_number(text.substr(0, dots)), last = parse_number(text.substr(dots + 2));
  if (!first || !last) {
    report.add(ErrorCode::wrong_type, value->at, value->path,
               fmt::format("expected a number or A..B, got {}; write for example 1..100", quoted(text)));
    return;
  }
  if (*first > *last || *last - *first >= most_seeds) {
    report.add(ErrorCode::out_of_range, value->at, value->path,
               fmt::format("expected 1 to {} seeds, the smaller one first, got {}; write for example 1..100",
                           most_seeds, quoted(text)));
    return;
  }
  scenario.first_seed = *first;
  scenario.last_seed = *last;
}

void read_set(Section& root, Scenario& scenario, Report& report) {
  const auto value = root.value("set");
  const auto items = value ? read_list(*value, {0, 256}, "overrides (dotted.key=value)", report) : std::nullopt;
  if (!items) return;
  for (const Value& item : *items) {
    if (auto text = read_text(item, 4096, report)) {
      scenario.set.push_back(std::move(*text));
      scenario.set_at.push_back(item.at);
    }
  }
}

void read_head(Section& root, Scenario& scenario, Report& report) {
  scenario.name = read_line(root, "name", 200, std::nullopt, report).value;
  scenario.shows = read_line(root, "shows", 2000, "", report).value;
  const auto topology = read_line(root, "topology", 4096, std::nullopt, report);
  scenario.topology_at = topology.at;
  if (topology) scenario.topology = beside(scenario.file, topology.value);
  read_set(root, scenario, report);
  const auto world =
      root.choice<ScenarioWorld>("world", {{"virtual", ScenarioWorld::virtual_clock}, {"real", ScenarioWorld::real}},
                                 ScenarioWorld::virtual_clock);
  scenario.world = world.value;
  read_seeds(root, scenario, report);
  const Bounds<Duration> bearable{.low = 1ms, .high = waiting_time.high};
  scenario.deadline = root.duration("deadline", bearable, usual_deadline(scenario.world)).value;
}

void read_all(Section& root, ScenarioDraft& draft, Report& report) {
  // Asked for in the order of the reference, so that messages list them so.
  for (const char* key :
       {"name", "shows", "topology", "set", "world", "seeds", "deadline", "faults", "moves", "expect", "calm"})
    root.value(key);
  read_head(root, draft.scenario, report);
  read_faults(root, draft, report);
  read_moves(root, draft, report);
  read_expectations(root, draft, report);
  read_calm(root, draft);
  root.finish();
}

}  // namespace

ScenarioResult load_scenario(const std::string& file_name, const std::string& text) {
  Report report(file_name, {});
  const auto tree = parse_yaml(text, report);
  if (!tree) return {std::nullopt, report.sorted()};
  Section root(Value{&*tree, tree->at, ""}, report);
  if (!root.given() || !check_version(root, report)) return {std::nullopt, report.sorted()};
  ScenarioDraft draft;
  draft.scenario.file = file_name;
  read_all(root, draft, report);
  check_names(draft, report);
  check_faults(draft, report);
  check_spans(draft.scenario, draft.damaged, std::nullopt, report);
  if (report.has_errors()) return {std::nullopt, report.sorted()};
  return {std::move(draft.scenario), report.sorted()};
}

std::vector<Diagnostic> cite_scenario(const Scenario& scenario, std::vector<Diagnostic> diagnostics) {
  for (Diagnostic& d : diagnostics) {
    if (!d.at.override_number) continue;
    const std::uint32_t number = *d.at.override_number;
    d.source = scenario.file;
    d.message = fmt::format("set[{}] {}: {}", number, stagecraft::quoted(scenario.set.at(number)), d.message);
    d.at = scenario.set_at.at(number);
  }
  return diagnostics;
}

}  // namespace stagecraft
