// A planned iteration as a Chrome trace.
#include "planning/chrome_trace.hpp"

#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "tests/planning/schedule_vectors.hpp"

namespace stagecraft::pipelines {
namespace {

using Json = nlohmann::json;

Json events_of(const PipelineProblem& problem, ScheduleKind kind) {
  const SimulationResult planned = replay(problem, generate(kind, problem));
  return Json::parse(to_chrome_trace(problem.shape, planned))["traceEvents"];
}

TEST(PlannedTrace, has_every_operator_on_the_track_of_its_stage) {
  const PipelineProblem problem = uniform_problem(shape_of(2, 3), {10ms, 10ms, 1500ns});
  std::size_t operators = 0;
  for (const Json& event : events_of(problem, ScheduleKind::zb_h1)) {
    if (event["ph"] != "X") continue;
    ++operators;
    const auto op = parse_operator(event["name"].get<std::string>());
    ASSERT_TRUE(op);
    EXPECT_EQ(event["tid"], op->chunk.value);
    EXPECT_EQ(event["cat"], std::string(1, letter(op->kind)));
    EXPECT_EQ(event["dur"], op->kind == W ? 1.5 : 10'000) << "in microseconds";
    EXPECT_EQ(event["args"]["micro_batch"], op->micro_batch.value);
  }
  EXPECT_EQ(operators, 2U * 3 * 3);
}

TEST(PlannedTrace, joins_the_stages_that_a_tensor_crosses_with_arrows_that_have_two_ends) {
  // Two chunks in a V: the turn from chunk 2 to 3 stays on its stage.
  const PipelineProblem problem = uniform_problem(shape_for(ScheduleKind::zb_v, 3, 4), {10ms, 10ms, 10ms}, {2ms});
  std::map<std::uint64_t, std::map<std::string, Json>> arrows;
  for (const Json& event : events_of(problem, ScheduleKind::zb_v)) {
    if (event["ph"] != "s" && event["ph"] != "f") continue;
    EXPECT_TRUE(arrows[event["id"]].emplace(event["ph"], event).second);
  }
  EXPECT_EQ(arrows.size(), 2U * 4 * 4) << "both ways, 4 micro-batches, 4 of 5 boundaries";
  for (const auto& [id, ends] : arrows) {
    ASSERT_EQ(ends.size(), 2U);
    EXPECT_NE(ends.at("s")["tid"], ends.at("f")["tid"]);
    EXPECT_GE(ends.at("f")["ts"].get<double>() - ends.at("s")["ts"].get<double>(), 2000);
  }
}

TEST(PlannedTrace, names_its_tracks_and_survives_any_text) {
  ChromeTrace trace;
  trace.ran({{3}, {1}}, "say \"hi\" \\ \n", "service", -1500ns, 2us, {});
  trace.visit({{4}, {1}});
  const Json events = Json::parse(trace.text())["traceEvents"];
  EXPECT_EQ(events[0]["name"], "say \"hi\" \\ \n");
  EXPECT_EQ(events[0]["ts"], -1.5);
  std::set<std::string> names;
  for (const Json& event : events)
    if (event["ph"] == "M") names.insert(event["args"]["name"]);
  EXPECT_EQ(names, (std::set<std::string>{"replica 1", "stage 3", "stage 4"}));
  EXPECT_EQ(Json::parse(ChromeTrace().text())["traceEvents"].size(), 0U);
}

}  // namespace
}  // namespace stagecraft::pipelines
