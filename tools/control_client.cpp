#include "tools/control_client.hpp"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <filesystem>

namespace stagecraft::tools {

namespace {

namespace fs = std::filesystem;

constexpr const char* runs_folder = "stagecraft-runs";
constexpr const char* socket_name = "control.sock";      // of a node that leads since another was lost: control-n1.sock
constexpr Duration patience = std::chrono::seconds(10);  // a job that is well says something each second

class SteadyClock final : public Clock {
 public:
  Instant now() const override { return std::chrono::steady_clock::now().time_since_epoch(); }
};
const SteadyClock steady_clock;

using Sockets = std::vector<std::pair<std::int64_t, std::string>>;  // since when, and where

void add_sockets(const fs::path& run, Sockets& found) {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(run, error)) {
    const std::string name = entry.path().filename().string(), path = entry.path().string();
    struct stat what = {};
    if (name == socket_name || (name.starts_with("control-") && name.ends_with(".sock")))
      if (stat(path.c_str(), &what) == 0 && S_ISSOCK(what.st_mode))
        found.emplace_back(what.st_mtim.tv_sec * 1'000'000'000LL + what.st_mtim.tv_nsec, path);
  }
}

std::vector<std::string> paths_of(Sockets found) {
  std::sort(found.rbegin(), found.rend());
  std::vector<std::string> paths;
  for (auto& [when, path] : found) paths.push_back(std::move(path));
  return paths;
}

// Those of the runs below this folder, the newest first.
std::vector<std::string> sockets_of_runs(const std::string& runs) {
  Sockets found;
  std::error_code error;
  for (const auto& run : fs::directory_iterator(runs, error)) add_sockets(run.path(), found);
  return paths_of(std::move(found));
}

}  // namespace

std::variant<ControlClient, Trouble> ControlClient::connect(const std::string& socket) {
  std::vector<std::string> paths{socket};
  std::error_code ignored;
  if (socket.empty()) {
    paths = sockets_of_runs(runs_folder);
  } else if (fs::is_directory(socket, ignored)) {
    Sockets found;
    add_sockets(socket, found);
    paths = paths_of(std::move(found));
  }
  std::string why;
  for (const std::string& path : paths) {
    auto client = LineClient::connect(path, steady_clock, patience);
    if (auto* connected = std::get_if<LineClient>(&client)) return ControlClient(path, std::move(*connected));
    if (why.empty()) why = std::get<std::string>(client);
  }
  if (why.empty() && !socket.empty()) why = fmt::format("there is no control socket in '{}'", socket);
  if (!socket.empty()) return Trouble{bad_input, why + "; `run` and `node` print where their socket is"};
  return Trouble{
      bad_input,
      fmt::format("expected a running job in '{}/*/{}' of this folder, got {}; name its socket with --socket "
                  "PATH: `run` and `node` print where it is",
                  runs_folder, socket_name, why.empty() ? std::string("none") : why)};
}

std::optional<ControlClient> ControlClient::connect_to_process(const std::string& runs, pid_t process) {
  for (const std::string& path : sockets_of_runs(runs)) {
    auto client = LineClient::connect(path, steady_clock, {});
    auto* connected = std::get_if<LineClient>(&client);
    if (connected && connected->process() == process) return ControlClient(path, std::move(*connected));
  }
  return std::nullopt;
}

Trouble ControlClient::trouble_of(LineClient::Failure failure) const {
  switch (failure) {
    case LineClient::Failure::silent:
      return {no_progress, fmt::format("process {} at '{}' has said nothing for {}: is it stopped, or its machine too "
                                       "busy? its event log lies beside the socket",
                                       line_.process(), path_, format(patience))};
    case LineClient::Failure::closed:
      return {
          fault,
          fmt::format("process {} at '{}' is gone, or has ended the connection: how it ended stands in its event log",
                      line_.process(), path_),
          true};
    case LineClient::Failure::interrupted:
      return {left_at_once, "interrupted; what was asked for may still be done", false, true};
  }
  return {bug, "", false, false};
}

std::variant<Answer, Trouble> ControlClient::ask(const Verb& verb, const Json& arguments,
                                                 const std::function<void(const std::string&)>& waits) {
  const std::uint64_t id = ++asked_;
  const Json request{{"id", id}, {"verb", verb.name}, {"arguments", arguments}};
  const auto sent = line_.send(request.dump(-1, ' ', false, Json::error_handler_t::replace), patience);
  if (const auto* failure = std::get_if<LineClient::Failure>(&sent)) return trouble_of(*failure);
  while (true) {
    auto line = line_.receive(patience);
    if (const auto* failure = std::get_if<LineClient::Failure>(&line)) return trouble_of(*failure);
    const Json reply = Json::parse(std::get<std::string>(line), nullptr, false);
    if (!reply.is_object())
      return Trouble{bad_input, fmt::format("'{}' does not answer as a job does: is it a control socket?", path_)};
    const Json about = reply.value("id", Json());
    if (!about.is_null() && about != id) continue;  // of a request that was interrupted
    if (const auto word = reply.find("waiting"); word != reply.end() && word->is_string()) {
      waits(word->get<std::string>());
      continue;
    }
    const auto outcome =
        parse_outcome(reply.contains("outcome") && reply["outcome"].is_string() ? reply["outcome"].get<std::string>()
                                                                                : std::string());
    if (!outcome) continue;
    return Answer{*outcome, reply.contains("text") && reply["text"].is_string() ? reply["text"].get<std::string>() : "",
                  reply.value("data", Json::object())};
  }
}

std::optional<Trouble> ControlClient::pause(Duration time) {
  const auto line = line_.receive(time);
  const auto* failure = std::get_if<LineClient::Failure>(&line);
  if (!failure || *failure == LineClient::Failure::silent) return std::nullopt;
  return trouble_of(*failure);
}

}  // namespace stagecraft::tools
