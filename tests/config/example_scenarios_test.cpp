// The scenarios of examples/: legal on their topologies, in both worlds where the real one can make their faults.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "config/describe_scenario.hpp"
#include "tests/config/examples.hpp"
#include "tests/config/same_scenario.hpp"
#include "tests/config/scenarios.hpp"

namespace stagecraft {
namespace {

std::string content_of(const std::filesystem::path& file) {
  std::ifstream stream(file);
  std::stringstream text;
  text << stream.rdbuf();
  return text.str();
}

std::vector<std::filesystem::path> examples() {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(STAGECRAFT_SOURCE_DIR "/examples/scenarios"))
    files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  return files;
}

// Everything that is wrong with the file and its topology; empty: nothing.
std::string problems(const std::string& file, const std::string& text) {
  ScenarioResult loaded = load_scenario(file, text);
  if (!loaded.scenario) return lines_of(loaded.diagnostics);
  const LoadResult topology =
      load_topology(loaded.scenario->topology, content_of(loaded.scenario->topology), loaded.scenario->set);
  if (!topology.topology) return text_of(topology);
  return lines_of(check_against(*loaded.scenario, *topology.topology));
}

bool real_world_can_make_it(const Scenario& s) {
  return std::all_of(s.faults.begin(), s.faults.end(),
                     [](const FaultSpec& f) { return is_possible_in_real_world(f.kind); });
}

TEST(ExampleScenarios, are_legal_and_in_the_real_world_where_that_can_make_their_faults) {
  int real = 0, simulated = 0;
  for (const auto& file : examples()) {
    const std::string text = content_of(file);
    EXPECT_EQ(problems(file.string(), text), "");
    const bool is_there = text.find("\nworld: real\n") != std::string::npos;
    const std::string in_the_real_world = problems(file.string(), is_there ? text : text + "world: real\n");
    if (real_world_can_make_it(load_good(text, file.string()))) {
      EXPECT_EQ(in_the_real_world, "");
      ++real;
    } else {
      EXPECT_NE(in_the_real_world.find("SC0309"), std::string::npos) << file << "\n" << in_the_real_world;
      ++simulated;
    }
  }
  EXPECT_GE(real, 6);
  EXPECT_GE(simulated, 4);
}
TEST(ExampleScenarios, show_every_kind_of_fault_that_a_run_survives_with_the_same_bits) {
  std::set<FaultKind> shown;
  for (const auto& file : examples()) {
    const Scenario s = load_good(content_of(file), file.string());
    for (const FaultSpec& f : s.faults) shown.insert(f.kind);
    const bool compares = std::any_of(s.expect.begin(), s.expect.end(), [](const Expectation& e) {
      return e.kind == Expectation::Kind::loss && e.tolerance == 0;
    });
    EXPECT_TRUE(compares) << file;
  }
  for (std::size_t i = 0; i < fault_kinds; ++i) {
    const auto kind = static_cast<FaultKind>(i);
    EXPECT_EQ(shown.contains(kind), kind != FaultKind::nan) << name_of(kind);  // which costs a step
  }
}
TEST(ExampleScenarios, are_described_and_load_back) {
  for (const auto& file : examples()) {
    const Scenario s = load_good(content_of(file), file.string());
    expect_same(load_good(describe(s), file.string()), s);
  }
}

}  // namespace
}  // namespace stagecraft
