// `trace summary`: numbers that were worked out by hand, traces of real and simulated runs, and files that are none.
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/tools/running_job.hpp"

namespace stagecraft::test {
namespace {

nlohmann::json summary_of(const std::string& arguments) {
  const Ran ran = run("trace summary --json " + arguments, "2>/dev/null");
  EXPECT_EQ(ran.code, 0) << arguments;
  EXPECT_EQ(std::count(ran.output.begin(), ran.output.end(), '\n'), 1) << "one object on one line";
  return nlohmann::json::parse(ran.output, nullptr, false);
}

std::string write_trace(const std::string& events) {
  std::ofstream("hand.json") << R"({"displayTimeUnit":"ms","traceEvents":[)" << events << "]}";
  return "hand.json";
}

std::string ran_event(int stage, const std::string& name, const std::string& category, int start_us, int us,
                      int iteration) {
  return R"({"pid":0,"tid":)" + std::to_string(stage) + R"(,"ph":"X","name":")" + name + R"(","cat":")" + category +
         R"(","ts":)" + std::to_string(start_us) + R"(,"dur":)" + std::to_string(us) + R"(,"args":{"iteration":)" +
         std::to_string(iteration) + R"(,"epoch":1}},)";
}

std::string arrow_end(const std::string& phase, int stage, int id, int at_us) {
  return R"({"pid":0,"tid":)" + std::to_string(stage) + R"(,"ph":")" + phase +
         R"(","name":"activation","cat":"link","id":)" + std::to_string(id) + R"(,"ts":)" + std::to_string(at_us) +
         "},";
}

const std::string last_event = R"({"ph":"M","name":"thread_name","pid":0,"tid":0,"args":{"name":"stage 0"}})";

// Two stages over 10 ms. Stage 0: F, B, step; stage 1: F and B+W, which waits for a tensor for two of its four ms.
std::string two_stages() {
  return ran_event(0, "0F0", "F", 1000, 2000, 1) + arrow_end("s", 0, 7, 3000) + arrow_end("f", 1, 7, 7000) +
         ran_event(1, "1F1", "F", 4000, 2000, 1) + ran_event(1, "1X0", "X", 7000, 1500, 1) +
         ran_event(0, "0B0", "B", 8000, 1000, 1) + ran_event(0, "0W0", "W", 9000, 500, 1) +
         ran_event(0, "step", "service", 10'500, 500, 2);
}

TEST(TraceSummary, adds_up_what_the_stages_did) {
  const auto j = summary_of(write_trace(two_stages() + last_event));
  EXPECT_EQ(j["span_ms"], 10.0);
  EXPECT_EQ(j["planned"], false);
  EXPECT_EQ(j["loose_ends"], 0);
  ASSERT_EQ(j["stages"].size(), 2U);
  const auto expected = nlohmann::json::parse(R"([
    {"stage": 0, "replica": 0, "forward_ms": 2.0, "backward_ms": 1.0, "weight_ms": 0.5, "backward_and_weight_ms": 0.0,
     "other_ms": 0.5, "others": {"step": 0.5}, "operators": 3, "tensors": 0, "under_way_ms": 0.0, "waited_ms": 0.0,
     "busy_ms": 4.0, "idle_ms": 6.0, "bubble": 0.6},
    {"stage": 1, "replica": 0, "forward_ms": 2.0, "backward_ms": 0.0, "weight_ms": 0.0, "backward_and_weight_ms": 1.5,
     "other_ms": 0.0, "others": {}, "operators": 2, "tensors": 1, "under_way_ms": 4.0, "waited_ms": 2.0,
     "busy_ms": 3.5, "idle_ms": 6.5, "bubble": 0.65}])");
  EXPECT_EQ(j["stages"], expected) << j.dump();
  EXPECT_DOUBLE_EQ(j["bubble"], 0.625);
  const Ran text = run("trace summary hand.json");
  EXPECT_EQ(text.code, 0) << text.output;
  EXPECT_TRUE(has(text, "hand.json: 10.00 ms from the first start to the last end, bubble 62.5 % over all stages"))
      << text.output;
  EXPECT_TRUE(has(text, "stage 1  2.00  0.00  0.00    1.50      0.00          2        1          4.00       2.00"))
      << text.output;
  EXPECT_TRUE(has(text, "other: step 0.50 ms")) << text.output;
}

TEST(TraceSummary, of_each_iteration_what_ran_for_it) {
  const auto j = summary_of("--iterations " + write_trace(ran_event(0, "initialise", "service", 0, 900, 0) +
                                                          two_stages() + ran_event(0, "0F0", "F", 11'000, 3000, 2) +
                                                          ran_event(1, "1F0", "F", 12'000, 2500, 2) + last_event));
  ASSERT_EQ(j["iterations"].size(), 2U) << "nothing but a service is no iteration";
  const auto &first = j["iterations"][0], &second = j["iterations"][1];
  EXPECT_EQ(first["iteration"], 1);
  EXPECT_EQ(first["span_ms"], 8.5);
  EXPECT_EQ(first["stages"][0]["idle_ms"], 5.0);
  EXPECT_EQ(first["stages"][1]["tensors"], 1);
  EXPECT_EQ(second["iteration"], 2);
  EXPECT_EQ(second["span_ms"], 4.0) << "from the step that it brings";
  EXPECT_EQ(second["stages"][0]["others"]["step"], 0.5);
  EXPECT_EQ(second["stages"][1]["idle_ms"], 1.5);
  EXPECT_EQ(second["stages"][1]["tensors"], 0);
  EXPECT_TRUE(has(run("trace summary hand.json --iterations"), "\niteration 2: 4.00 ms, bubble 25.0 %\n"))
      << run("trace summary hand.json --iterations").output;
}

TEST(TraceSummary, counts_time_once_and_arrows_with_both_ends) {
  // What runs at the same time is busy once; so are two tensors on their way, of which one was sent twice.
  const auto j = summary_of(write_trace(
      ran_event(1, "1F0", "F", 0, 4000, 1) + ran_event(1, "1F1", "F", 2000, 4000, 1) + arrow_end("s", 0, 1, 5000) +
      arrow_end("s", 0, 1, 6000) + arrow_end("f", 1, 1, 8000) + arrow_end("f", 1, 2, 9000) +
      arrow_end("s", 0, 2, 7000) + arrow_end("f", 1, 3, 500) + ran_event(1, "1B0", "B", 9000, 1000, 1) + last_event));
  const auto& stage = j["stages"][0];
  EXPECT_EQ(stage["stage"], 1);
  EXPECT_EQ(stage["forward_ms"], 8.0);
  EXPECT_EQ(stage["busy_ms"], 7.0);
  EXPECT_EQ(stage["tensors"], 2);
  EXPECT_EQ(stage["under_way_ms"], 3.0);
  EXPECT_EQ(stage["waited_ms"], 3.0);
  EXPECT_EQ(j["loose_ends"], 2) << "the first sending of 1, and the arrival of 3";
  EXPECT_TRUE(has(run("trace summary hand.json"), "2 tensors were sent or arrived outside of what the trace holds"));
}

TEST(TraceSummary, agrees_with_the_run_that_left_the_trace) {
  const std::string set = " --set job.iterations=3 --set 'links.overrides=[{between: [0, 1], latency: 20ms}]'";
  const Ran ran = run("sim " + example("worked-example.yaml") + set + " --json --trace sim.json", "2>/dev/null");
  ASSERT_EQ(ran.code, 0) << ran.output;
  const auto result = nlohmann::json::parse(ran.output);
  const auto j = summary_of("sim.json --iterations");
  ASSERT_EQ(j["iterations"].size(), 3U);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(j["iterations"][i]["span_ms"], result["iteration_ms"][i]);
    const auto& stage = j["iterations"][i]["stages"][1];
    EXPECT_EQ(stage["operators"], 36);
    EXPECT_EQ(stage["busy_ms"], 360.0);
    EXPECT_EQ(stage["tensors"], 24) << "12 from each side, of which only one is far away";
    EXPECT_GE(stage["under_way_ms"], 20.0);
    EXPECT_LE(stage["under_way_ms"], 240.0);
    EXPECT_GT(stage["waited_ms"], 0.0) << "its first forward";
  }
  EXPECT_EQ(run("trace summary sim.json").code, 0);
}

TEST(TraceSummary, of_a_plan_and_of_a_real_run_with_replicas) {
  ASSERT_EQ(run("plan " + example("worked-example.yaml") + " --trace plan.json").code, 0);
  const auto plan = summary_of("plan.json");
  EXPECT_EQ(plan["planned"], true);
  EXPECT_EQ(plan["span_ms"], 390.0);
  EXPECT_EQ(plan["stages"][2]["busy_ms"], 360.0);
  EXPECT_TRUE(plan["stages"][2]["under_way_ms"].is_null()) << "its arrows end where the tensor is taken";
  EXPECT_TRUE(has(run("trace summary plan.json"), "a plan: it does not say when tensors arrive"));

  const Ran ran =
      run("run " + slow_job(4) + " --fresh --json --set pipeline.replicas=2 --set nodes.0.devices.0.count=4",
          "2>/dev/null");
  ASSERT_EQ(ran.code, 0) << ran.output;
  const std::string trace = nlohmann::json::parse(ran.output)["trace"];
  const auto real = summary_of(trace + " --iterations");
  ASSERT_EQ(real["stages"].size(), 6U);
  EXPECT_EQ(real["stages"][3]["replica"], 1);
  EXPECT_EQ(real["stages"][3]["stage"], 0);
  EXPECT_EQ(real["stages"][4]["operators"], 4 * 2 * 3) << "iterations, micro-batches of this replica, F B W";
  EXPECT_EQ(real["iterations"].size(), 4U);
  EXPECT_GE(real["stages"][4]["under_way_ms"], 5.0) << "its links take 5 ms each";
  EXPECT_TRUE(has(run("trace summary " + trace), "stage 2, replica 1"));
}

TEST(TraceSummary, what_is_no_trace_of_ours_is_refused_with_the_reason) {
  const auto refused = [](const std::string& content, const std::string& why) {
    std::ofstream("bad.json") << content;
    const Ran ran = run("trace summary bad.json");
    EXPECT_EQ(ran.code, 2) << content;
    EXPECT_TRUE(has(ran, "'bad.json': " + why)) << content << "\n" << ran.output;
    EXPECT_EQ(run("trace summary bad.json --json", "2>/dev/null").output, "") << content;
  };
  const auto no_event = [&](const std::string& event, const std::string& expected) {
    refused(R"({"traceEvents":[)" + last_event + "," + event + "]}",
            "event 2 of traceEvents is none of stagecraft's: expected " + expected);
  };
  refused("", "it is empty: is the job still running?");
  refused("hello\n", "it is no JSON at byte 1 of 6");
  refused("{}", "it is JSON, but no trace: expected an object with a list 'traceEvents'");
  refused(R"([{"ph":"X"}])", "it is JSON, but no trace");
  refused(R"({"traceEvents":{"a":{"b":{}}}})", "it is JSON, but no trace");
  refused(R"({"traceEvents":[]})", "none of its 0 events says that something ran");
  refused(R"({"traceEvents":[1, [2], "x", null]})", "none of its 0 events says that something ran");
  refused(std::string(100'000, '['), "it breaks off at byte 100000");
  const std::string good = R"({"traceEvents":[)" + two_stages() + last_event + "]}";
  for (const std::size_t cut : {1U, 20U, 300U}) {
    const std::string part = good.substr(0, good.size() - cut);
    refused(part,
            "it breaks off at byte " + std::to_string(part.size()) + ": was it cut, the disk full, or is the job");
  }
  no_event(R"({"ph":"B","name":"x","ts":1})", R"(X, s, f or M as 'ph', got {"name":"x","ph":"B","ts":1}; `run`, )");
  no_event(R"({"name":"x"})", "a text as 'ph'");
  no_event(R"({"ph":"X","pid":0,"tid":0,"name":"memcpy","cat":"gpu","ts":1,"dur":1})",
           "an operator such as 0F3 with its");
  no_event(R"({"ph":"X","pid":0,"tid":0,"name":"0F3","cat":"B","ts":1,"dur":1})", "an operator such as 0F3 with its");
  no_event(R"({"ph":"X","pid":0,"tid":-1,"name":"0F3","cat":"F","ts":1,"dur":1})",
           "a whole number below 2^32 as 'tid'");
  no_event(R"({"ph":"X","pid":0,"tid":0,"name":"0F3","cat":"F","ts":1,"dur":-1})",
           "microseconds from 0 to 1e14 as 'dur'");
  no_event(R"({"ph":"X","pid":0,"tid":0,"name":"0F3","cat":"F","ts":1e300,"dur":1})",
           "microseconds from 0 to 1e14 as 'ts'");
  no_event(R"({"ph":"s","pid":0,"tid":0,"cat":"link","id":"a","ts":1})", "a whole number as 'id'");
  std::filesystem::resize_file("bad.json", std::uintmax_t{300} << 20);  // a hole: it takes no space
  const Ran huge = run("trace summary bad.json");
  EXPECT_EQ(huge.code, 2);
  EXPECT_TRUE(has(huge, "'bad.json': it has 300 MiB, and a trace of ours has at most some 25 MiB")) << huge.output;
  EXPECT_TRUE(has(run("trace summary ."), "'.': expected a file, got a folder"));
  EXPECT_TRUE(has(run("trace summary nowhere.json"), "cannot read 'nowhere.json': No such file or directory"));
  EXPECT_EQ(run("trace").code, 2);
  EXPECT_EQ(run("trace summary --help").code, 0);
}

}  // namespace
}  // namespace stagecraft::test
