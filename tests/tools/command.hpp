// What the tests of the command share: running it, and places of their own for its files.
#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <string>

namespace stagecraft::test {

/// Every test process works in an empty folder of its own: the command leaves `checkpoints` and `stagecraft-runs` where
/// it is called, and tests run side by side.
class OwnFolder : public ::testing::Environment {
 public:
  void SetUp() override {
    folder_ = std::filesystem::path(::testing::TempDir()) / ("stagecraft-cli-" + std::to_string(getpid()));
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
    std::filesystem::current_path(folder_);
  }
  void TearDown() override {
    std::filesystem::current_path(folder_.parent_path());
    std::filesystem::remove_all(folder_);
  }

 private:
  std::filesystem::path folder_;
};
inline ::testing::Environment* const own_folder = ::testing::AddGlobalTestEnvironment(new OwnFolder);

struct Ran {
  int code = -1;
  std::string output;
};

/// Runs a line of shell; what it writes to standard output, and its exit code.
inline Ran run_command(const std::string& command) {
  Ran ran;
  FILE* pipe = popen(command.c_str(), "r");
  char buffer[4096];
  while (const std::size_t n = fread(buffer, 1, sizeof buffer, pipe)) ran.output.append(buffer, n);
  const int status = pclose(pipe);
  ran.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return ran;
}

inline Ran run(const std::string& arguments, const std::string& streams = "2>&1") {
  return run_command(std::string(STAGECRAFT_BINARY) + " " + arguments + " " + streams);
}

inline std::string example(const std::string& name) { return std::string(STAGECRAFT_SOURCE_DIR) + "/examples/" + name; }
inline std::string temporary(const std::string& name) { return (std::filesystem::current_path() / name).string(); }
inline bool has(const Ran& ran, const std::string& text) { return ran.output.find(text) != std::string::npos; }

}  // namespace stagecraft::test
