// `stagecraft reproduce` as people and scripts use it: tables, one JSON object per cell, wrong input.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "tests/tools/command.hpp"

namespace stagecraft::test {
namespace {

using Json = nlohmann::json;

std::vector<Json> cells(const std::string& arguments) {
  const Ran ran = run("reproduce pipemorph --json " + arguments, "2>/dev/null");
  EXPECT_EQ(ran.code, 0) << ran.output;
  std::vector<Json> objects;
  std::istringstream lines(ran.output);
  for (std::string line; std::getline(lines, line);) objects.push_back(Json::parse(line));
  return objects;
}

TEST(Reproduce, help_names_the_options) {
  const Ran ran = run("reproduce --help");
  EXPECT_EQ(ran.code, 0);
  for (const char* word : {"NAME", "--figure", "--seed", "--json", "pipemorph"}) EXPECT_TRUE(has(ran, word)) << word;
}

TEST(Reproduce, an_unknown_paper_or_figure_is_refused_with_what_there_is) {
  const Ran paper = run("reproduce gpipe");
  EXPECT_EQ(paper.code, 2);
  EXPECT_TRUE(has(paper, "'gpipe'") && has(paper, "pipemorph")) << paper.output;
  const Ran nine = run("reproduce pipemorph --figure 9");
  EXPECT_EQ(nine.code, 2);
  EXPECT_TRUE(has(nine, "--figure 9") && has(nine, "contention") && has(nine, "15, 16")) << nine.output;
  EXPECT_EQ(run("reproduce pipemorph --figure 2").code, 2);
  EXPECT_EQ(run("reproduce pipemorph --figure x").code, 2);
  EXPECT_EQ(run("reproduce pipemorph --seed -1").code, 2);
  EXPECT_EQ(run("reproduce pipemorph --world real").code, 2);
  EXPECT_EQ(run("reproduce").code, 2);
}

TEST(Reproduce, json_is_one_object_per_cell_with_every_field) {
  const auto objects = cells("--figure 14");
  ASSERT_FALSE(objects.empty());
  bool has_published = false, has_none = false;
  for (const Json& j : objects) {
    EXPECT_EQ(j["figure"], 14);
    for (const char* field : {"case", "system", "injection", "memory", "unit", "published", "measured",
                              "peak_activations", "peak_held", "fitted"})
      EXPECT_TRUE(j.contains(field)) << field;
    has_none = has_none || j["published"].is_null();
    has_published = has_published || j["published"] == 703.0;
  }
  EXPECT_TRUE(has_published && has_none);
}

TEST(Reproduce, the_tables_say_how_they_were_made_and_stand_beside_the_published_ones) {
  const Ran ran = run("reproduce pipemorph --figure 21 --figure 6", "2>/dev/null");
  EXPECT_EQ(ran.code, 0);
  EXPECT_TRUE(has(ran, "emulated, calibrated on the published operator times")) << ran.output;
  EXPECT_TRUE(has(ran, "Figure 6") && has(ran, "Figure 21") && has(ran, "1350") && has(ran, "862*")) << ran.output;
  EXPECT_TRUE(has(ran, "detect") && has(ran, "Figure 9")) << ran.output;
  EXPECT_LT(ran.output.find("Figure 6:"), ran.output.find("Figure 21:")) << "in the paper's order";
  std::istringstream lines(ran.output);
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 120U) << line;
}

}  // namespace
}  // namespace stagecraft::test
