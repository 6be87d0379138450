#include "tools/verbs.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "config/diagnostics.hpp"
#include "tools/verb_parts.hpp"

namespace stagecraft::tools {

namespace {

constexpr std::array<std::string_view, 5> outcomes{"done", "refused", "given_up", "late", "bad_request"};

const std::array<Verb, 9> table{{
    {"status", "", "where the job stands: iteration, loss, layout, stages, nodes, losses, moves", "status", "",
     Verb::Kind::asks, read_nothing, serve_status, nullptr, show_status},
    {"list", "stages|nodes|links|devices", "a table of one kind of thing", "list stages", "stages nodes links devices",
     Verb::Kind::asks, read_list, serve_list, nullptr, show_list},
    {"get", "stage/N|node/NAME|...", "everything about one of them", "get stage/2", "stage/ node/ link/ device/",
     Verb::Kind::asks, read_get, serve_get, nullptr, show_get},
    {"migrate", "layers A-B to stage/N | layout [N, N, ..]",
     "move layers to another stage while the job trains; answered when they have moved, or why not",
     "migrate layers 3-4 to stage/1", "layers layout to stage/", Verb::Kind::asks, read_migrate, serve_migrate, nullptr,
     nullptr},
    {"checkpoint now", "", "keep the state after the iteration that runs; answered when it stands", "checkpoint now",
     "", Verb::Kind::asks, read_nothing, serve_checkpoint, settle_checkpoint, nullptr},
    {"stop", "", "end the job after the iteration that runs, with a checkpoint; answered when it has ended", "stop", "",
     Verb::Kind::asks, read_nothing, serve_stop, nullptr, nullptr},
    {"watch", "[TIMES]", "the first line of the status, each second until the job ends, or so often", "watch 10", "",
     Verb::Kind::watches, read_watch, nullptr, nullptr, nullptr},
    {"help", "[VERB]", "all verbs, or one with an example", "help migrate",
     "status list get migrate checkpoint stop watch quit", Verb::Kind::shell, read_anything, nullptr, nullptr, nullptr},
    {"quit", "", "leave the shell; a job that it attached to runs on", "quit", "", Verb::Kind::shell, read_nothing,
     nullptr, nullptr, nullptr},
}};

std::vector<std::string> names() {
  std::vector<std::string> all;
  for (const Verb& verb : table) all.emplace_back(verb.name);
  return all;
}

// How many of the words are the verb's name.
std::size_t name_words(const Verb& verb) {
  return 1 + static_cast<std::size_t>(std::count(verb.name.begin(), verb.name.end(), ' '));
}

}  // namespace

std::string_view to_text(Outcome outcome) { return outcomes[static_cast<std::size_t>(outcome)]; }

std::optional<Outcome> parse_outcome(std::string_view text) {
  const auto it = std::find(outcomes.begin(), outcomes.end(), text);
  if (it == outcomes.end()) return std::nullopt;
  return static_cast<Outcome>(it - outcomes.begin());
}

ExitCode exit_code(Outcome outcome) {
  switch (outcome) {
    case Outcome::done:
      return done;
    case Outcome::refused:
    case Outcome::bad_request:
      return bad_input;
    case Outcome::given_up:
      return fault;
    case Outcome::late:
      return no_progress;
  }
  return bug;
}

std::span<const Verb> verbs() { return table; }

const Verb* find_verb(std::string_view name) {
  const auto it = std::find_if(table.begin(), table.end(), [&](const Verb& v) { return v.name == name; });
  return it == table.end() ? nullptr : &*it;
}

std::string did_you_mean_verb(std::string_view name) { return did_you_mean(name, names()); }

std::variant<Typed, Senseless> parse_line(const Words& words) {
  for (const Verb& verb : table) {
    const std::size_t count = name_words(verb);
    if (words.size() < count) continue;
    const auto behind = words.begin() + static_cast<std::ptrdiff_t>(count);
    if (fmt::format("{}", fmt::join(words.begin(), behind, " ")) == verb.name)
      return Typed{&verb, {behind, words.end()}};
  }
  if (words.empty()) return Senseless{"expected a verb: " + joined(names())};
  return Senseless{fmt::format("expected one of {}, got {}{}", joined(names()), quoted(words.front()),
                               did_you_mean_verb(words.front()))};
}

std::string usage_of(const Verb& verb) {
  return verb.words.empty() ? std::string(verb.name) : fmt::format("{} {}", verb.name, verb.words);
}

std::variant<Json, Senseless> read_anything(const Words&) { return Json::object(); }

std::variant<Json, Senseless> read_nothing(const Words& words) {
  if (words.empty()) return Json::object();
  return Senseless{fmt::format("expected nothing more, got {}", quoted(words.front()))};
}

std::optional<std::uint32_t> parse_number(std::string_view text) {
  std::uint32_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || end != text.data() + text.size() || text.empty()) return std::nullopt;
  return number;
}

std::optional<Senseless> check_arguments(const Json& arguments, std::span<const std::string_view> known) {
  if (!arguments.is_object()) return Senseless{"expected an object as arguments"};
  for (const auto& [key, value] : arguments.items())
    if (std::find(known.begin(), known.end(), key) == known.end())
      return Senseless{fmt::format("expected arguments {}, got {}",
                                   known.empty() ? "none" : fmt::format("{}", fmt::join(known, ", ")), quoted(key))};
  return std::nullopt;
}

std::optional<std::uint32_t> number_in(const Json& arguments, const char* key) {
  const auto it = arguments.find(key);
  if (it == arguments.end() || !it->is_number_unsigned()) return std::nullopt;
  const auto number = it->get<std::uint64_t>();
  if (number > UINT32_MAX) return std::nullopt;
  return static_cast<std::uint32_t>(number);
}

}  // namespace stagecraft::tools
