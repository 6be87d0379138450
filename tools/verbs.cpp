#include "tools/verbs.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "config/diagnostics.hpp"
#include "tools/expectation.hpp"
#include "tools/verb_parts.hpp"

namespace stagecraft::tools {

namespace {

constexpr std::array<std::string_view, 6> outcomes{"done", "refused", "given_up", "late", "bad_request", "unmet"};

const std::array<Verb, 23> table{{
    {"status", "[--check [--within DURATION]]",
     "where the job stands: iteration, loss, layout, stages, nodes, losses, moves; --check: does it get on? exit 4 if "
     "not",
     "status --check --within 30s", "--check --within", Verb::Kind::asks, read_status, serve_status, nullptr,
     show_status},
    {"list", "stages|nodes|links|devices|faults|actors", "a table of one kind of thing", "list stages",
     "stages nodes links devices faults actors", Verb::Kind::asks, read_list, serve_list, nullptr, show_list},
    {"get", "stage/N|node/NAME|...", "everything about one of them", "get stage/2", "stage/ node/ link/ device/",
     Verb::Kind::asks, read_get, serve_get, nullptr, show_get},
    {"migrate", "layers A-B to stage/N | layout [N, N, ..]",
     "move layers to another stage while the job trains; answered when they have moved, or why not",
     "migrate layers 3-4 to stage/1", "layers layout to stage/", Verb::Kind::asks, read_migrate, serve_migrate, nullptr,
     nullptr},
    {"checkpoint now", "", "keep the state after the iteration that runs; answered when it stands", "checkpoint now",
     "", Verb::Kind::asks, read_nothing, serve_checkpoint, settle_checkpoint, nullptr},
    {"pause", "", "let the iteration that runs end, and open no other one; answered when all stands still", "pause", "",
     Verb::Kind::asks, read_nothing, serve_pause, nullptr, nullptr},
    {"resume", "", "go on after a pause", "resume", "", Verb::Kind::asks, read_nothing, serve_resume, nullptr, nullptr},
    {"dump", "", "who waits for whom and since when, the first cause first", "dump", "", Verb::Kind::asks, read_nothing,
     serve_dump, settle_dump, show_dump},
    {"top", "", "what each stage was busy with in the newest whole iteration", "top", "", Verb::Kind::asks,
     read_nothing, serve_top, settle_top, show_top},
    {"plan", "", "the plan in force: every stage's operators in their order", "plan", "", Verb::Kind::asks,
     read_nothing, serve_plan, settle_plan, show_plan},
    {"why", "[COUNT]", "the newest decisions: plans, routes, moves, losses, and what they were made from", "why 5", "",
     Verb::Kind::asks, read_why, serve_why, settle_events, show_events},
    {"logs", "[COUNT] [stage/N]", "the newest events, of all or of one stage", "logs 30 stage/2", "stage/",
     Verb::Kind::asks, read_logs, serve_logs, settle_events, show_events},
    {"inject", "KIND on TARGET [KEY VALUE].. [for TIME]",
     "a fault strikes now: delay, throttle, link_down, slow, pause, kill, oom, nan; needs `run --faults` or `shell "
     "FILE`",
     "inject delay on link/0-1 constant 30ms for 10s",
     "delay throttle link_down slow pause kill oom nan on for link/ stage/", Verb::Kind::asks, read_inject,
     serve_inject, nullptr, nullptr},
    {"heal", "ID | all", "a fault is over", "heal all", "all", Verb::Kind::asks, read_heal, serve_heal, nullptr,
     nullptr},
    {"set", "[THRESHOLD VALUE]",
     "a threshold of the straggler detector, from the next iteration on; alone: all of them", "set smallest 0.2",
     "smallest slack alarm clip common far rare frequent", Verb::Kind::asks, read_set, serve_set, settle_set, show_set},
    {"stop", "", "end the job after the iteration that runs, with a checkpoint; answered when it has ended", "stop", "",
     Verb::Kind::asks, read_nothing, serve_stop, nullptr, nullptr},
    {"watch", "[TIMES]", "the first line of the status, each second until the job ends, or so often", "watch 10", "",
     Verb::Kind::watches, read_watch, nullptr, nullptr, nullptr},
    {"tap", "[COUNT] [stage/N]", "events as they happen, of all or of one stage, until the job ends, or so many",
     "tap stage/2", "stage/", Verb::Kind::taps, read_tap, nullptr, nullptr, nullptr},
    {"wait", "iteration N | DURATION | end [within DURATION]",
     "until that iteration is done, so long, or until the job has ended; exit 4 after 24 hours, or what `within` says",
     "wait iteration 40 within 60s", "iteration end within", Verb::Kind::waits, read_wait, serve_wait, nullptr,
     nullptr},
    {"expect", "KEY <|<=|=|!=|>=|> VALUE",
     "compares what `status --json` says now, single values and the layout; exit 1 when it is not so",
     "expect loss < 3.1", "loss iteration iteration_ms tokens layout moves since_progress_s < <= = != >= >",
     Verb::Kind::expects, read_expectation, nullptr, nullptr, nullptr},
    {"save", "FILE", "keep the lines so far that were obeyed as a script, for `shell --script FILE`", "save moves.txt",
     "", Verb::Kind::shell, read_save, nullptr, nullptr, nullptr},
    {"help", "[VERB]", "all verbs, or one with an example", "help migrate",
     "status list get migrate checkpoint pause resume dump top plan why logs inject heal set stop watch tap wait "
     "expect save quit",
     Verb::Kind::shell, read_anything, nullptr, nullptr, nullptr},
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
    case Outcome::unmet:
      return expectation_failed;
  }
  return bug;
}

Answer settled(const Verb& verb, const WishAnswer& x, const RunningJob& job) {
  if (verb.settle) return verb.settle(x, job);
  Json data = Json::object();
  if (x.iteration.value > 0) data["iteration"] = x.iteration.value;
  if (!x.layout.empty()) data["layout"] = x.layout;
  const Outcome outcome = x.fate == WishAnswer::Fate::done      ? Outcome::done
                          : x.fate == WishAnswer::Fate::refused ? Outcome::refused
                                                                : Outcome::given_up;
  return {outcome, x.text, std::move(data)};
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
  return Senseless{fmt::format("expected one of {}, got {}{}", joined(names()), stagecraft::quoted(words.front()),
                               did_you_mean_verb(words.front()))};
}

std::string usage_of(const Verb& verb) {
  return verb.words.empty() ? std::string(verb.name) : fmt::format("{} {}", verb.name, verb.words);
}

std::string asker_text(pid_t process) {
  return process > 0 ? fmt::format("by hand, process {}", process) : "by the script";
}

std::variant<Json, Senseless> read_anything(const Words&) { return Json::object(); }

std::variant<Json, Senseless> read_nothing(const Words& words) {
  if (words.empty()) return Json::object();
  return Senseless{fmt::format("expected nothing more, got {}", stagecraft::quoted(words.front()))};
}

std::variant<Json, Senseless> read_save(const Words& words) {
  if (words.size() == 1) return Json{{"path", words.front()}};
  return Senseless{fmt::format("expected the name of a file without blanks, such as moves.txt, got {}",
                               words.empty() ? std::string("none") : fmt::format("{} words", words.size()))};
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
                                   known.empty() ? "none" : fmt::format("{}", fmt::join(known, ", ")),
                                   stagecraft::quoted(key))};
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
