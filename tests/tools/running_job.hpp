// A job that runs beside a test, as somebody else would have started it, and a connection without manners to its
// socket.
#pragma once

#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <chrono>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <thread>

#include "tests/tools/command.hpp"

namespace stagecraft::test {

inline std::string text_of(const std::string& file) {
  std::stringstream text;
  text << std::ifstream(file).rdbuf();
  return text.str();
}

template <class Condition>
bool soon(const Condition& holds, int seconds = 60) {
  for (int n = 0; n < seconds * 100 && !holds(); ++n) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  return holds();
}

/// Iterations take some 30 ms, because their links are slow: time enough to talk to it.
inline std::string slow_job(int iterations, const std::string& more = {}) {
  std::ofstream("text.txt") << std::string(400, 'a') + "\n\n" + std::string(300, 'b') + "\n\nand something else\n\n";
  std::ofstream("slow.yaml") << "version: 1\njob: { name: slow, seed: 7, iterations: " << iterations << " }\n"
                             << R"(model: { layers: 5, width: 16, heads: 2, hidden: 24, context: 16 }
data: { sources: [{ files: text.txt, split: "\n\n" }], micro_batch_tokens: 16 }
training: { micro_batches: 4, logical_shards: 2, optimizer: { kind: adamw, learning_rate: 1e-2, clip: 0.5 } }
pipeline: { stages: 3, schedule: 1f1b, dispatch: reactive, layout: [2, 2, 1] }
timeouts: { operation: 10s, iteration: 20s, stage: 30s, node: 40s }
links: { overrides: [{ between: [0, 1], latency: 5ms }, { between: [1, 2], latency: 5ms }] }
nodes:
  - { name: n0, listen: "127.0.0.1:0", devices: [{ kind: cpu, count: 1, memory: 64MiB }] }
  - { name: n1, listen: "127.0.0.1:0", devices: [{ kind: cpu, count: 1, memory: 64MiB }] }
  - { name: n2, listen: "127.0.0.1:0", devices: [{ kind: cpu, count: 1, memory: 64MiB }] }
)" << more;
  return "slow.yaml";
}

/// Its standard output and error go to files of its name.
class JobBeside {
 public:
  explicit JobBeside(const std::string& arguments, std::string name = "beside") : name_(std::move(name)) {
    run_command("rm -f " + name_ + ".*; (" + STAGECRAFT_BINARY + " " + arguments + " >" + name_ + ".out 2>" + name_ +
                ".err & echo $! >" + name_ + ".pid; wait $!; echo $? >" + name_ + ".code) >/dev/null 2>&1 &");
    EXPECT_TRUE(soon([&] { return text_of(name_ + ".pid").ends_with('\n'); }));
  }
  ~JobBeside() {
    if (!has_ended()) kill(process(), SIGKILL);
    soon([&] { return has_ended(); });
  }
  JobBeside(const JobBeside&) = delete;
  JobBeside& operator=(const JobBeside&) = delete;

  pid_t process() const { return std::stoi(text_of(name_ + ".pid")); }
  std::string output() const { return text_of(name_ + ".out"); }
  std::string errors() const { return text_of(name_ + ".err"); }
  bool has_ended() const { return text_of(name_ + ".code").ends_with('\n'); }
  /// Waits for its end.
  int code() const {
    EXPECT_TRUE(soon([&] { return has_ended(); })) << output() << errors();
    return has_ended() ? std::stoi(text_of(name_ + ".code")) : -1;
  }
  /// Once it has said where; empty: it ended before.
  std::string socket() const {
    const std::string words = "control socket ";
    const auto said = [&] { return output() + errors(); };
    soon([&] { return said().find(words) != std::string::npos || has_ended(); });
    const std::string all = said();
    const std::size_t at = all.find(words);
    if (at == std::string::npos) return {};
    return all.substr(at + words.size(), all.find(" (", at) - at - words.size());
  }
  /// Once its socket answers, and so many iterations are done.
  bool has_done(std::uint32_t iterations) const {
    const std::string where = socket();
    return soon([&] {
      const Ran ran = run("status --json --socket " + where, "2>/dev/null");
      return has_ended() || (ran.code == 0 && nlohmann::json::parse(ran.output)["iteration"] >= iterations);
    });
  }

 private:
  std::string name_;
};

/// Says whatever it likes.
class RawClient {
 public:
  explicit RawClient(const std::string& path) : descriptor_(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, path.c_str(), path.size());
    EXPECT_EQ(connect(descriptor_, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0) << path;
  }
  ~RawClient() { close(descriptor_); }
  RawClient(const RawClient&) = delete;
  RawClient& operator=(const RawClient&) = delete;

  void send(const std::string& bytes) const {
    for (std::size_t sent = 0; sent < bytes.size();) {
      const ssize_t size = ::send(descriptor_, bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
      if (size <= 0) return;
      sent += static_cast<std::size_t>(size);
    }
  }
  /// The next line; empty: none came.
  std::string line() {
    pollfd polled{descriptor_, POLLIN, 0};
    while (bytes_.find('\n') == std::string::npos && poll(&polled, 1, 20'000) > 0) {
      char piece[4096];
      const ssize_t size = recv(descriptor_, piece, sizeof piece, 0);
      if (size <= 0) break;
      bytes_.append(piece, static_cast<std::size_t>(size));
    }
    const std::size_t end = bytes_.find('\n');
    if (end == std::string::npos) return {};
    std::string text = bytes_.substr(0, end);
    bytes_.erase(0, end + 1);
    return text;
  }
  /// The answer to a request, without the words in between.
  nlohmann::json ask(const std::string& request) {
    send(request + "\n");
    while (true) {
      auto j = nlohmann::json::parse(line(), nullptr, false);
      if (!j.contains("waiting")) return j;
    }
  }

 private:
  int descriptor_;
  std::string bytes_;
};

}  // namespace stagecraft::test
