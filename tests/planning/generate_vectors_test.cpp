// Every generator against the recorded lists, times and peaks.
#include <gtest/gtest.h>

#include <map>

#include "planning/generate/v_shape.hpp"
#include "tests/planning/schedule_vectors.hpp"

namespace stagecraft::pipelines {
namespace {

using nlohmann::json;

// What to run for a record: a kind, split or not, or the plain form of a V schedule.
struct Recipe {
  ScheduleKind kind;
  bool split = false, plain = false;
};
const std::map<std::string, Recipe> recipes{{"gpipe", {ScheduleKind::gpipe}},
                                            {"gpipe-split", {ScheduleKind::gpipe, true}},
                                            {"1f1b", {ScheduleKind::one_f_one_b}},
                                            {"interleaved", {ScheduleKind::interleaved}},
                                            {"bfs", {ScheduleKind::bfs}},
                                            {"zb-h1", {ScheduleKind::zb_h1}},
                                            {"zb-h2", {ScheduleKind::zb_h2}},
                                            {"zb-1p", {ScheduleKind::zb_auto}},
                                            {"zb-2p", {ScheduleKind::zb_auto}},
                                            {"zb-v", {ScheduleKind::zb_v}},
                                            {"v-half", {ScheduleKind::v_half}},
                                            {"v-min", {ScheduleKind::v_min}},
                                            {"v-half-plain", {ScheduleKind::v_half, false, true}},
                                            {"v-min-plain", {ScheduleKind::v_min, false, true}}};

PipelineProblem problem_of(const json& record, ScheduleKind kind) {
  const auto ms = [&](const char* field) { return record[field].get<int>() * 1ms; };
  PipelineShape shape = shape_of(record["p"], record["m"], record["v"]);
  shape.placement = placement_of(kind);
  PipelineProblem problem = uniform_problem(shape, {ms("F"), ms("B"), ms("W")}, {ms("lat"), ms("occ"), {}});
  if (kind == ScheduleKind::zb_auto) problem.caps.assign(shape.stages, {{}, {}, record["cap"].get<std::uint32_t>()});
  return problem;
}

void check_peaks(const json& record, const SimulationResult& result) {
  EXPECT_EQ(peaks_of(result, &StagePeaks::activations), record["act"].get<std::vector<std::uint32_t>>());
  EXPECT_EQ(peaks_of(result, &StagePeaks::pending_weights), record["pend"].get<std::vector<std::uint32_t>>());
  EXPECT_EQ(peaks_of(result, &StagePeaks::held), record["mem"].get<std::vector<std::uint32_t>>());
}

void check_list(const json& record, const Recipe& recipe, const PipelineProblem& problem, const Schedule& schedule) {
  const bool v_block = recipe.kind == ScheduleKind::v_half || recipe.kind == ScheduleKind::v_min;
  if (v_block) {
    EXPECT_EQ(block_memory(recipe.kind, problem.shape.stages), record["cap"].get<std::uint32_t>());
  }
  if (!record.contains("order")) return;
  std::string text;
  for (const json& line : record["order"]) text += line.get<std::string>() + "\n";
  EXPECT_EQ(to_text(schedule), text);
}

TEST(ScheduleVectors, all_361_records_of_lists_are_met) {
  std::map<std::string, int> seen;
  int orders = 0, exact_heuristics = 0;
  for (const json& record : schedule_vectors()) {
    const auto found = recipes.find(record["schedule"].get<std::string>());
    if (found == recipes.end()) continue;
    ++seen[found->first];
    SCOPED_TRACE(record.dump());
    const Recipe& recipe = found->second;
    const PipelineProblem problem = problem_of(record, recipe.kind);
    const Schedule schedule =
        recipe.plain ? repeated_block(recipe.kind, problem.shape) : generate(recipe.kind, problem, {{}, recipe.split});
    const SimulationResult result = replay(problem, schedule);
    ASSERT_FALSE(result.hung);
    check_list(record, recipe, problem, schedule);
    orders += record.contains("order") ? 1 : 0;
    if (record.value("at_most", false)) {
      EXPECT_LE(result.makespan, record["makespan"].get<int>() * 1ms);
      exact_heuristics += result.makespan == record["makespan"].get<int>() * 1ms ? 1 : 0;
      for (const std::uint32_t held : peaks_of(result, &StagePeaks::held))
        EXPECT_LE(held, record["cap"].get<std::uint32_t>());
      continue;
    }
    EXPECT_EQ(result.makespan, record["makespan"].get<int>() * 1ms);
    EXPECT_EQ(stage_time(result), record["stage"].get<int>() * 1ms);
    EXPECT_NEAR(idle_share(result), record["idle"].get<double>(), 0.51e-6);
    check_peaks(record, result);
  }
  EXPECT_EQ(seen, (std::map<std::string, int>{{"1f1b", 30},
                                              {"bfs", 21},
                                              {"gpipe", 22},
                                              {"gpipe-split", 27},
                                              {"interleaved", 52},
                                              {"v-half", 26},
                                              {"v-half-plain", 24},
                                              {"v-min", 23},
                                              {"v-min-plain", 20},
                                              {"zb-1p", 18},
                                              {"zb-2p", 15},
                                              {"zb-h1", 29},
                                              {"zb-h2", 26},
                                              {"zb-v", 28}}));
  EXPECT_EQ(orders, 14);
  EXPECT_EQ(exact_heuristics, 33) << "so far the heuristic's makespans are the recorded ones";
}

}  // namespace
}  // namespace stagecraft::pipelines
