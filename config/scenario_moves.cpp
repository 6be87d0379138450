// The section moves: layers that move to other stages while the job runs.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <numeric>

#include "config/common_fields.hpp"
#include "config/scenario_draft.hpp"
#include "planning/partition.hpp"

namespace stagecraft {
namespace {

constexpr std::size_t most_moves = 1000;
constexpr std::uint32_t most_layers = 4096;

std::optional<std::uint32_t> parse_layer(std::string_view digits) {
  std::uint32_t number = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (error != std::errc{} || end != digits.data() + digits.size() || number >= most_layers) return std::nullopt;
  return number;
}

// "3" or "3-4".
LayerRun read_layers(const Value& value, Report& report) {
  const std::string_view text = value.node->text;
  const std::size_t dash = text.find('-');
  const bool scalar = value.node->kind == YamlNode::Kind::scalar;
  const auto first = scalar ? parse_layer(text.substr(0, dash)) : std::nullopt;
  const auto last = dash == std::string_view::npos ? first : parse_layer(text.substr(dash + 1));
  if (first && last && *first <= *last) return {*first, *last + 1};
  report.add(ErrorCode::wrong_type, value.at, value.path,
             fmt::format("expected a layer or a run of layers, counted from 0, the smaller one first, got {}; write "
                         "for example 3 or 3-4",
                         scalar ? quoted(text) : "no text"));
  return {};
}

Layout read_layout(const Value& value, Report& report) {
  Layout layout;
  const auto items = read_list(value, {1, 1024}, "layers per chunk in model order", report);
  if (!items) return layout;
  for (const Value& item : *items)
    layout.push_back(static_cast<std::uint32_t>(read_integer(item, {0, most_layers}, report).value_or(0)));
  return layout;
}

MoveSpec read_move(const Value& value, Report& report) {
  Section move(value, report);
  for (const char* key : {"at", "layers", "to", "layout"}) move.value(key);
  MoveSpec spec;
  spec.what_at = move.at();
  Section at = move.section("at", true);
  const auto iteration = at.integer<std::uint32_t>("iteration", 1, most_iterations);
  spec.iteration = {iteration.value};
  spec.at = iteration.at;
  at.finish();
  const auto what = choose_key(move, {"layers", "layout"}, true, report);
  if (what) spec.what_at = what->value.at;
  if (what && what->key == "layout") {
    spec.layout = read_layout(what->value, report);
    if (const auto to = move.value("to"))
      report.add(ErrorCode::one_of_keys, to->at, to->path,
                 "expected no 'to' beside a layout, which says where every layer goes, got one; remove one of them");
  } else if (what) {
    spec.layers = read_layers(what->value, report);
    Section to = move.section("to", true);
    spec.to = {to.integer<std::uint32_t>("stage", 0, 1023).value};
    to.finish();
  }
  move.finish();
  return spec;
}

// The layout after a move; empty when it has been reported that there is none.
Layout after(const MoveSpec& move, const Layout& before, const Topology& topology, const std::string& path,
             Report& report) {
  const auto refuse = [&](std::string_view key, const std::string& text) {
    report.add(ErrorCode::impossible_move, move.what_at, fmt::format("{}.{}", path, key), text);
    return Layout{};
  };
  const PipelineShape shape = topology.pipeline.shape();
  if (move.layout.empty()) {
    const auto moved = with_layers_moved(shape, before, move.layers, move.to);
    if (const auto* why = std::get_if<std::string>(&moved)) return refuse("layers", *why);
    return std::get<Layout>(moved);
  }
  const std::uint64_t all = std::accumulate(move.layout.begin(), move.layout.end(), std::uint64_t{0});
  if (check_layout(move.layout, topology.model.layers, shape.total_chunks()))
    return refuse("layout", fmt::format("expected {} entries with {} layers in all, got {} with {}",
                                        shape.total_chunks(), topology.model.layers, move.layout.size(), all));
  if (transfers_between(shape, before, move.layout).empty())
    return refuse("layout", fmt::format("expected another layout than {}, which is in force then: no layer would "
                                        "change its stage",
                                        to_text(before)));
  return move.layout;
}

}  // namespace

void read_moves(Section& root, ScenarioDraft& draft, Report& report) {
  const auto value = root.value("moves");
  const auto items = value ? read_list(*value, {0, most_moves}, "moves", report) : std::nullopt;
  if (!items) return;
  for (const Value& item : *items) draft.scenario.moves.push_back(read_move(item, report));
}

void check_moves(const Scenario& scenario, const Topology& topology, Report& report) {
  if (scenario.moves.empty()) return;
  if (!topology.recovery.twins) {
    report.add(ErrorCode::impossible_move, scenario.moves.front().what_at, "moves[0]",
               "expected no move in a job that keeps no twins (recovery.twins: false), as a twin is what follows the "
               "layers before they move; set recovery.twins: true");
    return;
  }
  std::vector<std::size_t> order(scenario.moves.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return scenario.moves[a].iteration < scenario.moves[b].iteration;
  });
  Layout layout = topology.pipeline.layout;
  for (const std::size_t i : order) {
    const MoveSpec& move = scenario.moves[i];
    const std::string path = fmt::format("moves[{}]", i);
    if (std::uint64_t{move.iteration.value} + 2 > topology.job.iterations) {
      report.add(ErrorCode::impossible_move, move.at, path + ".at.iteration",
                 fmt::format("expected at most job.iterations - 2 = {}, because layers follow in one iteration and are "
                             "voted on in the next, got {}; lower it, or run more iterations",
                             std::int64_t{topology.job.iterations} - 2, move.iteration.value));
      continue;
    }
    Layout next = after(move, layout, topology, path, report);
    if (next.empty()) return;  // the others were meant to follow it
    layout = std::move(next);
  }
}

}  // namespace stagecraft
