// What the tests of the command share: running it, and places of their own for its files.
#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <string>

namespace stagecraft::test {

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
inline std::string temporary(const std::string& name) {
  return ::testing::TempDir() + "stagecraft-cli-" + std::to_string(getpid()) + "-" + name;
}
inline std::string output_folder() { return " --set output.dir=" + temporary("runs"); }
inline bool has(const Ran& ran, const std::string& text) { return ran.output.find(text) != std::string::npos; }

}  // namespace stagecraft::test
