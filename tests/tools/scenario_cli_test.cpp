// `stagecraft scenario check` as people and scripts use it.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

#include "tests/tools/command.hpp"

namespace stagecraft::test {
namespace {

using Json = nlohmann::json;

// A scenario in a folder of its own, about the worked example, which lies beside that folder.
std::string scenario(const std::string& name, const std::string& faults, const std::string& more = "") {
  std::filesystem::create_directories("scenarios");
  std::filesystem::copy_file(example("worked-example.yaml"), "topology.yaml",
                             std::filesystem::copy_options::overwrite_existing);
  std::string file = "scenarios/" + name;
  std::ofstream(file) << "version: 1\nname: a test\ntopology: ../topology.yaml\nfaults: [" << faults << "]\n" << more;
  return file;
}

const std::string crash = "{ id: crash, at: { iteration: 2 }, do: kill, on: { stage: 2 } }";

TEST(ScenarioCommand, a_good_file_is_fine_wherever_the_command_is_called) {
  const std::string file = scenario("good.yaml", crash, "expect: [committed: { at_least: 3 }]\nseeds: 1..100\n");
  const Ran ran = run("scenario check " + file);
  EXPECT_EQ(ran.code, 0);
  EXPECT_EQ(ran.output, file + ": fine: \"a test\", 1 fault, 1 expectation, seeds 1..100, virtual world\n");
  const Ran elsewhere = run_command("cd scenarios && " + std::string(STAGECRAFT_BINARY) + " scenario check good.yaml");
  EXPECT_EQ(elsewhere.code, 0) << elsewhere.output;
  const std::string bare = scenario("bare.yaml", "", "world: real\n");
  EXPECT_TRUE(has(run("scenario check " + bare), "fine: \"a test\", 0 faults, 0 expectations, seed 1, real world"));
}

TEST(ScenarioCommand, the_example_of_the_documentation_is_fine) {
  std::ifstream page(STAGECRAFT_SOURCE_DIR "/docs/scenarios.md");
  std::stringstream text;
  text << page.rdbuf();
  const std::string fence = "```yaml\n";
  const std::size_t begin = text.str().find(fence) + fence.size(), end = text.str().find("```", begin);
  ASSERT_NE(end, std::string::npos);
  std::filesystem::create_directories("docs");
  std::filesystem::create_directories("examples");
  std::filesystem::copy_file(example("worked-example.yaml"), "examples/worked-example.yaml",
                             std::filesystem::copy_options::overwrite_existing);
  std::ofstream("docs/slow-link.yaml") << text.str().substr(begin, end - begin);
  const Ran ran = run("scenario check docs/slow-link.yaml");
  EXPECT_EQ(ran.code, 0);
  EXPECT_TRUE(text.str().find(ran.output.substr(std::string("docs/").size())) != std::string::npos) << ran.output;
}

TEST(ScenarioCommand, every_example_is_fine) {
  std::string files;
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(example("scenarios"))) {
    files += " " + entry.path().string();
    ++count;
  }
  EXPECT_GE(count, 10);
  const Ran ran = run("scenario check --json" + files, "2>/dev/null");
  EXPECT_EQ(ran.code, 0) << ran.output;
  std::istringstream lines(ran.output);
  for (std::string line; std::getline(lines, line); --count) {
    const Json one = Json::parse(line);
    EXPECT_EQ(one["ok"], true) << line;
    EXPECT_GT(one["shows"].get<std::string>().size(), 20U) << line;
    EXPECT_FALSE(one["faults"].empty() || one["expectations"].empty()) << line;
  }
  EXPECT_EQ(count, 0);
}

TEST(ScenarioCommand, problems_of_the_file_of_its_topology_and_of_the_two_together_end_with_2) {
  const std::string odd = scenario("odd.yaml", "{ id: crash, do: kil, on: { stage: 2 } }");
  const Ran file = run("scenario check " + odd);
  EXPECT_EQ(file.code, 2);
  EXPECT_TRUE(has(file, odd + ":4:27: SC0121")) << file.output;

  const std::string far = scenario("far.yaml", "{ id: crash, at: { iteration: 9 }, do: kill, on: { stage: 4 } }");
  const Ran together = run("scenario check " + far);
  EXPECT_EQ(together.code, 2);
  EXPECT_TRUE(has(together, far + ":4:40: SC0308")) << together.output;
  EXPECT_TRUE(has(together, far + ":4:68: SC0311")) << together.output;
  EXPECT_FALSE(has(together, "fine")) << together.output;

  const std::string set = scenario("set.yaml", crash, "set: [\"model.layers=0\"]\n");
  const Ran topology = run("scenario check " + set);
  EXPECT_EQ(topology.code, 2);
  EXPECT_TRUE(has(topology, set + ":5:7: SC0118: set[0] 'model.layers=0': model.layers")) << topology.output;
}

TEST(ScenarioCommand, overrides_of_the_topology_count) {
  const std::string late = "{ id: crash, at: { iteration: 9 }, do: kill, on: { stage: 2 } }";
  EXPECT_EQ(run("scenario check " + scenario("late.yaml", late)).code, 2);
  EXPECT_EQ(run("scenario check " + scenario("later.yaml", late, "set: [\"job.iterations=9\"]\n")).code, 0);
}

TEST(ScenarioCommand, several_files_are_all_checked_and_one_bad_one_counts) {
  const std::string good = scenario("one.yaml", crash), bad = scenario("two.yaml", crash + ", " + crash);
  const Ran ran = run("scenario check " + bad + " " + good);
  EXPECT_EQ(ran.code, 2);
  EXPECT_TRUE(has(ran, bad + ":4:75: SC0305")) << ran.output;
  EXPECT_TRUE(has(ran, good + ": fine")) << ran.output;
}

TEST(ScenarioCommand, files_that_can_not_be_read_are_refused_with_the_place_that_names_them) {
  const Ran missing = run("scenario check /no/such/scenario.yaml");
  EXPECT_EQ(missing.code, 2);
  EXPECT_TRUE(has(missing, "/no/such/scenario.yaml")) << missing.output;
  std::filesystem::create_directories("scenarios");
  std::ofstream("scenarios/lost.yaml") << "version: 1\nname: lost\ntopology: nowhere/t.yaml\n";
  const Ran lost = run("scenario check scenarios/lost.yaml");
  EXPECT_EQ(lost.code, 2);
  EXPECT_TRUE(has(lost, "scenarios/lost.yaml:3:11: topology: ")) << lost.output;
  EXPECT_TRUE(has(lost, "scenarios/nowhere/t.yaml")) << lost.output;
}

TEST(ScenarioCommand, json_is_one_object_per_file) {
  const std::string good = scenario("one.yaml", crash, "expect: [shutdown: { within: 5s }]\n");
  const std::string bad = scenario("two.yaml", crash + ", " + crash);
  const Ran ran = run("scenario check --json " + good + " " + bad + " lost.yaml", "2>/dev/null");
  EXPECT_EQ(ran.code, 2);
  std::istringstream lines(ran.output);
  std::string line;
  ASSERT_TRUE(std::getline(lines, line));
  const Json one = Json::parse(line);
  EXPECT_EQ(one["ok"], true);
  EXPECT_EQ(one["name"], "a test");
  EXPECT_EQ(one["topology"], "topology.yaml");
  EXPECT_EQ(one["world"], "virtual");
  EXPECT_EQ(one["last_seed"], 1);
  EXPECT_EQ(one["faults"][0], (Json{{"id", "crash"}, {"do", "kill"}, {"on", "stage"}}));
  EXPECT_EQ(one["expectations"], Json::array({"shutdown"}));
  ASSERT_TRUE(std::getline(lines, line));
  const Json two = Json::parse(line);
  EXPECT_EQ(two["ok"], false);
  EXPECT_EQ(two["diagnostics"][0]["code"], "SC0305");
  EXPECT_EQ(two["diagnostics"][0]["column"], 75);
  ASSERT_TRUE(std::getline(lines, line));
  EXPECT_TRUE(Json::parse(line).contains("problem")) << line;
  EXPECT_FALSE(std::getline(lines, line));
}

TEST(ScenarioCommand, bad_usage_ends_with_2) {
  EXPECT_EQ(run("scenario").code, 2);
  EXPECT_EQ(run("scenario check").code, 2);
  EXPECT_EQ(run("scenario fly x.yaml").code, 2);
}

}  // namespace
}  // namespace stagecraft::test
