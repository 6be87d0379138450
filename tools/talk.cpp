#include "tools/talk.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <chrono>

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

void print(const Verb& verb, const Answer& answer, const std::string& socket, bool json) {
  if (json) {
    Json j{{"outcome", to_text(answer.outcome)}, {"text", answer.text}, {"socket", socket}};
    for (const auto& [key, value] : answer.data.items()) j[key] = value;
    say("{}\n", j.dump(-1, ' ', false, Json::error_handler_t::replace));
  } else if (answer.outcome != Outcome::done) {
    complain("{}: {}\n", verb.name, answer.text);
  } else {
    say("{}", verb.show ? verb.show(answer) : answer.text + "\n");
  }
  std::fflush(stdout);
}

Talked fail(const Trouble& trouble) {
  complain("{}\n", trouble.why);
  return {trouble.code, trouble.gone};
}

Talked ask_once(ControlClient& client, const Verb& verb, const Json& arguments, bool json) {
  WaitingLine waiting;
  const auto answer = client.ask(verb, arguments, [&](const std::string& text) { waiting.show(text); });
  waiting.clear();
  if (const auto* trouble = std::get_if<Trouble>(&answer)) return fail(*trouble);
  print(verb, std::get<Answer>(answer), client.path(), json);
  return {exit_code(std::get<Answer>(answer).outcome), false};
}

// The status, each second, until it has been shown so often, or the job is gone.
Talked watch(ControlClient& client, const Json& arguments, bool json) {
  const Verb& status = *find_verb("status");
  const std::uint32_t times = arguments.value("times", 0U);
  for (std::uint32_t n = 1;; ++n) {
    const auto answer = client.ask(status, Json::object(), [](const std::string&) {});
    if (const auto* trouble = std::get_if<Trouble>(&answer)) {
      if (!trouble->gone) return fail(*trouble);
      complain("the job has ended\n");
      return {done, true};
    }
    const auto& shown = std::get<Answer>(answer);
    if (json) {
      print(status, shown, client.path(), true);
    } else {
      say("{}\n", shown.text);
      std::fflush(stdout);
    }
    if (shown.outcome != Outcome::done) return {exit_code(shown.outcome), false};
    if (n == times) return {};
    if (const auto trouble = client.pause(std::chrono::seconds(1)); trouble && !trouble->gone) return fail(*trouble);
  }
}

}  // namespace

Talked talk(ControlClient& client, const Typed& typed, bool json) {
  const auto arguments = typed.verb->read(typed.words);
  if (const auto* wrong = std::get_if<Senseless>(&arguments)) {
    complain("{}: {}\n", typed.verb->name, wrong->why);
    return {bad_input, false};
  }
  if (typed.verb->kind == Verb::Kind::watches) return watch(client, std::get<Json>(arguments), json);
  return ask_once(client, *typed.verb, std::get<Json>(arguments), json);
}

int talk_command(const TalkOptions& options) {
  const auto typed = parse_line(options.words);
  if (const auto* wrong = std::get_if<Senseless>(&typed)) {
    complain("{}\n", wrong->why);
    return bad_input;
  }
  const auto& line = std::get<Typed>(typed);
  if (const auto read = line.verb->read(line.words); const auto* wrong = std::get_if<Senseless>(&read)) {
    complain("{}: {}\n", line.verb->name, wrong->why);
    return bad_input;
  }
  auto client = ControlClient::connect(options.socket);
  if (const auto* trouble = std::get_if<Trouble>(&client)) return fail(*trouble).code;
  auto& connected = std::get<ControlClient>(client);
  if (options.socket.empty()) complain("{}\n", connected.path());
  return talk(connected, line, options.json).code;
}

}  // namespace stagecraft::tools
