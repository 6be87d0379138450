// What the pages say: every command on them is run, and what they show below it is what it prints. A shown line that
// ends in three dots is the beginning of one, and a line of three dots stands for any.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "tests/tools/running_job.hpp"

namespace stagecraft::test {
namespace {

struct ShownCommand {
  std::string line;
  std::vector<std::string> shown;  // below it
};

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

std::vector<ShownCommand> commands_of(const std::string& page) {
  std::vector<ShownCommand> commands;
  bool open = false, of_commands = false, goes_on = false;
  for (const std::string& line : lines_of(text_of(STAGECRAFT_SOURCE_DIR "/" + page))) {
    if (line.starts_with("```")) {
      open = !open;
      of_commands = false;
    } else if (open && goes_on) {
      commands.back().line += line;
    } else if (open && line.starts_with("$ ")) {
      of_commands = true;
      commands.push_back({line.substr(2), {}});
    } else if (open && of_commands && !line.empty()) {
      commands.back().shown.push_back(line);
    }
    goes_on = open && of_commands && line.ends_with('\\');
    if (goes_on) commands.back().line.pop_back();
  }
  return commands;
}

bool is_as_shown(const std::string& line, std::string shown) {
  if (!shown.ends_with("...")) return line == shown;
  shown.resize(shown.size() - 3);
  while (shown.ends_with(' ')) shown.pop_back();
  return line.starts_with(shown);
}

// In their order, whatever is between them.
void expect_shown(const ShownCommand& command, const std::string& printed) {
  const std::vector<std::string> lines = lines_of(printed);
  auto from = lines.begin();
  for (const std::string& shown : command.shown) {
    if (shown == "..." || shown.starts_with("warning: ")) continue;  // those depend on the machine
    const auto at = std::find_if(from, lines.end(), [&](const std::string& line) { return is_as_shown(line, shown); });
    EXPECT_NE(at, lines.end()) << command.line << "\n  shows  " << shown << "\n  and prints\n" << printed;
    if (at != lines.end()) from = at + 1;
  }
}

// With everything that a checkout has at its root.
void lay_out_root() {
  namespace fs = std::filesystem;
  fs::copy(example(""), "examples", fs::copy_options::recursive | fs::copy_options::overwrite_existing);
  fs::copy_file(STAGECRAFT_SOURCE_DIR "/LICENSE", "LICENSE", fs::copy_options::overwrite_existing);
  fs::create_directories("bin");
  fs::remove("bin/stagecraft");
  fs::create_symlink(STAGECRAFT_BINARY, "bin/stagecraft");
}

Ran run_line(const std::string& line) { return run_command("(PATH=$PWD/bin:$PATH; " + line + ") 2>&1"); }

std::string verb_of(const ShownCommand& command) {
  std::istringstream words(command.line);
  std::string program, verb;
  words >> program >> verb;
  return program == "stagecraft" ? verb : program;
}

TEST(Guide, shows_what_is_printed) {
  lay_out_root();
  const std::array<std::string, 7> alone{"check", "sim", "plan", "reproduce", "explain", "trace", "certificate"};
  int count = 0;
  for (const char* page : {"README.md", "docs/user-guide.md"})
    for (const ShownCommand& command : commands_of(page)) {
      if (std::find(alone.begin(), alone.end(), verb_of(command)) == alone.end()) continue;
      expect_shown(command, run_line(command.line).output);
      ++count;
    }
  EXPECT_GE(count, 19);
}

TEST(Guide, the_scenario_on_its_page_is_what_the_page_says) {
  lay_out_root();
  std::filesystem::create_directories("scenarios");
  const std::string page = text_of(STAGECRAFT_SOURCE_DIR "/docs/scenarios.md");
  const std::string fence = "```yaml\n";
  const std::size_t begin = page.find(fence) + fence.size();
  std::ofstream("scenarios/slow-link.yaml") << page.substr(begin, page.find("```", begin) - begin);
  const auto commands = commands_of("docs/scenarios.md");
  ASSERT_EQ(commands.size(), 1U);
  expect_shown(commands.front(), run_line("cd scenarios && PATH=$PWD/../bin:$PATH && " + commands.front().line).output);
}

TEST(Guide, both_files_on_the_page_of_topologies_can_run) {
  const std::string page = text_of(STAGECRAFT_SOURCE_DIR "/docs/topology.md");
  const std::string fence = "```yaml\nversion: 1\n";
  std::size_t count = 0;
  for (std::size_t at = page.find(fence); at != std::string::npos; at = page.find(fence, at + 1), ++count) {
    const std::size_t begin = page.find("version", at);
    std::ofstream("page.yaml") << page.substr(begin, page.find("```", begin) - begin);
    const Ran ran = run("check page.yaml");
    EXPECT_EQ(ran.code, 0) << ran.output;
  }
  EXPECT_EQ(count, 2U);
}

// As the guide talks to its quickstart: eight layers on four stages. What it shows there is of another moment.
TEST(Guide, talks_to_a_job_in_words_that_it_understands) {
  lay_out_root();
  std::string file = slow_job(1'000'000, "recovery: { twins: true }\n");
  std::string text = text_of(file);
  for (const auto& [was, is] : {std::pair<std::string, std::string>{"layers: 5", "layers: 8"},
                                {"stages: 3", "stages: 4"},
                                {"[2, 2, 1]", "[2, 2, 2, 2]"},
                                {"{ name: n2, listen: \"127.0.0.1:0\", devices: [{ kind: cpu, count: 1",
                                 "{ name: n2, listen: \"127.0.0.1:0\", devices: [{ kind: cpu, count: 2"}})
    text.replace(text.find(was), was.size(), is);
  std::ofstream(file) << text;
  const JobBeside job("run " + file + " --fresh --faults");
  ASSERT_TRUE(job.has_done(2)) << job.errors() << job.output();
  const std::array<std::string, 9> alone{"check", "sim",         "plan", "reproduce", "explain",
                                         "trace", "certificate", "run",  "checkpoint"};
  int count = 0;
  for (const ShownCommand& command : commands_of("docs/user-guide.md")) {
    if (std::find(alone.begin(), alone.end(), verb_of(command)) != alone.end()) continue;
    if (command.line == "stagecraft shell") continue;                      // somebody types there
    if (command.line.find("[0, 0, 0, 8]") != std::string::npos) continue;  // which fits here
    const Ran ran = run_line(command.line);
    const bool unmet = command.line.find("[2, 2, 4]") != std::string::npos;
    EXPECT_EQ(ran.code, unmet ? 1 : 0) << command.line << "\n" << ran.output;
    ++count;
  }
  EXPECT_GE(count, 13);
  EXPECT_EQ(run("stop").code, 0);
  EXPECT_EQ(job.code(), 5) << job.errors();
}

}  // namespace
}  // namespace stagecraft::test
