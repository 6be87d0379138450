// stagecraft shell: attaches to a running job, or starts one, and takes one line after the other.
//
// Exit codes: of a script that of its first line that fails, else 0. At a terminal 0, or that of not getting to a job.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>

#include "tools/child_processes.hpp"
#include "tools/completion.hpp"
#include "tools/open_topology.hpp"
#include "tools/output.hpp"
#include "tools/shell_input.hpp"
#include "tools/shell_save.hpp"
#include "tools/talk.hpp"

namespace stagecraft::tools {

namespace {

extern "C" void on_interrupt(int) {}  // a wait ends, nothing else

// Ctrl-C ends what is going on, not the shell.
void survive_interrupts() {
  struct sigaction action = {};
  action.sa_handler = on_interrupt;  // without SA_RESTART
  sigaction(SIGINT, &action, nullptr);
}

// While there is one, SIGINT comes in waits only, so that none is lost between two of them.
class InterruptsInWaits {
 public:
  InterruptsInWaits() {
    sigset_t interrupt;
    sigemptyset(&interrupt);
    sigaddset(&interrupt, SIGINT);
    pthread_sigmask(SIG_BLOCK, &interrupt, &before_);
  }
  ~InterruptsInWaits() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  InterruptsInWaits(const InterruptsInWaits&) = delete;
  InterruptsInWaits& operator=(const InterruptsInWaits&) = delete;

 private:
  sigset_t before_;
};

void print_help(const Words& words) {
  for (const Verb& verb : verbs()) {
    const bool named = !words.empty() && verb.name.starts_with(words.front());
    if (words.empty()) say("  {:<58}{}\n", usage_of(verb), verb.what);
    if (named) say("{}\n  {}\n  for example: {}\n", usage_of(verb), verb.what, verb.example);
  }
}

// The job that this shell has started.
class OwnJob {
 public:
  /// Waits until it answers; none: it did not, which has been said.
  std::optional<ControlClient> start(const ShellOptions& options, const Topology& topology) {
    std::vector<std::string> arguments{"run", options.file.file};
    if (!options.processes) arguments.emplace_back("--faults");
    for (const std::string& set : options.file.set) arguments.insert(arguments.end(), {"--set", set});
    for (const auto& [wanted, name] : {std::pair(options.fresh, "--fresh"), std::pair(options.resume, "--resume"),
                                       std::pair(options.processes, "--processes")})
      if (wanted) arguments.emplace_back(name);
    std::error_code ignored;
    std::filesystem::create_directories(topology.output.dir, ignored);
    const std::string log = fmt::format("{}/shell-{}.log", topology.output.dir, getpid());
    children_.start("the job", arguments, log);
    const pid_t process = children_.alive().at("the job");
    complain("the job is process {}; what it says goes to '{}'\n", process, log);
    while (true) {
      if (auto client = ControlClient::connect_to_process(topology.output.dir, process)) return client;
      children_.wait(0);
      if (!children_.alive().empty()) {
        usleep(20'000);
        continue;
      }
      complain("the job ended before it could be asked anything: see '{}'\n", log);
      return std::nullopt;
    }
  }
  bool runs() const { return !children_.alive().empty(); }
  /// After it has been asked to stop: until it has ended.
  void wait() { children_.wait(60); }

 private:
  ChildProcesses children_;
};

class Shell {
 public:
  Shell(const ShellOptions& options, std::optional<ControlClient> client)
      : options_(options), client_(std::move(client)), last_path_(client_ ? client_->path() : std::string()) {}

  int run(ShellInput& input) {
    while (const auto line = input.next()) {
      const Words words = words_of(line->text);
      if (words.empty()) continue;
      const auto code = obey(words);
      if (!code) return done;
      if (*code == done || line->where.empty()) continue;
      complain("{}: this line failed ({}): {}\n", line->where, *code, line->text);
      return *code;
    }
    return done;
  }

  std::vector<std::string> complete(std::string_view before) {
    if (names_.empty() && client_) learn_names();
    return completions(before, names_);
  }

  /// Of the job that ends with the shell.
  void stop_job() {
    if (!has_ended_ && attach()) talk(*client_, {find_verb("stop"), {}}, options_.file.json);
  }

 private:
  // The code of one line; none: quit.
  std::optional<int> obey(const Words& words) {
    const auto typed = parse_line(words);
    if (const auto* wrong = std::get_if<Senseless>(&typed)) {
      complain("{}\n", wrong->why);
      return bad_input;
    }
    const auto& line = std::get<Typed>(typed);
    if (line.verb->name == "quit") return std::nullopt;
    if (line.verb->name == "help") {
      print_help(line.words);
      return done;
    }
    if (line.verb->name == "save") return save(line);
    if (!attach()) return bad_input;
    const Talked talked = [&] {
      const InterruptsInWaits waits;
      return talk(*client_, line, options_.file.json);
    }();
    if (talked.gone) client_.reset();
    has_ended_ = talked.gone || (line.verb->name == "stop" && talked.code == done);
    if (talked.code == done) obeyed_.push_back(fmt::format("{}", fmt::join(words, " ")));
    return talked.code;
  }

  int save(const Typed& line) {
    const auto arguments = line.verb->read(line.words);
    if (const auto* wrong = std::get_if<Senseless>(&arguments)) {
      complain("save: {}\n", wrong->why);
      return bad_input;
    }
    const Answer answer = save_lines(std::get<Json>(arguments)["path"].get<std::string>(), obeyed_, describe_job());
    return say_answer(*line.verb, answer, last_path_, options_.file.json);
  }

  // "job slow, after iteration 12 of 60, at 'runs/slow-1/control.sock'", or where it was.
  std::string describe_job() {
    const std::string at = fmt::format("at '{}'", last_path_);
    if (!client_) return "a job " + at;
    const auto answer = client_->ask(*find_verb("status"), Json::object(), [](const std::string&) {});
    const auto* status = std::get_if<Answer>(&answer);
    if (!status || status->outcome != Outcome::done) return "a job " + at;
    const Json& j = status->data;
    return fmt::format("job {}, after iteration {} of {}, {}", j.value("job", ""), j.value("iteration", 0U),
                       j.value("iterations", 0U), at);
  }

  // Connects again where the connection is gone: the job may live, and have closed it because it was idle.
  bool attach() {
    if (client_ && !client_->pause({})) return true;
    const std::string path = client_ ? client_->path() : last_path_;
    auto again = ControlClient::connect(path.empty() ? options_.socket : path);
    client_.reset();
    if (const auto* trouble = std::get_if<Trouble>(&again)) {
      complain("{}\n", trouble->why);
      return false;
    }
    client_ = std::move(std::get<ControlClient>(again));
    last_path_ = client_->path();
    return true;
  }

  void learn_names() {
    for (const std::string one : {"stage", "node", "link", "device"}) {
      const auto answer = client_->ask(*find_verb("list"), Json{{"kind", one + "s"}}, [](const std::string&) {});
      const auto* rows = std::get_if<Answer>(&answer);
      if (!rows) return;
      for (const Json& row : rows->data.value(one + "s", Json::array())) names_.push_back(name_of_row(one, row));
    }
  }

  const ShellOptions& options_;
  std::optional<ControlClient> client_;
  std::string last_path_;
  bool has_ended_ = false;  // the job, as far as is known
  std::vector<std::string> names_;
  std::vector<std::string> obeyed_;  // lines, without comments
};

}  // namespace

int shell_command(const ShellOptions& options) {
  std::ifstream script;
  if (!options.script.empty()) {
    script.open(options.script);
    if (!script) {
      complain("cannot read the script '{}'\n", options.script);
      return bad_input;
    }
  }
  OwnJob own;
  std::optional<ControlClient> client;
  if (!options.file.file.empty()) {
    const auto topology = open_topology(options.file);
    if (!topology) return bad_input;
    client = own.start(options, *topology);
    if (!client) return fault;
  } else {
    auto connected = ControlClient::connect(options.socket);
    if (const auto* trouble = std::get_if<Trouble>(&connected)) {
      complain("{}\n", trouble->why);
      return trouble->code;
    }
    client = std::move(std::get<ControlClient>(connected));
  }
  complain("{}\n", client->path());
  Shell shell(options, std::move(client));
  std::unique_ptr<ShellInput> input;
  if (script.is_open()) {
    input = script_input(script, options.script);
  } else if (isatty(STDIN_FILENO) == 0) {
    input = script_input(std::cin, "standard input");
  } else {
    survive_interrupts();
    const char* home = std::getenv("HOME");
    input = terminal_input([&](std::string_view before) { return shell.complete(before); },
                           home ? std::string(home) + "/.stagecraft_history" : std::string());
  }
  const int code = shell.run(*input);
  if (own.runs()) {
    shell.stop_job();
    own.wait();
  }
  return code;
}

}  // namespace stagecraft::tools
