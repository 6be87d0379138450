// The verbs that a running job has to ask its actors about: pause, resume, dump, plan, why, logs, set.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "config/diagnostics.hpp"
#include "planning/detector/settings.hpp"
#include "tools/verb_parts.hpp"

namespace stagecraft::tools {

namespace {

constexpr std::uint32_t most_events = 1000;

double seconds(Duration d) { return std::chrono::duration<double>(d).count(); }

Answer refusal(const WishAnswer& answer) {
  return {answer.fate == WishAnswer::Fate::refused ? Outcome::refused : Outcome::given_up, answer.text};
}

std::string age_text(const Json& row) { return fmt::format("{:.3f} s", row.value("seconds", 0.0)); }

// {"newest": 20, "stage": 2}, of which the verb takes some.
std::variant<AskEvents, Senseless> query_in(const Json& arguments, std::span<const std::string_view> known,
                                            std::uint32_t usual, const Topology& topology) {
  if (auto wrong = check_arguments(arguments, known)) return std::move(*wrong);
  AskEvents query;
  for (const char* key : {"newest", "after"})
    if (arguments.contains(key) && !arguments[key].is_number_unsigned())
      return Senseless{fmt::format("expected a whole number as '{}', got {}", key, arguments[key].dump())};
  query.most = arguments.contains("newest") ? number_in(arguments, "newest").value_or(0) : usual;
  query.after = arguments.value("after", std::uint64_t{0});
  if (query.most == 0 || query.most > most_events)
    return Senseless{fmt::format("expected 1 to {} as 'newest', got {}", most_events, arguments["newest"].dump())};
  if (!arguments.contains("stage")) return query;
  const auto stage = number_in(arguments, "stage");
  if (!stage || *stage >= topology.pipeline.stages)
    return Senseless{
        fmt::format("expected a stage from 0 to {}, got {}", topology.pipeline.stages - 1, arguments["stage"].dump())};
  for (std::uint32_t r = 0; r < topology.pipeline.replicas; ++r) query.of.push_back({{*stage}, {r}});
  return query;
}

Served ask_events(std::variant<AskEvents, Senseless> query, bool decisions, RunningJob& job) {
  if (auto* wrong = std::get_if<Senseless>(&query)) return Answer{Outcome::bad_request, std::move(wrong->why)};
  auto& ask = std::get<AskEvents>(query);
  ask.decisions = decisions;
  return Waiting{job.ask_events(std::move(ask))};
}

}  // namespace

Served serve_pause(const Json& arguments, RunningJob& job, pid_t process) {
  if (const auto wrong = check_arguments(arguments, {})) return Answer{Outcome::bad_request, wrong->why};
  return Waiting{job.pause(asker_text(process))};
}

Served serve_resume(const Json& arguments, RunningJob& job, pid_t process) {
  if (const auto wrong = check_arguments(arguments, {})) return Answer{Outcome::bad_request, wrong->why};
  return Waiting{job.resume(asker_text(process))};
}

Served serve_dump(const Json& arguments, RunningJob& job, pid_t) {
  if (const auto wrong = check_arguments(arguments, {})) return Answer{Outcome::bad_request, wrong->why};
  return Waiting{job.ask_waits()};
}

Answer settle_dump(const WishAnswer& answer, const RunningJob&) {
  if (answer.fate != WishAnswer::Fate::done) return refusal(answer);
  Json rows = Json::array();
  for (const AnswerRow& row : answer.rows)
    rows.push_back({{"who", row.who}, {"seconds", seconds(row.age)}, {"what", row.what}});
  return {Outcome::done, answer.text, Json{{"iteration", answer.iteration.value}, {"waits", std::move(rows)}}};
}

std::string show_dump(const Answer& answer) {
  std::string out = answer.text + "\n";
  for (const Json& row : answer.data.value("waits", Json::array()))
    out += fmt::format("  {:<24}{:>12}  {}\n", row.value("who", ""), age_text(row), row.value("what", ""));
  return out;
}

Served serve_top(const Json& arguments, RunningJob& job, pid_t) {
  if (const auto wrong = check_arguments(arguments, {})) return Answer{Outcome::bad_request, wrong->why};
  return Waiting{job.ask_top()};
}

Answer settle_top(const WishAnswer& answer, const RunningJob&) {
  if (answer.fate != WishAnswer::Fate::done) return refusal(answer);
  Json rows = Json::array();
  for (const AnswerRow& row : answer.rows)
    rows.push_back({{"who", row.who}, {"busy_ms", seconds(row.age) * 1e3}, {"what", row.what}});
  return {Outcome::done, answer.text, Json{{"iteration", answer.iteration.value}, {"stages", std::move(rows)}}};
}

std::string show_top(const Answer& answer) {
  std::string out = answer.text + "\n";
  for (const Json& row : answer.data.value("stages", Json::array()))
    out += fmt::format("  {:<24}{}\n", row.value("who", ""), row.value("what", ""));
  return out;
}

Served serve_plan(const Json& arguments, RunningJob& job, pid_t) {
  if (const auto wrong = check_arguments(arguments, {})) return Answer{Outcome::bad_request, wrong->why};
  return Waiting{job.ask_plan()};
}

Answer settle_plan(const WishAnswer& answer, const RunningJob&) {
  if (answer.fate != WishAnswer::Fate::done) return refusal(answer);
  Json rows = Json::array();
  for (const AnswerRow& row : answer.rows) rows.push_back({{"who", row.who}, {"plan", row.what}});
  return {Outcome::done, answer.text, Json{{"stages", std::move(rows)}}};
}

std::string show_plan(const Answer& answer) {
  std::string out = answer.text + "\n";
  for (const Json& row : answer.data.value("stages", Json::array()))
    out += fmt::format("  {}: {}\n", row.value("who", ""), row.value("plan", ""));
  return out;
}

// NAME VALUE, or nothing.
std::variant<Json, Senseless> read_set(const Words& words) {
  if (words.empty()) return Json::object();
  const Senseless wrong{"expected a threshold and its value, such as `smallest 0.2`; `set` alone shows all"};
  if (words.size() != 2) return wrong;
  double value = 0;
  const std::string& text = words[1];
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || !std::isfinite(value)) return wrong;
  return Json{{"name", words[0]}, {"value", value}};
}

Served serve_set(const Json& arguments, RunningJob& job, pid_t process) {
  constexpr std::array<std::string_view, 2> known{"name", "value"};
  if (const auto wrong = check_arguments(arguments, known)) return Answer{Outcome::bad_request, wrong->why};
  if (arguments.empty()) return Waiting{job.change_setting({}, 0, {})};
  if (!arguments.contains("name") || !arguments["name"].is_string() || !arguments.contains("value") ||
      !arguments["value"].is_number())
    return Answer{Outcome::bad_request, "expected a text as 'name' and a number as 'value'"};
  const auto name = arguments["name"].get<std::string>();
  std::vector<std::string> names;
  for (const DetectorSetting& s : listed({})) names.emplace_back(s.name);
  if (std::find(names.begin(), names.end(), name) == names.end())
    return Answer{Outcome::refused, fmt::format("there is no threshold {}{}; there are {}", stagecraft::quoted(name),
                                                did_you_mean(name, names), joined(names))};
  return Waiting{job.change_setting(name, arguments["value"].get<double>(), asker_text(process))};
}

Answer settle_set(const WishAnswer& answer, const RunningJob&) {
  if (answer.fate != WishAnswer::Fate::done) return refusal(answer);
  Json values = Json::object();
  for (const AnswerRow& row : answer.rows) values[row.who] = Json::parse(row.what);
  return {Outcome::done, answer.text, Json{{"thresholds", std::move(values)}}};
}

std::string show_set(const Answer& answer) {
  std::string out = answer.text + "\n";
  const Json thresholds = answer.data.value("thresholds", Json::object());
  for (const auto& [name, value] : thresholds.items()) out += fmt::format("  {:<18}{}\n", name, value.dump());
  return out;
}

std::variant<Json, Senseless> read_why(const Words& words) {
  if (words.empty()) return Json::object();
  const auto newest = parse_number(words.front());
  if (words.size() > 1 || !newest)
    return Senseless{fmt::format("expected how many decisions, such as 5, got {}",
                                 stagecraft::quoted(fmt::format("{}", fmt::join(words, " "))))};
  return Json{{"newest", *newest}};
}

Served serve_why(const Json& arguments, RunningJob& job, pid_t) {
  constexpr std::array<std::string_view, 1> known{"newest"};
  return ask_events(query_in(arguments, known, 10, job.topology()), true, job);
}

// Of the newest ones none is no number of them.
std::variant<Json, Senseless> read_tap(const Words& words) {
  auto read = read_logs(words);
  if (const auto* arguments = std::get_if<Json>(&read); arguments && arguments->value("newest", 1U) == 0)
    return Senseless{"expected how many events, such as 10, got 0"};
  return read;
}

// A number, a stage, or both.
std::variant<Json, Senseless> read_logs(const Words& words) {
  constexpr std::string_view of_stage = "stage/";
  Json arguments = Json::object();
  for (const std::string& word : words) {
    const bool is_stage = word.starts_with(of_stage);
    const auto number = parse_number(std::string_view(word).substr(is_stage ? of_stage.size() : 0));
    const char* key = is_stage ? "stage" : "newest";
    if (!number || arguments.contains(key))
      return Senseless{
          fmt::format("expected how many events, a stage such as stage/2, or both, got {}", stagecraft::quoted(word))};
    arguments[key] = *number;
  }
  return arguments;
}

Served serve_logs(const Json& arguments, RunningJob& job, pid_t) {
  constexpr std::array<std::string_view, 3> known{"newest", "stage", "after"};
  return ask_events(query_in(arguments, known, 20, job.topology()), false, job);
}

Answer settle_events(const WishAnswer& answer, const RunningJob&) {
  if (answer.fate != WishAnswer::Fate::done) return refusal(answer);
  Json rows = Json::array();
  for (const AnswerRow& row : answer.rows)
    rows.push_back({{"number", row.number},
                    {"seconds", seconds(row.age)},
                    {"iteration", row.iteration.value},
                    {"who", row.who},
                    {"what", row.what}});
  return {Outcome::done, answer.text, Json{{"events", std::move(rows)}}};
}

std::string show_events(const Answer& answer) {
  std::string out;
  for (const Json& row : answer.data.value("events", Json::array())) {
    const std::string who = row.value("who", "");
    const auto iteration = row.value("iteration", 0U);
    out += fmt::format("{:>10} ago{}: {}{}\n", age_text(row),
                       iteration > 0 ? fmt::format(", iteration {}", iteration) : "", who.empty() ? "" : who + ": ",
                       row.value("what", ""));
  }
  return out.empty() ? "none\n" : out;
}

}  // namespace stagecraft::tools
