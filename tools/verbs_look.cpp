// The verbs that look at a running job: status, list, get, watch.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "config/diagnostics.hpp"
#include "tools/job_view.hpp"
#include "tools/table.hpp"
#include "tools/verb_parts.hpp"

namespace stagecraft::tools {

namespace {

struct Kind {
  std::string_view name, one;
  Json (*rows)(const RunningJob&);
};
constexpr std::array<Kind, 6> kinds{{{"stages", "stage", stages_of},
                                     {"nodes", "node", nodes_of},
                                     {"links", "link", links_of},
                                     {"devices", "device", devices_of},
                                     {"faults", "fault", faults_of},
                                     {"actors", "actor", actors_of}}};

std::vector<std::string> kind_names() {
  std::vector<std::string> names;
  for (const Kind& kind : kinds) names.emplace_back(kind.name);
  return names;
}

std::string cell(const Json& value) {
  if (value.is_null()) return "?";
  return value.is_string() ? value.get<std::string>() : value.dump();
}

// Rows of the same keys as a table with these as its head.
std::string table_text(const Json& rows) {
  if (!rows.is_array() || rows.empty()) return "  none\n";
  std::vector<std::string> head;
  for (const auto& [key, value] : rows.front().items()) {
    std::string title = key;
    std::replace(title.begin(), title.end(), '_', ' ');
    head.push_back(title);
  }
  Table out(head);
  for (const Json& row : rows) {
    std::vector<std::string> cells;
    for (const auto& [key, value] : row.items()) cells.push_back(cell(value));
    cells.resize(head.size());
    out.add(std::move(cells));
  }
  return out.text();
}

std::string seconds_text(double seconds) {
  return seconds < 10 ? fmt::format("{:.1f} s", seconds) : fmt::format("{:.0f} s", seconds);
}

std::string losses_text(const Json& losses) {
  std::vector<std::string> texts;
  for (const Json& x : losses) texts.push_back(fmt::format("{} ({})", x.value("who", ""), x.value("times", 0U)));
  return texts.empty() ? "none" : fmt::format("{}", fmt::join(texts, ", "));
}

Answer senseless(std::string why) { return {Outcome::bad_request, std::move(why)}; }

// How long a job may go without a commit, and who says so. The job ends itself after these deadlines of its topology.
struct ProgressLimit {
  Duration most{};
  std::string_view source;
};
ProgressLimit progress_limit(const Json& arguments, const RunningJob& job) {
  const TimeoutsSpec& t = job.topology().timeouts;
  if (const auto within = number_in(arguments, "within_ms")) return {std::chrono::milliseconds(*within), "--within"};
  if (!job.newest()) return {t.stage + t.iteration, "timeouts.stage and timeouts.iteration"};
  return {t.iteration, "timeouts.iteration"};
}

// The status as the answer to whether the job gets on.
Answer checked(const Json& arguments, const RunningJob& job, Json data) {
  const ProgressLimit limit = progress_limit(arguments, job);
  const Duration since = since_progress(job);
  const std::string age = seconds_text(data.value("since_progress_s", 0.0));
  const std::string where = first_line(data);
  data["may_take_s"] = static_cast<double>(limit.most.count()) / 1e9;
  if (since > limit.most && !job.paused())
    return {Outcome::late,
            fmt::format("no progress for {}, it may take {} ({}): {}", age, format(limit.most), limit.source, where),
            std::move(data)};
  return {Outcome::done,
          fmt::format("{}; {}, it may take {} ({})", where, progress_text(data), format(limit.most), limit.source),
          std::move(data)};
}

}  // namespace

std::string first_line(const Json& status) {
  std::string out = fmt::format("job {}: iteration {} of {}", status.value("job", ""), status.value("iteration", 0U),
                                status.value("iterations", 0U));
  if (status["iteration_ms"].is_null()) {
    out += ", none of this run is done yet";
  } else {
    const double ms = status["iteration_ms"].get<double>();
    if (status["loss"].is_number()) out += fmt::format(", loss {:.4f}", status["loss"].get<double>());
    out += fmt::format(", {:.1f} ms", ms);
    if (status["loss"].is_number() && ms > 0)
      out += fmt::format(", {:.0f} tokens/s", 1e3 * status.value("tokens", 0.0) / ms);
  }
  if (status.value("paused", false)) out += ", paused";
  return out + (status.value("stopping", false) ? ", stopping" : "");
}

std::string progress_text(const Json& status) {
  const char* since = status["iteration_ms"].is_null() ? "the start, without an iteration" : "the last iteration";
  return fmt::format("since {}: {}", since, seconds_text(status.value("since_progress_s", 0.0)));
}

std::string name_of_row(std::string_view one, const Json& row) {
  std::string title = row.front().get<std::string>();
  return title.find('/') == std::string::npos ? fmt::format("{}/{}", one, title) : title;
}

// `--check`, and behind it `--within DURATION`.
std::variant<Json, Senseless> read_status(const Words& words) {
  constexpr Duration longest = std::chrono::hours(1000);
  if (words.empty()) return Json::object();
  const bool has_limit = words.size() > 1;
  if (words[0] != "--check" || (has_limit && (words.size() != 3 || words[1] != "--within")))
    return Senseless{fmt::format("expected nothing more, or --check, or --check --within DURATION, got {}",
                                 stagecraft::quoted(fmt::format("{}", fmt::join(words, " "))))};
  Json arguments{{"check", true}};
  if (!has_limit) return arguments;
  const auto within = parse_duration(words[2]);
  const auto ms = within ? std::chrono::duration_cast<std::chrono::milliseconds>(*within).count() : 0;
  if (ms <= 0 || *within > longest)
    return Senseless{fmt::format("--within: expected a time with a unit, from 1ms to 1000h, such as 30s, got {}",
                                 stagecraft::quoted(words[2]))};
  arguments["within_ms"] = ms;
  return arguments;
}

Served serve_status(const Json& arguments, RunningJob& job, pid_t) {
  constexpr std::array<std::string_view, 2> known{"check", "within_ms"};
  if (const auto wrong = check_arguments(arguments, known)) return senseless(wrong->why);
  const bool checks = arguments.contains("check");
  if (checks && arguments["check"] != true) return senseless("expected true as 'check', or none");
  if (arguments.contains("within_ms") && (!checks || !number_in(arguments, "within_ms")))
    return senseless("expected a number of milliseconds below 2^32 as 'within_ms', and 'check' beside it");
  Json data = status_of(job);
  if (checks) return checked(arguments, job, std::move(data));
  std::string text = first_line(data);
  return Answer{Outcome::done, std::move(text), std::move(data)};
}

std::string show_status(const Answer& answer) {
  const Json& j = answer.data;
  if (j.contains("may_take_s")) return answer.text + "\n";
  return answer.text + "\n" +
         fmt::format(
             "  layout {}, {} moves made, lost so far: {}\n  {}\n\n",
             j.value("layout", Layout{}).empty() ? std::string("?") : stagecraft::to_text(j["layout"].get<Layout>()),
             j.value("moves", 0U), losses_text(j.value("losses", Json::array())), progress_text(j)) +
         table_text(j.value("stages", Json::array())) + "\n" + table_text(j.value("nodes", Json::array()));
}

std::variant<Json, Senseless> read_list(const Words& words) {
  const std::string expected = "expected one of " + joined(kind_names());
  if (words.empty()) return Senseless{expected};
  if (words.size() > 1) return Senseless{fmt::format("{}, got {} more words", expected, words.size() - 1)};
  return Json{{"kind", words.front()}};
}

Served serve_list(const Json& arguments, RunningJob& job, pid_t) {
  constexpr std::array<std::string_view, 1> known{"kind"};
  if (const auto wrong = check_arguments(arguments, known)) return senseless(wrong->why);
  const auto name = arguments.contains("kind") && arguments["kind"].is_string() ? arguments["kind"].get<std::string>()
                                                                                : std::string();
  const auto kind = std::find_if(kinds.begin(), kinds.end(), [&](const Kind& k) { return k.name == name; });
  if (kind == kinds.end()) {
    const auto names = kind_names();
    return senseless(fmt::format("expected one of {}, got {}{}", joined(names), stagecraft::quoted(name),
                                 did_you_mean(name, names)));
  }
  Json rows = kind->rows(job);
  return Answer{Outcome::done, fmt::format("{} {}", rows.size(), name), Json{{name, std::move(rows)}}};
}

std::string show_list(const Answer& answer) {
  return answer.data.empty() ? answer.text + "\n" : table_text(answer.data.front());
}

std::variant<Json, Senseless> read_get(const Words& words) {
  if (words.size() != 1 || words.front().find('/') == std::string::npos)
    return Senseless{"expected one thing, such as stage/2 or node/n0; `list` says which there are"};
  return Json{{"name", words.front()}};
}

// By what stands in the first column of its list: "stage/2"; of a node or a device, behind the slash.
Served serve_get(const Json& arguments, RunningJob& job, pid_t) {
  constexpr std::array<std::string_view, 1> known{"name"};
  if (const auto wrong = check_arguments(arguments, known)) return senseless(wrong->why);
  const auto name = arguments.contains("name") && arguments["name"].is_string() ? arguments["name"].get<std::string>()
                                                                                : std::string();
  const std::size_t slash = name.find('/');
  const auto kind =
      std::find_if(kinds.begin(), kinds.end(), [&](const Kind& k) { return k.one == name.substr(0, slash); });
  if (slash == std::string::npos || kind == kinds.end())
    return senseless(fmt::format("expected stage/N, node/NAME, link/N-N, device/NAME or fault/ID, got {}",
                                 stagecraft::quoted(name)));
  Json found = Json::array();
  std::vector<std::string> names;
  for (Json& row : kind->rows(job)) {
    std::string title = name_of_row(kind->one, row);
    if (title == name) found.push_back(row);
    if (std::find(names.begin(), names.end(), title) == names.end()) names.push_back(title);
  }
  if (found.empty()) {
    constexpr std::size_t most = 12;
    const std::string hint = did_you_mean(name, names);
    const bool cut = names.size() > most;
    if (cut) names.resize(most);
    return Answer{Outcome::refused, fmt::format("there is no {}; there are {}{}{}", stagecraft::quoted(name),
                                                joined(names), cut ? ", ..." : "", hint)};
  }
  return Answer{Outcome::done, name, Json{{std::string(kind->one), std::move(found)}}};
}

std::string show_get(const Answer& answer) {
  std::string out;
  for (const Json& row : answer.data.empty() ? Json::array() : answer.data.front()) {
    for (const auto& [key, value] : row.items()) out += fmt::format("  {:<12}{}\n", key, cell(value));
    out += "\n";
  }
  if (!out.empty()) out.pop_back();
  return out;
}

std::variant<Json, Senseless> read_watch(const Words& words) {
  if (words.empty()) return Json::object();
  const auto times = parse_number(words.front());
  if (words.size() > 1 || !times || *times == 0)
    return Senseless{fmt::format("expected how often, such as 10, got {}", stagecraft::quoted(words.front()))};
  return Json{{"times", *times}};
}

}  // namespace stagecraft::tools
