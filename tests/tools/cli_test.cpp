// The command as people and scripts use it: exit codes, messages, one JSON object a line, signals.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>

#include "tests/tools/command.hpp"

namespace stagecraft::test {
namespace {

using Json = nlohmann::json;
using namespace std::chrono_literals;

TEST(Command, every_example_checks) {
  // Whose text the small ones learn, by a path from the root of the checkout.
  std::filesystem::copy_file(STAGECRAFT_SOURCE_DIR "/LICENSE", "LICENSE",
                             std::filesystem::copy_options::overwrite_existing);
  for (const auto& entry : std::filesystem::directory_iterator(std::string(STAGECRAFT_SOURCE_DIR) + "/examples")) {
    if (entry.path().extension() != ".yaml") continue;
    const Ran ran = run("check " + entry.path().string());
    EXPECT_EQ(ran.code, 0) << entry.path() << "\n" << ran.output;
    EXPECT_TRUE(has(ran, "can run"));
  }
}

TEST(Command, check_warns_of_more_devices_than_cores_and_prints_the_ladder_of_timeouts) {
  const Ran ran =
      run("check " + example("quickstart.yaml") + " --set nodes.0.devices.0.count=64 --set pipeline.stages=64");
  EXPECT_EQ(ran.code, 0) << ran.output;
  EXPECT_TRUE(has(ran, "64 cpu devices share")) << ran.output;
  EXPECT_TRUE(has(ran, "timeouts: ")) << ran.output;
}

TEST(Command, check_json_tells_the_same_and_the_resolved_file_checks_again) {
  const Ran ran = run("check --json " + example("worked-example.yaml"), "2>/dev/null");
  ASSERT_EQ(ran.code, 0) << ran.output;
  const Json j = Json::parse(ran.output);
  EXPECT_EQ(j["ok"], true);
  EXPECT_EQ(j["stages"].size(), 4U);
  EXPECT_EQ(j["forecast_ms"], 390.0);
  const std::string file = temporary("resolved.yaml");
  std::ofstream(file) << j["resolved"].get<std::string>();
  EXPECT_EQ(run("check " + file).code, 0);
  const Ran bad = run("check --json " + example("worked-example.yaml") + " --set model.layers=none", "2>/dev/null");
  EXPECT_EQ(bad.code, 2);
  EXPECT_EQ(Json::parse(bad.output)["diagnostics"][0]["code"], "SC0116");
}

TEST(Command, a_bad_file_is_refused_with_position_and_code_and_nothing_starts) {
  const std::string file = temporary("bad.yaml");
  std::ofstream(file)
      << "version: 1\njob: { name: x, iterations: three }\nmodel: { layers: 30, layers: 30 }\n"
         "training: { micro_batches: 8 }\n"
         "pipeline: { stages: 4, layout: [7, 7, 7, 7], colour: red }\n"
         "nodes: [{ name: n0, devices: [{ kind: emulated, count: 4, memory: 8, costs: { forward: 10 } }] }]\n";
  for (const char* verb : {"check ", "run ", "sim "}) {
    const Ran ran = run(verb + file);
    EXPECT_EQ(ran.code, 2) << verb;
    EXPECT_TRUE(has(ran, file + ":2:29: SC0116")) << ran.output;
    EXPECT_TRUE(has(ran, file + ":3:")) << ran.output;
    EXPECT_TRUE(has(ran, "28") && has(ran, "30")) << ran.output;
    EXPECT_TRUE(has(ran, "colour")) << ran.output;
  }
}

TEST(Command, a_file_that_is_not_there_or_a_folder_is_refused) {
  EXPECT_EQ(run("check /no/such/file.yaml").code, 2);
  EXPECT_EQ(run("check /tmp").code, 2);
  EXPECT_TRUE(has(run("run /no/such/file.yaml"), "/no/such/file.yaml"));
}

TEST(Command, bad_usage_ends_with_2) {
  EXPECT_EQ(run("").code, 2);
  EXPECT_EQ(run("fly").code, 2);
  EXPECT_EQ(run("sim " + example("worked-example.yaml") + " --seeds 5..1").code, 2);
  EXPECT_EQ(run("sim " + example("worked-example.yaml") + " --seed -1").code, 2);
  EXPECT_EQ(run("sim " + example("worked-example.yaml") + " --lateness 5").code, 2);
  EXPECT_EQ(run("explain SC9999").code, 2);
  EXPECT_EQ(run("explain SC0203").code, 0);
  EXPECT_EQ(run("--help").code, 0);
}

TEST(Command, one_seed_gives_one_event_hash_in_two_processes) {
  const std::string arguments = "sim " + example("worked-example.yaml") + " --json --seeds 3..4";
  const Ran a = run(arguments, "2>/dev/null"), b = run(arguments, "2>/dev/null");
  EXPECT_EQ(a.code, 0);
  EXPECT_EQ(a.output, b.output);
  std::istringstream lines(a.output);
  std::string first, second, rest;
  ASSERT_TRUE(std::getline(lines, first) && std::getline(lines, second));
  EXPECT_FALSE(std::getline(lines, rest)) << "one object on one line per run";
  const Json x = Json::parse(first), y = Json::parse(second);
  EXPECT_NE(x["event_hash"], y["event_hash"]);
  EXPECT_EQ(x["weights_sha256"], y["weights_sha256"]);
  EXPECT_EQ(x["losses_hex"], y["losses_hex"]);
}

TEST(Command, sim_keeps_a_trace_when_asked) {
  const std::string file = temporary("sim.json");
  const Ran ran = run("sim " + example("worked-example.yaml") + " --trace " + file);
  EXPECT_EQ(ran.code, 0) << ran.output;
  std::ifstream trace(file);
  const std::size_t events = Json::parse(trace)["traceEvents"].size();
  EXPECT_GT(events, 100U);
  EXPECT_EQ(run("sim " + example("worked-example.yaml") + " --trace " + file).code, 0);
  std::ifstream again(file);
  EXPECT_EQ(Json::parse(again)["traceEvents"].size(), events) << "the second run replaces the first one's trace";
  const Ran refused = run("sim " + example("worked-example.yaml") + " --trace /no/such/folder/t.json");
  EXPECT_EQ(refused.code, 2);
  EXPECT_TRUE(has(refused, "/no/such/folder/t.json")) << refused.output;
}

TEST(Command, run_json_has_every_field_and_keeps_trace_log_and_record) {
  const Ran ran = run("run " + example("worked-example.yaml") + " --json --set job.iterations=3", "2>/dev/null");
  ASSERT_EQ(ran.code, 0) << ran.output;
  const Json j = Json::parse(ran.output);
  for (const char* field :
       {"seed", "iterations", "first_loss", "last_loss", "losses", "losses_hex", "weights_sha256", "moments_sha256",
        "tokens_per_second", "iteration_ms", "peak_bytes", "event_hash", "violations", "trace"})
    EXPECT_TRUE(j.contains(field)) << field;
  EXPECT_EQ(j["iterations"], 3);
  EXPECT_TRUE(j["violations"].empty());
  // Due times do not hang on the timers: an emulated iteration is as long as its plan, give or take a choice that a
  // late timer has changed.
  for (const Json& ms : j["iteration_ms"]) {
    EXPECT_GE(ms.get<double>(), 390.0);
    EXPECT_LE(ms.get<double>(), 420.0);
  }
  std::ifstream trace(j["trace"].get<std::string>());
  EXPECT_GT(Json::parse(trace)["traceEvents"].size(), 100U);
  std::ifstream log(j["log"].get<std::string>());
  std::string line;
  std::size_t committed = 0;
  while (std::getline(log, line)) committed += Json::parse(line)["event"] == "committed";
  EXPECT_EQ(committed, 3U);  // B38: the loss appears once per iteration
}

TEST(Command, an_output_folder_that_cannot_be_made_is_refused) {
  const Ran ran = run("run " + example("worked-example.yaml") + " --set output.dir=/proc/nowhere");
  EXPECT_EQ(ran.code, 2);
  EXPECT_TRUE(has(ran, "output.dir")) << ran.output;
}

}  // namespace
}  // namespace stagecraft::test
