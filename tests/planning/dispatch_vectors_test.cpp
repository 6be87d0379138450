// The dispatch rules against recorded cases: reactive under caps, and follow under slow links it was not planned for.
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "planning/follow.hpp"
#include "tests/planning/pipelines.hpp"

namespace stagecraft::pipelines {
namespace {

using Counts = std::vector<std::uint32_t>;

std::vector<nlohmann::json> records_of(const std::string& schedule) {
  std::ifstream file(STAGECRAFT_SOURCE_DIR "/tests/data/schedules/vectors.json");
  const auto all = nlohmann::json::parse(file);
  std::vector<nlohmann::json> records;
  for (const auto& record : all["vectors"])
    if (record["schedule"] == schedule) records.push_back(record);
  return records;
}

OperatorTimes times_of(const nlohmann::json& record) {
  const auto ms = [&](const char* field) { return record[field].get<int>() * 1ms; };
  return {ms("F"), ms("B"), ms("W")};
}

Counts counts_of(const nlohmann::json& record, const char* field) {
  return record.contains(field) ? record[field].get<Counts>() : Counts{};
}

Counts peaks_of(const SimulationResult& result, std::uint32_t StagePeaks::*which) {
  Counts values;
  for (const StagePeaks& peaks : result.peaks) values.push_back(peaks.*which);
  return values;
}

void check_reactive(const nlohmann::json& record, Placement placement) {
  SCOPED_TRACE(record.dump());
  PipelineShape shape = shape_of(record["p"], record["m"], record["v"]);
  shape.placement = placement;
  SimulationInput input = input_of(shape, bare_plans(shape), times_of(record));
  set_links(input, {record["lat"].get<int>() * 1ms, record["occ"].get<int>() * 1ms});
  for (std::uint32_t s = 0; s < shape.stages; ++s) {
    StageCaps& caps = input.plans[s].caps;
    if (const Counts c = counts_of(record, "cap_act"); !c.empty()) caps.activations = c[s];
    if (const Counts c = counts_of(record, "warmup"); !c.empty()) input.plans[s].warmup = c[s];
    if (const Counts c = counts_of(record, "cap_pend"); !c.empty()) caps.pending_weights = c[s];
    if (const Counts c = counts_of(record, "cap_mem"); !c.empty()) caps.held = c[s];
  }
  const SimulationResult result = simulate(input);
  EXPECT_FALSE(result.hung);
  EXPECT_EQ(result.makespan, record["makespan"].get<int>() * 1ms);
  EXPECT_EQ(peaks_of(result, &StagePeaks::activations), counts_of(record, "act"));
  EXPECT_EQ(peaks_of(result, &StagePeaks::pending_weights), counts_of(record, "pend"));
  EXPECT_EQ(peaks_of(result, &StagePeaks::held), counts_of(record, "mem"));
}

TEST(DispatchVectors, reactive_takes_as_long_and_holds_as_much_as_recorded) {
  const auto records = records_of("reactive");
  EXPECT_EQ(records.size(), 152U);
  for (const auto& record : records) check_reactive(record, Placement::loop);
}

TEST(DispatchVectors, reactive_with_two_chunks_in_a_v_takes_as_long_and_holds_as_much_as_recorded) {
  const auto records = records_of("reactive-v");
  EXPECT_EQ(records.size(), 29U);
  for (const auto& record : records) check_reactive(record, Placement::v);
}

PipelineProblem problem_of(const nlohmann::json& record) {
  PipelineProblem problem;
  problem.shape = shape_of(record["p"], record["m"], record["v"]);
  problem.times.assign(problem.shape.total_chunks(), times_of(record));
  for (const std::uint32_t cap : counts_of(record, "cap_mem")) problem.caps.push_back({{}, {}, cap});
  return problem;
}

TEST(DispatchVectors, follow_takes_as_long_under_an_unknown_slow_link_as_recorded) {
  const auto records = records_of("follow");
  EXPECT_EQ(records.size(), 111U);
  for (const auto& record : records) {
    SCOPED_TRACE(record.dump());
    PipelineProblem problem = problem_of(record);
    const auto kind = parse_schedule_kind(record["hint"].get<std::string>());
    ASSERT_TRUE(kind);
    const Schedule hint = natural(*kind, problem.shape);
    const SimulationResult planned = replay(problem, hint);
    SimulationInput input = input_of(problem.shape, follow_plans(problem, hint, planned), times_of(record));
    for (const int latency : record["lat"]) input.forward_links.push_back({latency * 1ms});
    input.backward_links = input.forward_links;
    const SimulationResult result = simulate(input);
    EXPECT_FALSE(result.hung);
    EXPECT_EQ(result.makespan, record["makespan"].get<int>() * 1ms);
    EXPECT_EQ(peaks_of(result, &StagePeaks::held), counts_of(record, "mem"));
    problem.forward_links = input.forward_links;
    problem.backward_links = input.backward_links;
    EXPECT_EQ(replay(problem, hint).makespan, record["static"].get<int>() * 1ms);
  }
}

}  // namespace
}  // namespace stagecraft::pipelines
