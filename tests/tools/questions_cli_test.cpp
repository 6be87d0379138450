// What people ask a running job beside its status: pauses, who waits for whom, the plan, why, and what has happened.
#include <gtest/gtest.h>

#include "tests/tools/running_job.hpp"

namespace stagecraft::test {
namespace {

using Asked = nlohmann::json;

Asked ask(const std::string& words) {
  const Ran ran = run(words + " --json", "2>/dev/null");
  Asked answer = Asked::parse(ran.output, nullptr, false);
  if (answer.is_object()) answer["code"] = ran.code;
  return answer;
}

TEST(Questions, a_job_stands_still_while_it_is_paused_and_ends_with_the_same_bits) {
  const std::string file = slow_job(60);
  const Asked plain = Asked::parse(run("run " + file + " --json --fresh", "2>/dev/null").output);
  const JobBeside job("run " + file + " --json --fresh");
  ASSERT_TRUE(job.has_done(3)) << job.errors();
  const Asked paused = ask("pause");
  EXPECT_EQ(paused["code"], 0) << paused;
  EXPECT_GE(paused["iteration"], 3);
  EXPECT_EQ(ask("wait iteration " + paused["iteration"].dump())["code"], 0) << "which is decided";
  EXPECT_EQ(ask("checkpoint now")["outcome"], "refused");
  EXPECT_EQ(ask("migrate layers 1 to stage/1")["outcome"], "refused");
  const Asked status = ask("status");
  EXPECT_EQ(status["paused"], true) << status;
  EXPECT_TRUE(has(run("status"), ", paused"));
  const Asked waits = ask("dump");
  EXPECT_NE(waits["text"].get<std::string>().find("paused: iteration "), std::string::npos) << waits;
  ASSERT_EQ(waits["waits"].size(), 3U) << waits;
  EXPECT_EQ(ask("status")["iteration"], status["iteration"]) << "nothing was decided meanwhile";
  EXPECT_EQ(ask("resume")["code"], 0);
  EXPECT_EQ(ask("resume")["outcome"], "refused");
  EXPECT_EQ(job.code(), 0) << job.errors();
  const Asked result = Asked::parse(job.output());
  for (const char* key : {"losses_hex", "weights_sha256", "moments_sha256", "iterations"})
    EXPECT_EQ(plain.at(key), result.at(key)) << key;
}

TEST(Questions, a_paused_job_can_be_stopped) {
  const JobBeside job("run " + slow_job(2000) + " --fresh");
  ASSERT_TRUE(job.has_done(1)) << job.errors();
  EXPECT_EQ(run("pause").code, 0);
  EXPECT_EQ(run("stop").code, 0);
  EXPECT_EQ(job.code(), 5) << job.errors();
}

TEST(Questions, what_the_job_does_and_why_is_told_by_itself) {
  const JobBeside job("run " + slow_job(2000) + " --fresh");
  ASSERT_TRUE(job.has_done(2)) << job.errors();
  EXPECT_TRUE(has(run("why"), "none\n")) << "nothing was decided yet";
  ASSERT_EQ(run("migrate layers 1 to stage/1").code, 0);
  const Ran why = run("why 5");
  EXPECT_EQ(why.code, 0);
  EXPECT_TRUE(has(why, "move 1 begins, from layout [2, 2, 1] to [1, 3, 1]")) << why.output;
  EXPECT_TRUE(has(why, "asked for: layer 1 to stage 1 (by hand, process ")) << why.output;
  const Asked plan = ask("plan");
  ASSERT_EQ(plan["stages"].size(), 3U) << plan;
  EXPECT_NE(plan["stages"][2]["plan"].get<std::string>().find("2F0"), std::string::npos) << plan;
  const Asked logs = ask("logs 4 stage/2");
  ASSERT_EQ(logs["events"].size(), 4U) << logs;
  for (const Asked& event : logs["events"]) EXPECT_EQ(event["who"], "stage 2 of replica 0");
  EXPECT_TRUE(has(run("logs stage/7"), "expected a stage from 0 to 2, got 7"));
  EXPECT_TRUE(has(run("logs all"), "expected how many events, a stage such as stage/2, or both, got 'all'"));
  EXPECT_TRUE(has(run("why 5000"), "expected 1 to 1000 as 'newest', got 5000"));
  EXPECT_EQ(run("plan --schedule 1f1b").code, 2) << "of no file";
  EXPECT_EQ(run("stop").code, 0);
}

TEST(Questions, what_happens_can_be_watched_as_it_happens) {
  const JobBeside job("run " + slow_job(2000) + " --fresh");
  ASSERT_TRUE(job.has_done(3)) << job.errors();
  const Asked top = ask("top");
  ASSERT_EQ(top["stages"].size(), 3U) << top;
  EXPECT_GT(top["stages"][0]["busy_ms"], 0) << top;
  const Ran tapped = run("tap 25 stage/1 --json", "2>/dev/null");
  EXPECT_EQ(tapped.code, 0);
  std::istringstream lines(tapped.output);
  std::uint64_t last = 0, count = 0;
  for (std::string line; std::getline(lines, line);)
    for (const Asked& event : Asked(Asked::parse(line)["events"])) {
      EXPECT_EQ(event["who"], "stage 1 of replica 0");
      EXPECT_GT(event["number"], last) << "each once, in order";
      last = event["number"];
      ++count;
    }
  EXPECT_EQ(count, 25U);
  const Asked set = ask("set smallest 0.2");
  EXPECT_EQ(set["thresholds"]["smallest"], 0.2) << set;
  EXPECT_EQ(ask("set")["thresholds"]["smallest"], 0.2);
  EXPECT_TRUE(has(run("set smalest 0.2"), "did you mean 'smallest'?"));
  EXPECT_TRUE(has(run("set smallest 2"), "is no share between 0 and 1"));
  EXPECT_TRUE(has(run("why"), "smallest was 0.08 and is 0.2 from the next iteration on, by hand, process "));
  EXPECT_TRUE(has(run("list actors"), "coordinator")) << run("list actors").output;
  EXPECT_EQ(run("stop").code, 0);
}

TEST(Inject, a_job_that_was_started_for_it_is_broken_and_mended_by_hand) {
  const std::string file = slow_job(2000);
  const JobBeside job("run " + file + " --fresh --faults");
  ASSERT_TRUE(job.has_done(2)) << job.errors();
  const double healthy = ask("status")["iteration_ms"];
  EXPECT_EQ(run("inject delay on link/0-1 constant 40ms").code, 0);
  EXPECT_TRUE(soon([&] { return ask("status")["iteration_ms"] > healthy + 60; })) << ask("status");
  const Asked faults = ask("list faults");
  ASSERT_EQ(faults["faults"].size(), 1U) << faults;
  EXPECT_EQ(faults["faults"][0]["fault"], "hand-1");
  EXPECT_EQ(faults["faults"][0]["on"], "link/0-1");
  EXPECT_EQ(faults["faults"][0]["state"].get<std::string>().find("in force since iteration "), 0U) << faults;
  EXPECT_TRUE(has(run("heal slow"), "no fault 'slow' is in force; hand-1 are"));
  EXPECT_TRUE(has(run("heal hand-1"), "healed: hand-1"));
  EXPECT_TRUE(soon([&] { return ask("status")["iteration_ms"] < healthy + 60; })) << ask("status");
  EXPECT_EQ(run("inject kill on stage/1 id death").code, 0);
  EXPECT_TRUE(soon([&] { return ask("status")["losses"].size() == 1; })) << ask("status");
  EXPECT_EQ(run("inject slow on stage/2 factor 2 for 1 iteration").code, 0);
  EXPECT_TRUE(soon([&] { return has(run("get fault/hand-3"), "over since iteration "); })) << run("list faults").output;
  const Ran why = run("why");
  EXPECT_TRUE(has(why, "injected: hand-1 (delay) strikes, by hand, process ")) << why.output;
  EXPECT_TRUE(has(why, "injected: hand-1 (delay) heals, by hand, process ")) << why.output;
  EXPECT_EQ(run("stop").code, 0);
  EXPECT_EQ(job.code(), 5) << job.errors();
}

TEST(Inject, what_makes_no_sense_or_is_not_meant_is_refused) {
  const std::string file = slow_job(2000);
  {
    const JobBeside job("run " + file + " --fresh --faults");
    ASSERT_TRUE(job.has_done(1)) << job.errors();
    const auto refused = [](const std::string& words, const std::string& why) {
      const Ran ran = run("inject " + words);
      EXPECT_EQ(ran.code, 2) << words;
      EXPECT_TRUE(has(ran, why)) << words << "\n" << ran.output;
    };
    refused("", "expected a fault such as ");
    refused("delay on", "nothing stands behind 'on'");
    refused("dely on link/0-1 constant 3ms", "did you mean 'delay'?");
    refused("delay on link/0-1", "with: expected this key");
    refused("delay on link/0-7 constant 3ms", "link");
    refused("slow on stage/9 factor 2", "stage");
    refused("slow on stage/1 factor 0.5", "factor");
    refused("kill on stage/1 for 3s", "for");
    refused("pause on stage/1 for ever", "for");
    refused("drop on stage/1 probability 0.5", "real");
    refused("'pause }, { id: x' on stage/1", "expected a fault such as ");
    refused("pause on 'stage/1 }, {'", "expected link/A-B, stage/N, twin/N or node/NAME behind `on`");
    EXPECT_TRUE(has(run("heal all"), "no fault is in force"));
    EXPECT_EQ(run("stop").code, 0);
  }
  const JobBeside plain("run " + file + " --fresh");
  ASSERT_TRUE(plain.has_done(1)) << plain.errors();
  EXPECT_TRUE(has(run("inject pause on stage/1"), "this run takes no faults: start it with `run FILE --faults`"));
  EXPECT_EQ(run("stop").code, 0);
}

}  // namespace
}  // namespace stagecraft::test
