#include "tools/talk.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <chrono>

#include "tools/await.hpp"
#include "tools/expectation.hpp"
#include "tools/output.hpp"

namespace stagecraft::tools {

namespace {

// On a terminal, while an answer takes its time.
class WaitingLine {
 public:
  WaitingLine() = default;
  ~WaitingLine() { clear(); }
  WaitingLine(const WaitingLine&) = delete;
  WaitingLine& operator=(const WaitingLine&) = delete;

  void show(const std::string& text) {
    if (!terminal_) return;
    complain("\r\033[K{}", text);
    drawn_ = true;
  }
  void clear() {
    if (std::exchange(drawn_, false)) complain("\r\033[K");
  }

 private:
  const bool terminal_ = isatty(STDERR_FILENO) != 0;
  bool drawn_ = false;
};

void say_json(const Json& j) {
  say("{}\n", j.dump(-1, ' ', false, Json::error_handler_t::replace));
  std::fflush(stdout);
}

Talked fail(const Trouble& trouble, bool json) {
  if (json) say_json({{"outcome", "unreachable"}, {"text", trouble.why}});
  complain("{}\n", trouble.why);
  return {trouble.code, trouble.gone};
}

int refuse_words(const std::string& why, bool json) {
  if (json) say_json({{"outcome", to_text(Outcome::bad_request)}, {"text", why}});
  complain("{}\n", why);
  return bad_input;
}

// Asks and waits for the answer, by the kind of the verb.
std::variant<Answer, Trouble> ask(ControlClient& client, const Verb& verb, const Json& arguments) {
  WaitingLine line;
  const auto waits = [&](const std::string& text) { line.show(text); };
  if (verb.kind == Verb::Kind::waits) return await_job(client, arguments, waits);
  if (verb.kind != Verb::Kind::expects) return client.ask(verb, arguments, waits);
  auto status = client.ask(*find_verb("status"), Json::object(), waits);
  auto* told = std::get_if<Answer>(&status);
  if (!told || told->outcome != Outcome::done) return status;
  return compare(arguments, told->data);
}

Talked ask_once(ControlClient& client, const Verb& verb, const Json& arguments, bool json) {
  const auto answered = ask(client, verb, arguments);
  if (const auto* trouble = std::get_if<Trouble>(&answered)) return fail(*trouble, json);
  const auto& answer = std::get<Answer>(answered);
  return {say_answer(verb, answer, client.path(), json), answer.data.value("ended", false)};
}

// The status, each second, until it has been shown so often, or the job is gone.
Talked watch(ControlClient& client, const Json& arguments, bool json) {
  const Verb& status = *find_verb("status");
  const std::uint32_t times = arguments.value("times", 0U);
  for (std::uint32_t n = 1;; ++n) {
    const auto answer = client.ask(status, Json::object(), [](const std::string&) {});
    if (const auto* trouble = std::get_if<Trouble>(&answer)) {
      if (!trouble->gone) return fail(*trouble, json);
      complain("the job has ended\n");
      return {done, true};
    }
    const auto& shown = std::get<Answer>(answer);
    if (json) {
      say_answer(status, shown, client.path(), true);
    } else {
      say("{}\n", shown.text);
      std::fflush(stdout);
    }
    if (shown.outcome != Outcome::done) return {exit_code(shown.outcome), false};
    if (n == times || !output_is_sound()) return {};  // nobody reads it any more, which main says
    if (const auto trouble = client.pause(std::chrono::seconds(1)); trouble && !trouble->gone)
      return fail(*trouble, json);
  }
}

// What happens from now on, as it happens.
Talked tap(ControlClient& client, const Json& arguments, bool json) {
  constexpr std::uint32_t most = 1000;
  constexpr Duration look_every = std::chrono::milliseconds(100);
  const Verb& logs = *find_verb("logs");
  const std::uint32_t wanted = arguments.value("newest", 0U);
  Json query{{"newest", 1}};
  for (std::uint32_t shown = 0; wanted == 0 || shown < wanted;) {
    const auto answered = client.ask(logs, query, [](const std::string&) {});
    if (const auto* trouble = std::get_if<Trouble>(&answered)) {
      if (!trouble->gone) return fail(*trouble, json);
      complain("the job has ended\n");
      return {done, true};
    }
    Answer answer = std::get<Answer>(answered);
    if (answer.outcome != Outcome::done) return {say_answer(logs, answer, client.path(), json), false};
    Json rows = answer.data.value("events", Json::array());
    const bool first = !query.contains("after");
    const std::uint64_t known = query.value("after", std::uint64_t{0});
    query = {{"newest", most}, {"after", rows.empty() ? known : rows.back()["number"].get<std::uint64_t>()}};
    if (arguments.contains("stage")) query["stage"] = arguments["stage"];
    if (first) continue;  // it says where the present is
    if (rows.size() == most) complain("there may have been more: only the newest {} are told at once\n", most);
    if (wanted > 0 && rows.size() > wanted - shown) rows.erase(rows.begin() + (wanted - shown), rows.end());
    shown += static_cast<std::uint32_t>(rows.size());
    answer.data["events"] = rows;
    answer.text = fmt::format("{} events", rows.size());
    if (!rows.empty()) say_answer(logs, answer, client.path(), json);
    if (!output_is_sound()) break;
    if (const auto trouble = client.pause(look_every); trouble && !trouble->gone) return fail(*trouble, json);
  }
  return {};
}

}  // namespace

int say_answer(const Verb& verb, const Answer& answer, const std::string& socket, bool json) {
  if (json) {
    Json j{{"outcome", to_text(answer.outcome)}, {"text", answer.text}, {"socket", socket}};
    for (const auto& [key, value] : answer.data.items()) j[key] = value;
    say_json(j);
  } else if (answer.outcome != Outcome::done) {
    complain("{}: {}\n", verb.name, answer.text);
  } else {
    say("{}", verb.show ? verb.show(answer) : answer.text + "\n");
  }
  std::fflush(stdout);
  return exit_code(answer.outcome);
}

Talked talk(ControlClient& client, const Typed& typed, bool json) {
  const auto arguments = typed.verb->read(typed.words);
  if (const auto* wrong = std::get_if<Senseless>(&arguments)) {
    return {refuse_words(fmt::format("{}: {}", typed.verb->name, wrong->why), json), false};
  }
  if (typed.verb->kind == Verb::Kind::watches) return watch(client, std::get<Json>(arguments), json);
  if (typed.verb->kind == Verb::Kind::taps) return tap(client, std::get<Json>(arguments), json);
  return ask_once(client, *typed.verb, std::get<Json>(arguments), json);
}

int talk_command(const TalkOptions& options) {
  const auto typed = parse_line(options.words);
  if (const auto* wrong = std::get_if<Senseless>(&typed)) {
    return refuse_words(wrong->why, options.json);
  }
  const auto& line = std::get<Typed>(typed);
  if (const auto read = line.verb->read(line.words); const auto* wrong = std::get_if<Senseless>(&read)) {
    return refuse_words(fmt::format("{}: {}", line.verb->name, wrong->why), options.json);
  }
  auto client = ControlClient::connect(options.socket);
  if (const auto* trouble = std::get_if<Trouble>(&client)) return fail(*trouble, options.json).code;
  auto& connected = std::get<ControlClient>(client);
  if (options.socket.empty()) complain("{}\n", connected.path());
  return talk(connected, line, options.json).code;
}

}  // namespace stagecraft::tools
