// The verbs that change a running job: migrate, checkpoint now, stop.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "config/diagnostics.hpp"
#include "model/checkpoint/checkpoint_folder.hpp"
#include "tools/verb_parts.hpp"

namespace stagecraft::tools {

namespace {

constexpr const char* migrate_forms =
    "expected `layers A-B to stage/N`, with layers and stages counted from 0, or `layout [N, N, ..]`, with layers per "
    "chunk";

Senseless not_a_move(const std::string& got) {
  return {fmt::format("{}, got {}", migrate_forms, stagecraft::quoted(got))};
}

// "3" or "3-4".
std::optional<LayerRun> parse_run(std::string_view text) {
  constexpr std::uint32_t most = 1'000'000;
  const std::size_t dash = text.find('-');
  const auto first = parse_number(text.substr(0, dash));
  const auto last = dash == std::string_view::npos ? first : parse_number(text.substr(dash + 1));
  if (!first || !last || *first > *last || *last >= most) return std::nullopt;
  return LayerRun{*first, *last + 1};
}

// "[2, 2, 2, 2]", in however many words, also without the brackets.
std::optional<Layout> parse_layout(const Words& words) {
  std::string text = fmt::format("{}", fmt::join(words, " "));
  for (char& c : text)
    if (c == '[' || c == ']' || c == ',') c = ' ';
  Layout layout;
  for (std::size_t at = text.find_first_not_of(' '); at != std::string::npos; at = text.find_first_not_of(' ', at)) {
    const std::size_t end = std::min(text.find(' ', at), text.size());
    const auto number = parse_number(std::string_view(text).substr(at, end - at));
    if (!number) return std::nullopt;
    layout.push_back(*number);
    at = end;
  }
  if (layout.empty()) return std::nullopt;
  return layout;
}

std::optional<Layout> layout_in(const Json& arguments) {
  constexpr std::size_t most = 4096;
  if (!arguments["layout"].is_array() || arguments["layout"].empty() || arguments["layout"].size() > most)
    return std::nullopt;
  Layout layout;
  for (const Json& item : arguments["layout"]) {
    if (!item.is_number_unsigned() || item.get<std::uint64_t>() > UINT32_MAX) return std::nullopt;
    layout.push_back(item.get<std::uint32_t>());
  }
  return layout;
}

// {"layers": "3-4", "stage": 1} or {"layout": [2, 2]}
std::variant<Move, Senseless> move_in(const Json& arguments) {
  constexpr std::array<std::string_view, 3> known{"layers", "stage", "layout"};
  if (auto wrong = check_arguments(arguments, known)) return std::move(*wrong);
  const bool whole = arguments.contains("layout"), some = arguments.contains("layers") || arguments.contains("stage");
  Move move;
  if (whole && !some) {
    const auto layout = layout_in(arguments);
    if (!layout) return Senseless{"expected a list of whole numbers as 'layout', such as [2, 2, 2, 2]"};
    move.layout = *layout;
    return move;
  }
  const auto stage = number_in(arguments, "stage");
  const auto run = arguments.contains("layers") && arguments["layers"].is_string()
                       ? parse_run(arguments["layers"].get<std::string>())
                       : std::nullopt;
  if (whole || !stage || !run) return Senseless{"expected 'layers' such as \"3-4\" and 'stage', or 'layout'"};
  move.layers = *run;
  move.to = {*stage};
  return move;
}

}  // namespace

std::variant<Json, Senseless> read_migrate(const Words& words) {
  const std::string all = fmt::format("{}", fmt::join(words, " "));
  if (words.empty()) return Senseless{migrate_forms};
  if (words.front() == "layout") {
    const auto layout = parse_layout({words.begin() + 1, words.end()});
    if (!layout) return not_a_move(all);
    return Json{{"layout", *layout}};
  }
  constexpr std::string_view to_stage = "stage/";
  const bool is_run = words.size() == 4 && (words[0] == "layers" || words[0] == "layer") && parse_run(words[1]);
  if (!is_run || words[2] != "to" || !words[3].starts_with(to_stage)) return not_a_move(all);
  const auto stage = parse_number(std::string_view(words[3]).substr(to_stage.size()));
  if (!stage) return not_a_move(all);
  return Json{{"layers", words[1]}, {"stage", *stage}};
}

Served serve_migrate(const Json& arguments, RunningJob& job, pid_t process) {
  auto move = move_in(arguments);
  if (auto* wrong = std::get_if<Senseless>(&move)) return Answer{Outcome::bad_request, std::move(wrong->why)};
  if (job.paused())
    return Answer{Outcome::refused, "the job is paused, and layers move while it trains: `resume` first"};
  auto& wish = std::get<Move>(move);
  wish.why = asker_text(process);
  return Waiting{job.move(std::move(wish))};
}

Served serve_checkpoint(const Json& arguments, RunningJob& job, pid_t) {
  if (const auto wrong = check_arguments(arguments, {})) return Answer{Outcome::bad_request, wrong->why};
  return Waiting{job.keep_checkpoint()};
}

Answer settle_checkpoint(const WishAnswer& answer, const RunningJob& job) {
  if (answer.fate == WishAnswer::Fate::refused) return {Outcome::refused, answer.text};
  Json data{{"iteration", answer.iteration.value}};
  if (answer.fate == WishAnswer::Fate::given_up) return {Outcome::given_up, answer.text, std::move(data)};
  const std::string path = job.checkpoint_folder() + "/" + StepFolder{answer.iteration.value}.name();
  data["path"] = path;
  return {Outcome::done, fmt::format("{}: '{}'", answer.text, path), std::move(data)};
}

Served serve_stop(const Json& arguments, RunningJob& job, pid_t) {
  if (const auto wrong = check_arguments(arguments, {})) return Answer{Outcome::bad_request, wrong->why};
  job.stop();
  return Waiting{};
}

}  // namespace stagecraft::tools
