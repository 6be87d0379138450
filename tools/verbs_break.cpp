// The verbs that break a running job, and mend it: inject, heal. A fault is that of a scenario file, in words.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>

#include "actors/faults/fault_board.hpp"
#include "config/diagnostics.hpp"
#include "config/load_scenario.hpp"
#include "tools/verb_parts.hpp"

namespace stagecraft::tools {

namespace {

constexpr const char* inject_form =
    "expected a fault such as `delay on link/0-1 constant 30ms for 10s`, `slow on stage/2 factor 1.5` or `kill on "
    "twin/1`; docs/scenarios.md has them all";
constexpr const char* no_faults =
    "this run takes no faults: start it with `run FILE --faults` or `shell FILE` (of one process)";

// What a flow of YAML takes for a plain word, whoever has typed it.
bool is_plain(std::string_view word) {
  return !word.empty() && std::all_of(word.begin(), word.end(), [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '.' || c == '_' || c == '-';
  });
}

// "link/0-1" -> "link: [0, 1]", "node/n0" -> "node: n0"
std::optional<std::string> target_yaml(std::string_view target) {
  const std::size_t slash = target.find('/');
  if (slash == std::string_view::npos) return std::nullopt;
  const std::string_view kind = target.substr(0, slash), name = target.substr(slash + 1);
  if (kind == "link") {
    const std::size_t dash = name.find('-');
    if (dash == std::string_view::npos || !parse_number(name.substr(0, dash)) || !parse_number(name.substr(dash + 1)))
      return std::nullopt;
    return fmt::format("link: [{}, {}]", name.substr(0, dash), name.substr(dash + 1));
  }
  if ((kind != "stage" && kind != "twin" && kind != "node") || !is_plain(name)) return std::nullopt;
  return fmt::format("{}: {}", kind, name);
}

// "10s" or "5 iterations"
std::optional<std::string> lasting_yaml(const std::string& text) {
  const std::size_t space = text.find(' ');
  if (space == std::string::npos) return is_plain(text) ? std::optional("time: " + text) : std::nullopt;
  const std::string word = text.substr(space + 1);
  if (!parse_number(text.substr(0, space)) || (word != "iterations" && word != "iteration")) return std::nullopt;
  return "iterations: " + text.substr(0, space);
}

// A text, or a whole number as one; empty: neither is there.
std::string text_in(const Json& arguments, const char* key) {
  const auto it = arguments.find(key);
  if (it == arguments.end() || !(it->is_string() || it->is_number_unsigned())) return {};
  return it->is_string() ? it->get<std::string>() : it->dump();
}

// {"do": "delay", "on": "link/0-1", "with": {"constant": "30ms"}, "direction": "forward", "for": "10s", "id": "slow"}
// -> the same in a scenario file of its own.
std::variant<std::string, Senseless> yaml_of(const Json& arguments, const std::string& id, bool is_virtual) {
  constexpr std::array<std::string_view, 7> known{"do", "on", "with", "direction", "replica", "for", "id"};
  if (auto wrong = check_arguments(arguments, known)) return std::move(*wrong);
  const std::string kind = text_in(arguments, "do");
  if (!is_plain(kind) || !is_plain(id)) return Senseless{inject_form};
  std::string fault = fmt::format("id: {}, do: {}", id, kind);
  if (arguments.contains("on")) {
    const auto target = target_yaml(text_in(arguments, "on"));
    if (!target)
      return Senseless{fmt::format("expected link/A-B, stage/N, twin/N or node/NAME behind `on`, got {}",
                                   stagecraft::quoted(text_in(arguments, "on")))};
    fault += ", on: { " + *target;
    for (const char* key : {"direction", "replica"}) {
      if (!arguments.contains(key)) continue;
      const std::string value = text_in(arguments, key);
      if (!is_plain(value))
        return Senseless{fmt::format("expected a word as '{}', got {}", key, arguments[key].dump())};
      fault += fmt::format(", {}: {}", key, value);
    }
    fault += " }";
  }
  std::vector<std::string> with;
  const Json given = arguments.value("with", Json::object());
  for (const auto& [key, value] : given.items()) {
    if (!is_plain(key) || !value.is_string() || !is_plain(value.get<std::string>())) return Senseless{inject_form};
    with.push_back(fmt::format("{}: {}", key, value.get<std::string>()));
  }
  if (!with.empty()) fault += fmt::format(", with: {{ {} }}", fmt::join(with, ", "));
  if (arguments.contains("for")) {
    const auto lasting = lasting_yaml(text_in(arguments, "for"));
    if (!lasting)
      return Senseless{fmt::format("expected a time such as 10s, or `5 iterations`, behind `for`, got {}",
                                   stagecraft::quoted(text_in(arguments, "for")))};
    fault += ", for: { " + *lasting + " }";
  }
  return fmt::format("version: 1\nname: by-hand\ntopology: running\nworld: {}\nfaults:\n  - {{ {} }}\n",
                     is_virtual ? "virtual" : "real", fault);
}

// Of the file that people never see.
std::string in_words(std::string message) {
  for (const auto& [path, words] : {std::pair<std::string_view, std::string_view>{"faults[0].", ""},
                                    {"'faults[0]'", "the fault"},
                                    {"faults[0]", "the fault"}})
    for (std::size_t at = message.find(path); at != std::string::npos; at = message.find(path))
      message.replace(at, path.size(), words);
  return message;
}

std::optional<Senseless> errors_among(const std::vector<Diagnostic>& diagnostics) {
  std::vector<std::string> texts;
  for (const Diagnostic& d : diagnostics)
    if (d.severity == Severity::error) texts.push_back(in_words(d.message));
  if (texts.empty()) return std::nullopt;
  return Senseless{fmt::format("{}", fmt::join(texts, "; "))};
}

std::variant<FaultSpec, Senseless> fault_of(const Json& arguments, const std::string& id, const RunningJob& job) {
  auto yaml = yaml_of(arguments, id, job.world().is_virtual());
  if (auto* wrong = std::get_if<Senseless>(&yaml)) return std::move(*wrong);
  ScenarioResult loaded = load_scenario("by hand", std::get<std::string>(yaml));
  if (auto wrong = errors_among(loaded.diagnostics)) return std::move(*wrong);
  if (auto wrong = errors_among(check_against(*loaded.scenario, job.topology()))) return std::move(*wrong);
  return loaded.scenario->faults.front();
}

// "hand-1", or what was given.
std::variant<std::string, Senseless> id_of_fault(const Json& arguments, const FaultBoard& board) {
  const std::vector<FaultSpec> faults = board.faults();
  const auto is_taken = [&](const std::string& id) {
    return std::any_of(faults.begin(), faults.end(), [&](const FaultSpec& f) { return f.id == id; });
  };
  if (arguments.contains("id")) {
    std::string id = text_in(arguments, "id");
    if (id == "all") return Senseless{"'all' is what `heal` calls all faults; take another id"};
    if (is_taken(id)) return Senseless{fmt::format("there is a fault {} already", stagecraft::quoted(id))};
    return id;
  }
  std::size_t n = faults.size() + 1;
  while (is_taken(fmt::format("hand-{}", n))) ++n;
  return fmt::format("hand-{}", n);
}

}  // namespace

// KIND [on TARGET] [KEY VALUE].. [for TIME | for N iterations]
std::variant<Json, Senseless> read_inject(const Words& words) {
  if (words.empty()) return Senseless{inject_form};
  Json arguments{{"do", words.front()}};
  for (std::size_t i = 1; i < words.size(); i += 2) {
    if (i + 1 == words.size())
      return Senseless{fmt::format("{}; nothing stands behind {}", inject_form, stagecraft::quoted(words[i]))};
    const std::string& key = words[i];
    std::string value = words[i + 1];
    if (key == "for" && i + 2 < words.size() && words[i + 2].starts_with("iteration")) {
      value += " " + words[i + 2];
      ++i;
    }
    if (arguments.contains(key) || arguments.value("with", Json::object()).contains(key))
      return Senseless{fmt::format("{} is there twice", stagecraft::quoted(key))};
    const bool of_fault = key == "on" || key == "for" || key == "id" || key == "direction" || key == "replica";
    (of_fault ? arguments[key] : arguments["with"][key]) = value;
  }
  return arguments;
}

Served serve_inject(const Json& arguments, RunningJob& job, pid_t process) {
  if (!job.takes_faults()) return Answer{Outcome::refused, no_faults};
  if (!arguments.is_object()) return Answer{Outcome::bad_request, "expected an object as arguments"};
  auto id = id_of_fault(arguments, *job.world().faults());
  if (auto* wrong = std::get_if<Senseless>(&id)) return Answer{Outcome::bad_request, std::move(wrong->why)};
  auto fault = fault_of(arguments, std::get<std::string>(id), job);
  if (auto* wrong = std::get_if<Senseless>(&fault)) return Answer{Outcome::bad_request, std::move(wrong->why)};
  return Waiting{job.inject(std::get<FaultSpec>(std::move(fault)), asker_text(process))};
}

std::variant<Json, Senseless> read_heal(const Words& words) {
  if (words.size() != 1) return Senseless{"expected the id of a fault, or `all`; `list faults` says which there are"};
  return words.front() == "all" ? Json::object() : Json{{"id", words.front()}};
}

Served serve_heal(const Json& arguments, RunningJob& job, pid_t process) {
  constexpr std::array<std::string_view, 1> known{"id"};
  if (const auto wrong = check_arguments(arguments, known)) return Answer{Outcome::bad_request, wrong->why};
  if (!job.takes_faults()) return Answer{Outcome::refused, no_faults};
  if (arguments.contains("id") && text_in(arguments, "id").empty())
    return Answer{Outcome::bad_request, "expected a text as 'id', or no 'id' for all"};
  return Waiting{job.heal(text_in(arguments, "id"), asker_text(process))};
}

}  // namespace stagecraft::tools
