// `stagecraft scenario run` and `swarm` as people and scripts use them: the examples, and what fails.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <regex>
#include <sstream>
#include <string>

#include "tests/tools/command.hpp"

namespace stagecraft::test {
namespace {

using Json = nlohmann::json;
namespace fs = std::filesystem;

// Copies of the examples, and of the text that the tiny one learns, as they lie in a checkout.
void copy_examples() {
  fs::copy(example(""), "examples", fs::copy_options::recursive | fs::copy_options::overwrite_existing);
  fs::copy_file(STAGECRAFT_SOURCE_DIR "/LICENSE", "LICENSE", fs::copy_options::overwrite_existing);
}

std::string text_of(const fs::path& path) {
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

void write(const fs::path& path, const std::string& text) {
  fs::create_directories(path.parent_path());
  std::ofstream(path) << text;
}

TEST(ScenarioRun, every_example_is_as_expected) {
  copy_examples();
  for (const auto& entry : fs::directory_iterator("examples/scenarios")) {
    const Ran ran = run("scenario run " + entry.path().string() + " --seeds 1..3");
    EXPECT_EQ(ran.code, 0) << ran.output;
    EXPECT_TRUE(has(ran, "3 runs as expected, 0 not")) << ran.output;
    EXPECT_FALSE(has(ran, "never struck")) << entry.path() << " shows nothing\n" << ran.output;
  }
}

TEST(ScenarioRun, what_the_real_world_can_make_is_as_expected_there_too) {
  copy_examples();
  int ran_there = 0;
  for (const auto& entry : fs::directory_iterator("examples/scenarios")) {
    const fs::path copy = fs::path("examples/real") / entry.path().filename();
    if (copy.filename() == "delegates-take-over.yaml") continue;  // 40 s, which slow-link-real.yaml does in 3
    const std::string text = text_of(entry.path());
    const bool is_real = text.find("\nworld: real") != std::string::npos;
    write(copy, is_real ? text : std::regex_replace(text, std::regex("version: 1\n"), "version: 1\nworld: real\n"));
    if (run("scenario check " + copy.string()).code != 0) continue;
    ++ran_there;
    const Ran ran = run("scenario run " + copy.string() + " --seeds 1");
    EXPECT_EQ(ran.code, 0) << ran.output;
  }
  EXPECT_GE(ran_there, 5);
}

// Seeds that once found a mistake.
TEST(ScenarioRun, what_was_mended_stays_mended) {
  copy_examples();
  for (const auto& entry : fs::directory_iterator(STAGECRAFT_SOURCE_DIR "/tests/scenarios")) {
    const Ran ran = run("scenario run " + entry.path().string());
    EXPECT_EQ(ran.code, 0) << ran.output;
  }
}

TEST(ScenarioRun, a_run_that_is_not_as_expected_says_what_when_and_how_to_see_it_again) {
  copy_examples();
  write("examples/mine/strict.yaml",
        "version: 1\nname: strict\ntopology: ../worked-example.yaml\n"
        "faults: [{ id: late, at: { iteration: 2 }, do: delay, on: { link: [0, 1] }, with: { constant: 20ms } }]\n"
        "expect:\n  - iteration_time: { during: late, at_most: 391ms }\n");
  const Ran ran = run("scenario run examples/mine/strict.yaml --seeds 4");
  EXPECT_EQ(ran.code, 1);
  EXPECT_TRUE(has(ran, "seed 4: NOT as expected")) << ran.output;
  EXPECT_TRUE(has(ran, "examples/mine/strict.yaml:6:5: iteration_time: ")) << ran.output;
  EXPECT_TRUE(has(ran, "\"event\":\"injected\"") || has(ran, "\"event\":\"committed\"")) << ran.output;
  EXPECT_TRUE(has(ran, "to see it again: stagecraft scenario run examples/mine/strict.yaml --seeds 4")) << ran.output;
}

TEST(ScenarioRun, that_never_ends_stops_with_4_and_names_who_waits) {
  copy_examples();
  write("examples/mine/down.yaml",
        "version: 1\nname: down\ntopology: ../worked-example.yaml\ndeadline: 20s\n"
        "faults: [{ id: down, at: { iteration: 2 }, do: link_down, on: { link: [1, 2] } }]\n");
  const Ran ran = run("scenario run examples/mine/down.yaml");
  EXPECT_EQ(ran.code, 4);
  EXPECT_TRUE(has(ran, "stage 2 of replica 0: idle; next 2F0 waits for its input from chunk 1")) << ran.output;
}

TEST(ScenarioRun, the_same_seed_is_the_same_run) {
  copy_examples();
  const auto hashes = [] {
    std::istringstream lines(
        run("scenario run examples/scenarios/chaos.yaml --seeds 1..3 --json", "2>/dev/null").output);
    std::string all;
    for (std::string line; std::getline(lines, line);) all += Json::parse(line)["event_hash"].get<std::string>() + " ";
    return all;
  };
  const std::string once = hashes();
  EXPECT_EQ(once.size(), 3U * 17);
  EXPECT_EQ(once, hashes());
}

TEST(ScenarioSwarm, draws_faults_from_seeds_that_the_tiny_example_survives) {
  copy_examples();
  const Ran ran = run("scenario swarm examples/tiny.yaml --seeds 1..10");
  EXPECT_EQ(ran.code, 0) << ran.output;
  EXPECT_TRUE(has(ran, "10 seeds, 0 not as expected")) << ran.output;
}

TEST(ScenarioSwarm, refuses_what_is_no_topology) {
  EXPECT_EQ(run("scenario swarm /nowhere.yaml --seeds 1..2").code, 2);
  EXPECT_EQ(run("scenario swarm " + example("tiny.yaml") + " --seeds 9..2").code, 2);
}

}  // namespace
}  // namespace stagecraft::test
