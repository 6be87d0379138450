#include "tools/child_processes.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <charconv>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <system_error>
#include <thread>

extern char** environ;

namespace stagecraft::tools {

namespace {

constexpr const char* parent_variable = "STAGECRAFT_PARENT";

std::string how(int status) {
  if (WIFSIGNALED(status)) return fmt::format("by signal {}", WTERMSIG(status));
  return fmt::format("with exit code {}", WEXITSTATUS(status));
}

}  // namespace

ChildProcesses::~ChildProcesses() {
  for (const auto& [name, pid] : alive_) kill(pid, SIGTERM);
  wait(2);
  for (const auto& [name, pid] : alive_) kill(pid, SIGKILL);
  wait(2);
}

void ChildProcesses::start(const std::string& name, const std::vector<std::string>& arguments, const std::string& log) {
  std::vector<std::string> texts{"stagecraft"};
  texts.insert(texts.end(), arguments.begin(), arguments.end());
  std::vector<char*> argv, environment;
  for (std::string& text : texts) argv.push_back(text.data());
  argv.push_back(nullptr);
  std::string parent = fmt::format("{}={}", parent_variable, getpid());
  for (char** variable = environ; *variable; ++variable)  // this one may be a child itself
    if (!std::string_view(*variable).starts_with(std::string(parent_variable) + "=")) environment.push_back(*variable);
  environment.push_back(parent.data());
  environment.push_back(nullptr);

  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  if (!log.empty())
    posix_spawn_file_actions_addopen(&files, STDERR_FILENO, log.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND, 0644);
  posix_spawn_file_actions_adddup2(&files, STDERR_FILENO, STDOUT_FILENO);
  pid_t pid = 0;
  const int error = posix_spawn(&pid, "/proc/self/exe", &files, &attributes, argv.data(), environment.data());
  posix_spawn_file_actions_destroy(&files);
  posix_spawnattr_destroy(&attributes);
  if (error != 0) throw std::system_error(error, std::generic_category(), "cannot start the process of node " + name);
  alive_[name] = pid;
}

void ChildProcesses::reap() {
  for (auto it = alive_.begin(); it != alive_.end();) {
    int status = 0;
    if (waitpid(it->second, &status, WNOHANG) != it->second) {
      ++it;
      continue;
    }
    if (status != 0) failures_.push_back(fmt::format("the process of node '{}' ended {}", it->first, how(status)));
    it = alive_.erase(it);
  }
}

std::optional<std::string> ChildProcesses::failed() {
  reap();
  if (failures_.empty()) return std::nullopt;
  return fmt::format("{}", fmt::join(failures_, "; "));
}

void ChildProcesses::wait(int seconds) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(seconds);
  for (reap(); !alive_.empty() && std::chrono::steady_clock::now() < deadline; reap())
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
}

void end_with_parent() {
  const char* parent = std::getenv(parent_variable);
  if (!parent) return;
  pid_t pid = 0;
  std::from_chars(parent, parent + std::strlen(parent), pid);
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (getppid() != pid) _exit(3);  // it is gone already
}

}  // namespace stagecraft::tools
