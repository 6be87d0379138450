// `stagecraft plan` as people and scripts use it: the worked example row by row, the JSON fields, files, wrong input.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "tests/tools/command.hpp"

namespace stagecraft::test {
namespace {

using Json = nlohmann::json;

const std::string worked = example("worked-example.yaml");

Ran plan(const std::string& options, const std::string& streams = "2>&1") {
  return run("plan " + worked + " " + options, streams);
}

Json plan_json(const std::string& options) {
  const Ran ran = plan("--json " + options, "2>/dev/null");
  EXPECT_EQ(ran.code, 0) << options << "\n" << ran.output;
  EXPECT_EQ(std::count(ran.output.begin(), ran.output.end(), '\n'), 1) << "one object on one line";
  return ran.code == 0 ? Json::parse(ran.output) : Json::object();
}

std::vector<int> per_stage(const Json& plan, const char* field) {
  std::vector<int> numbers;
  for (const Json& stage : plan["stages"]) numbers.push_back(stage[field].get<int>());
  return numbers;
}

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t n = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++n;
  return n;
}

std::string contents(const std::string& file) {
  std::ifstream stream(file);
  std::stringstream text;
  text << stream.rdbuf();
  return text.str();
}

// Refused with exit code 2 and a message that has all of these words. Nothing is printed for scripts.
void expect_refused(const std::string& options, const std::vector<std::string>& words) {
  const Ran ran = plan(options);
  EXPECT_EQ(ran.code, 2) << options << "\n" << ran.output;
  for (const std::string& word : words) EXPECT_TRUE(has(ran, word)) << options << ": " << word << "\n" << ran.output;
  EXPECT_EQ(plan(options + " --json", "2>/dev/null").output, "") << options;
}

TEST(PlanWorkedExample, the_order_of_the_zero_delay_plan_takes_390_400_and_440_ms_at_0_10_and_20_ms) {
  const std::string replay = "--schedule pipemorph --dispatch static --assume 0-1=0ms --delay 0-1=";
  for (const auto& [delay, iteration] : {std::pair{"0ms", 390.0}, {"10ms", 400.0}, {"20ms", 440.0}}) {
    const Json j = plan_json(replay + delay);
    EXPECT_EQ(j["iteration_ms"], iteration) << delay;
    EXPECT_EQ(j["planned_ms"], 390.0) << delay;
    EXPECT_EQ(per_stage(j, "warmup"), (std::vector{7, 5, 3, 1})) << delay;
  }
}

TEST(PlanWorkedExample, planning_anew_for_20_ms_takes_410_with_a_longer_warm_up) {
  const Json j = plan_json("--schedule pipemorph --dispatch static --delay 0-1=20ms");
  EXPECT_EQ(j["iteration_ms"], 410.0);
  EXPECT_EQ(per_stage(j, "warmup"), (std::vector{8, 5, 3, 1}));
  EXPECT_EQ(j["links"][0]["slack"], 3);
  EXPECT_EQ(j["links"][0]["budget_ms"], 20.0);
}

TEST(PlanWorkedExample, choosing_at_run_time_takes_410_with_unchanged_warm_ups) {
  const Json j = plan_json("--delay 0-1=20ms");
  EXPECT_EQ(j["dispatch"], "reactive");
  EXPECT_EQ(j["iteration_ms"], 410.0);
  EXPECT_EQ(per_stage(j, "warmup"), (std::vector{7, 5, 3, 1}));
  EXPECT_EQ(plan_json("")["iteration_ms"], 390.0);
}

TEST(PlanWorkedExample, the_search_proves_that_390_is_the_optimum) {
  const Json j = plan_json("--exact");
  EXPECT_EQ(j["schedule"], "exact");
  EXPECT_EQ(j["iteration_ms"], 390.0);
  EXPECT_EQ(j["exact"]["optimum_ms"], 390.0);
  EXPECT_EQ(j["exact"]["proven"], true);
  EXPECT_TRUE(j["notes"].empty()) << j["notes"];
}

TEST(Plan, every_example_can_be_planned) {
  for (const auto& entry : std::filesystem::directory_iterator(std::string(STAGECRAFT_SOURCE_DIR) + "/examples")) {
    if (entry.path().extension() != ".yaml") continue;
    const Ran ran = run("plan " + entry.path().string());
    EXPECT_EQ(ran.code, 0) << entry.path() << "\n" << ran.output;
    EXPECT_TRUE(has(ran, "lower bound") && has(ran, "gap") && has(ran, "slack")) << ran.output;
    EXPECT_TRUE(has(ran, "what idle stages waited for")) << ran.output;
  }
}

TEST(Plan, every_schedule_takes_at_least_its_lower_bound_under_every_dispatch) {
  for (const char* schedule : {"gpipe", "1f1b", "interleaved", "bfs", "zb-h1", "zb-h2", "zb-auto", "zb-v", "v-half",
                               "v-min", "pipemorph", "planned"})
    for (const char* dispatch : {"static", "reactive", "follow"}) {
      const Json j = plan_json(std::string("--schedule ") + schedule + " --dispatch " + dispatch + " --delay 1-2=7ms");
      ASSERT_TRUE(j.contains("iteration_ms")) << schedule;
      EXPECT_GE(j["iteration_ms"].get<double>(), j["lower_bound_ms"].get<double>()) << schedule << " " << dispatch;
      EXPECT_EQ(j["schedule"], schedule);
      EXPECT_EQ(j["dispatch"], dispatch);
    }
}

TEST(Plan, json_has_every_field_and_the_lists_are_whole) {
  const Json j = plan_json("--schedule zb-h2 --dispatch static");
  for (const char* field :
       {"schedule", "dispatch", "replicas", "made_by", "iteration_ms", "planned_ms", "lower_bound_ms", "gap",
        "idle_fraction", "credits", "notes", "stages", "waits", "links", "candidates"})
    EXPECT_TRUE(j.contains(field)) << field;
  EXPECT_EQ(j["lower_bound_ms"], 390.0);
  EXPECT_EQ(j["gap"], 0.0);
  EXPECT_NEAR(j["idle_fraction"].get<double>(), 30.0 / 390, 1e-9);
  EXPECT_EQ(per_stage(j, "warmup"), (std::vector{7, 5, 3, 1}));
  EXPECT_EQ(per_stage(j, "peak_activations"), (std::vector{7, 5, 3, 1}));
  EXPECT_EQ(per_stage(j, "peak_pending_w"), (std::vector{1, 3, 5, 7}));
  for (const Json& stage : j["stages"]) {
    const std::string operators = stage["operators"], s = stage["stage"].dump();
    for (int m = 0; m < 12; ++m)
      for (const char* letter : {"F", "B", "W"}) {
        const std::string op = s + letter + std::to_string(m) + " ";
        EXPECT_EQ(count(" " + operators + " ", " " + op), 1U) << op;
      }
    EXPECT_EQ(stage["busy_ms"], 360.0);
  }
  ASSERT_EQ(j["links"].size(), 3U);
  for (const Json& link : j["links"]) {
    EXPECT_EQ(link["slack"], 2);
    EXPECT_EQ(link["budget_ms"], 10.0);
    EXPECT_EQ(link["published_budget_ms"], 10.0);
  }
  double waited = 0;
  for (const Json& wait : j["waits"]) waited += wait["to_ms"].get<double>() - wait["from_ms"].get<double>();
  EXPECT_DOUBLE_EQ(waited, 4 * 30.0);
}

TEST(Plan, planned_names_its_candidates_and_is_no_longer_than_any_that_fits) {
  const Json j =
      plan_json("--schedule planned --dispatch static --set pipeline.caps.pending_weights=2 --delay 1-2=13ms");
  ASSERT_GT(j["candidates"].size(), 5U);
  bool winner = false;
  for (const Json& candidate : j["candidates"]) {
    if (!candidate["fits"].get<bool>()) continue;
    EXPECT_LE(j["planned_ms"].get<double>(), candidate["iteration_ms"].get<double>()) << candidate;
    winner = winner || candidate["name"] == j["made_by"];
  }
  EXPECT_TRUE(winner) << j["made_by"];
  for (const int pending : per_stage(j, "peak_pending_w")) EXPECT_LE(pending, 2);
}

TEST(Plan, replicas_are_planned_by_the_first_of_them) {
  const std::string two = "--set pipeline.replicas=2 --set nodes.0.devices.0.count=8 --set pipeline.warmup=auto";
  EXPECT_EQ(plan_json(two)["replicas"], 2);
  EXPECT_EQ(per_stage(plan_json(two + " --set training.micro_batches=2"), "warmup"), (std::vector{1, 1, 1, 1}));
  EXPECT_TRUE(has(plan(two), "replica 0 of 2"));
}

TEST(Plan, one_stage_never_waits) {
  const Json j = plan_json("--set pipeline.stages=1 --set pipeline.warmup=auto --exact");
  EXPECT_EQ(j["iteration_ms"], 360.0);
  EXPECT_EQ(j["idle_fraction"], 0.0);
  EXPECT_TRUE(j["links"].empty());
}

TEST(Plan, stages_that_do_not_fit_on_their_devices_are_noted) {
  const Ran ran = plan("--set nodes.0.devices.0.memory=100MiB");
  EXPECT_EQ(ran.code, 0);
  EXPECT_TRUE(has(ran, "note: stage 0 of replica 0 needs 1.67 GiB and its device has 100 MiB")) << ran.output;
}

TEST(PlanCompare, has_a_row_for_each_and_the_plan_itself_first) {
  const Ran ran = plan("--warmup 4,3,2,1 --dispatch static --compare 1f1b,zb-h2,planned", "2>/dev/null");
  ASSERT_EQ(ran.code, 0) << ran.output;
  for (const char* row : {"1f1b (above)", "zb-h2", "planned"}) EXPECT_TRUE(has(ran, row)) << ran.output;
  const Json j = plan_json("--warmup 4,3,2,1 --dispatch static --compare 1f1b,zb-h2,planned");
  ASSERT_EQ(j["compared"].size(), 3U);
  EXPECT_EQ(j["compared"][0]["iteration_ms"], 450.0);
  EXPECT_EQ(j["compared"][1]["iteration_ms"], 390.0);
  EXPECT_EQ(j["compared"][2]["iteration_ms"], 390.0);
}

TEST(PlanCompare, a_schedule_that_the_file_can_not_run_says_why_and_spoils_nothing) {
  const std::string options = "--set 'pipeline.layout=[1,1,1,1]' --compare zb-h2,zb-v";
  const Ran ran = plan(options);
  EXPECT_EQ(ran.code, 0) << ran.output;
  EXPECT_TRUE(has(ran, "can't run") && has(ran, "expected 8 entries")) << ran.output;
  const Json j = plan_json(options);
  EXPECT_EQ(j["compared"][0]["iteration_ms"], 390.0);
  EXPECT_EQ(j["compared"][1]["schedule"], "zb-v");
  EXPECT_TRUE(j["compared"][1]["problems"][0].get<std::string>().find("expected 8 entries") != std::string::npos) << j;
}

TEST(PlanCompare, warnings_about_the_file_come_once) {
  const Ran ran = plan("--set training.micro_batches=3 --set pipeline.warmup=auto --compare 1f1b,zb-h1,zb-h2");
  EXPECT_EQ(ran.code, 0);
  EXPECT_EQ(count(ran.output, "SC0252"), 1U) << ran.output;
}

TEST(PlanFiles, svg_and_trace_are_written) {
  const std::string svg = temporary("plan.svg"), trace = temporary("plan.json");
  const Ran ran = plan("--svg " + svg + " --trace " + trace);
  EXPECT_EQ(ran.code, 0) << ran.output;
  EXPECT_TRUE(contents(svg).starts_with("<svg")) << contents(svg).substr(0, 200);
  EXPECT_NE(contents(svg).find("390 ms"), std::string::npos);
  std::size_t operators = 0;
  const Json events = Json::parse(contents(trace))["traceEvents"];
  for (const Json& event : events)
    operators += event.value("cat", "") == "F" || event.value("cat", "") == "B" || event.value("cat", "") == "W";
  EXPECT_EQ(operators, 4U * 12 * 3);
}

TEST(PlanFiles, a_file_that_can_not_be_written_or_would_be_lost_is_refused) {
  expect_refused("--svg /no/such/folder/p.svg", {"/no/such/folder/p.svg"});
  expect_refused("--trace /no/such/folder/p.json", {"/no/such/folder/p.json"});
  expect_refused("--svg /tmp", {"/tmp"});
  expect_refused("--svg x --trace ./x", {"--svg", "--trace", "two files"});
  const std::string file = temporary("own.yaml");
  std::filesystem::copy_file(worked, file);
  for (const char* option : {"--svg ", "--trace "}) {
    const Ran ran = run("plan " + file + " " + option + "./own.yaml");
    EXPECT_EQ(ran.code, 2);
    EXPECT_TRUE(has(ran, "topology file")) << ran.output;
    EXPECT_EQ(contents(file), contents(worked));
  }
}

TEST(PlanRefuses, names_that_are_not_there) {
  expect_refused("--schedule nosuch", {"--schedule nosuch", "zb-h2", "planned"});
  expect_refused("--compare 1f1b,nosuch", {"--compare nosuch", "zb-h2", "planned"});
  expect_refused("--dispatch nosuch", {"--dispatch nosuch", "static, reactive, follow"});
  for (const char* option : {"--schedule", "--dispatch", "--warmup", "--compare", "--svg", "--trace"})
    expect_refused(std::string(option) + " ''", {option});
  EXPECT_EQ(run("plan /no/such.yaml").code, 2);
  EXPECT_EQ(run("plan").code, 2);
}

TEST(PlanRefuses, links_that_are_not_there_and_latencies_that_are_none) {
  for (const std::string option : {"--delay ", "--assume "}) {
    expect_refused(option + "0-2=5ms", {option + "0-2", "stages 0 to 3"});
    expect_refused(option + "1-1=5ms", {"1-1"});
    expect_refused(option + "3-4=5ms", {"3-4"});
    expect_refused(option + "0-1=2h", {"at most 1 h"});
    for (const char* bad :
         {"0-1", "0-1=20", "0-1=-5ms", "a-b=5ms", "=5ms", "0-99999999999=1ms", "0-1=nan", "0-1=99999999999999999999h"})
      expect_refused(option + bad, {"0-1=20ms", bad});
  }
  expect_refused("--set pipeline.stages=1 --set pipeline.warmup=auto --delay 0-1=5ms", {"one stage"});
}

TEST(PlanRefuses, warm_ups_and_caps_that_can_not_be) {
  expect_refused("--warmup 1,2", {"--warmup 1,2", "4 stages", "got 2"});
  expect_refused("--warmup a,b,c,d", {"--warmup a,b,c,d", "integer"});
  expect_refused("--warmup 0,1,1,1", {"from 1 to"});
  expect_refused("--warmup=-1,1,1,1", {"-1"});
  expect_refused("--warmup 1,2,3,4 --schedule planned", {"--warmup", "planned"});
  expect_refused("--schedule zb-v --set pipeline.caps.activations=1", {"at least pipeline.chunks = 2"});
}

TEST(PlanRefuses, iterations_beyond_all_numbers) {
  expect_refused("--set links.defaults.bandwidth=1B/s", {"1.21e+09 s", "fewer micro-batches"});
  expect_refused("--schedule planned --set training.micro_batches=65536 --set nodes.0.devices.0.costs.forward=1h",
                 {"fewer micro-batches"});
}

std::string list_file(const std::string& text) {
  std::ofstream(temporary("list")) << text;
  return "--list " + temporary("list") + " ";
}

TEST(PlanList, a_list_of_ones_own_takes_what_the_plan_that_it_comes_from_took) {
  const Json planned = plan_json("--schedule zb-h1 --dispatch static");
  std::string list;
  for (const Json& stage : planned["stages"]) list += stage["operators"].get<std::string>() + "\n";
  const Json own = plan_json(list_file(list));
  EXPECT_EQ(own["iteration_ms"], planned["iteration_ms"]);
  EXPECT_EQ(per_stage(own, "warmup"), per_stage(planned, "warmup"));
  EXPECT_EQ(own["dispatch"], "static");
  EXPECT_EQ(plan_json(list_file(list) + "--dispatch follow")["dispatch"], "follow");
}

TEST(PlanList, one_that_can_not_proceed_is_drawn_with_what_each_stage_waits_for) {
  const std::string two =
      "--set pipeline.stages=2 --set training.micro_batches=4 --set pipeline.warmup=auto "
      "--set model.layers=2 ";
  const Ran ran = plan(two + list_file("0F0 0B0 0W0 0F1 0B1 0W1 0F2 0B2 0W2 0F3 0B3 0W3\n"
                                       "1F0 1F1 1B0 1W0 1B1 1W1 1F2 1B2 1W2 1F3 1B3 1W3\n"));
  EXPECT_EQ(ran.code, 2);
  EXPECT_TRUE(has(ran, "stage 0 | 0F0 > 0B0 waits for its gradient from chunk 1")) << ran.output;
  EXPECT_TRUE(has(ran, "stage 1 | 1F0 > 1F1 waits for its input from chunk 0")) << ran.output;
}

TEST(PlanList, wrong_words_and_lists_that_lack_something_are_named) {
  expect_refused(list_file("0F0 0Q0\n"), {"list:1", "'0Q0'", "2F0"});
  expect_refused(list_file("0F0\n1F0\n2F0\n3F0\n"), {"stage 0", "0B0"});
  expect_refused("--list /no/such/list", {"/no/such/list"});
  expect_refused(list_file("0F0\n") + "--exact", {"--exact"});
}

TEST(PlanExact, is_for_one_chunk_and_not_too_many_operators) {
  expect_refused("--exact --schedule zb-v", {"--exact", "one chunk"});
  const Ran ran = plan("--exact --set training.micro_batches=10000");
  EXPECT_EQ(ran.code, 2);
  EXPECT_TRUE(has(ran, "this one has 120000")) << ran.output;
}

TEST(PlanExact, ends_soon_on_a_pipeline_that_it_can_not_prove) {
  const auto begin = std::chrono::steady_clock::now();
  const Json j = plan_json(
      "--exact --set pipeline.warmup=auto --set model.layers=8 --set pipeline.stages=8 "
      "--set nodes.0.devices.0.count=8 --set training.micro_batches=64 --set pipeline.caps.activations=6 "
      "--delay 2-3=13ms");
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(30));
  EXPECT_EQ(j["exact"]["proven"], false);
  EXPECT_GE(j["exact"]["optimum_ms"], j["exact"]["lower_bound_ms"]);
  EXPECT_EQ(j["iteration_ms"], j["exact"]["optimum_ms"]);
  for (const Json& stage : j["stages"]) EXPECT_LE(stage["peak_held"], 6);
}

}  // namespace
}  // namespace stagecraft::test
