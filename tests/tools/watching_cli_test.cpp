// Watching a running job from scripts: does it get on, wait for it, is it as expected.
#include <gtest/gtest.h>

#include "tests/tools/running_job.hpp"

namespace stagecraft::test {
namespace {

using namespace std::chrono_literals;

nlohmann::json parsed(const std::string& arguments) {
  return nlohmann::json::parse(run(arguments + " --json", "2>/dev/null").output, nullptr, false);
}

// A line of the command beside the test, into files of its name.
class LineBeside {
 public:
  LineBeside(const std::string& arguments, std::string name) : name_(std::move(name)) {
    run_command("rm -f " + name_ + ".*; (" STAGECRAFT_BINARY " " + arguments + " >" + name_ + ".out 2>&1; echo $? >" +
                name_ + ".code) >/dev/null 2>&1 &");
  }
  Ran end() const {
    EXPECT_TRUE(soon([&] { return text_of(name_ + ".code").ends_with('\n'); })) << text_of(name_ + ".out");
    const std::string code = text_of(name_ + ".code");
    return {code.empty() ? -1 : std::stoi(code), text_of(name_ + ".out")};
  }

 private:
  std::string name_;
};

void expect_line(const std::string& arguments, int code, const std::string& text) {
  const Ran ran = run(arguments);
  EXPECT_EQ(ran.code, code) << arguments << "\n" << ran.output;
  EXPECT_TRUE(has(ran, text)) << arguments << "\n" << ran.output;
}

// Its first iteration never ends: a tensor takes 100 s to the next stage.
std::string stuck_job(const std::string& timeout) {
  return "run " + slow_job(2000) + " --fresh --set 'links.overrides=[{between: [0, 1], latency: 100s}]'" +
         " --set recovery.attempts=0 --set timeouts.operation=4s --set timeouts.iteration=" + timeout;
}

TEST(Watching, a_job_that_gets_on_says_since_when) {
  const JobBeside job("run " + slow_job(2000) + " --fresh");
  ASSERT_TRUE(job.has_done(1)) << job.errors();
  expect_line("status", 0, "  since the last iteration: ");
  expect_line("status --check", 0, " s, it may take 20 s (timeouts.iteration)");
  expect_line("status --check --within 1h", 0, "it may take 1 h (--within)");
  const auto status = parsed("status");
  EXPECT_GE(status["since_progress_s"], 0.0);
  EXPECT_LT(status["since_progress_s"], status["running_s"]);
  EXPECT_FALSE(status.contains("may_take_s"));
  EXPECT_EQ(parsed("status --check")["may_take_s"], 20.0);
}

TEST(Watching, a_job_that_does_not_get_on_is_no_progress) {
  const JobBeside job(stuck_job("25s"));
  ASSERT_TRUE(job.has_done(0)) << job.errors();
  EXPECT_TRUE(soon([] { return run("status --check --within 1200ms").code == 4; }));
  const Ran late = run("status --check --within 1200ms");
  EXPECT_EQ(late.code, 4) << late.output;
  EXPECT_TRUE(has(late, "status: no progress for ") && has(late, " s, it may take 1.2 s (--within): job slow: "))
      << late.output;
  const auto told = parsed("status --check --within 1200ms");
  EXPECT_EQ(told["outcome"], "late");
  EXPECT_GT(told["since_progress_s"], 1.2);
  EXPECT_EQ(told["may_take_s"], 1.2);
  expect_line("status", 0, "  since the start, without an iteration: ");
  expect_line("status --check", 0, "it may take 55 s (timeouts.stage and timeouts.iteration)");
  expect_line("wait iteration 1 within 50ms", 4,
              "wait: iteration 1 did not come within 50 ms: job slow: iteration 0 of 2000");
  expect_line("expect 'loss < 3'", 1, "expect: expected loss < 3, got none, after iteration 0");
}

TEST(Watching, a_frozen_process_of_several_is_no_progress_until_it_goes_on) {
  const JobBeside job("run " + slow_job(2000) + " --processes --fresh --set recovery.detect_after=60s");
  ASSERT_TRUE(job.has_done(2)) << job.errors();
  const std::string node = " -P " + std::to_string(job.process()) + " -f -- '--name n1'";
  run_command("pkill -STOP" + node);
  EXPECT_TRUE(soon([] { return run("status --check --within 1s").code == 4; }));
  EXPECT_GT(parsed("status")["since_progress_s"], 1.0);
  run_command("pkill -CONT" + node);
  EXPECT_TRUE(soon([] { return run("status --check --within 1s").code == 0; }));
}

TEST(Watching, whoever_waits_is_told_when_it_is_so) {
  const JobBeside job("run " + slow_job(100) + " --fresh");
  ASSERT_TRUE(job.has_done(1)) << job.errors();
  const auto at = [](const std::string& words) { return parsed("wait " + words); };
  EXPECT_GE(at("iteration 4")["iteration"], 4);
  const auto begin = std::chrono::steady_clock::now();
  const auto before = at("200ms");
  EXPECT_GE(std::chrono::steady_clock::now() - begin, 200ms);
  EXPECT_EQ(before["outcome"], "done");
  EXPECT_EQ(at("iteration 1 within 1ms")["outcome"], "done") << "it is done already";
  expect_line("wait iteration 101", 2, "wait: the job has 100 iterations, got 101");
  const Ran script =
      run_command("printf 'wait iteration 8\\nexpect iteration >= 8\\nwait end\\n' | " STAGECRAFT_BINARY " shell 2>&1");
  EXPECT_EQ(script.code, 0) << script.output;
  EXPECT_TRUE(has(script, "all 100 iterations are done")) << script.output;
  EXPECT_EQ(job.code(), 0) << job.errors();
  expect_line("wait end", 2, "expected a running job in ");
}

TEST(Watching, the_last_iteration_is_not_missed) {
  const JobBeside job("run " + slow_job(40) + " --fresh");
  const std::string socket = job.socket();
  ASSERT_TRUE(soon([&] { return job.has_ended() || run("status").code == 0; }));
  expect_line("wait iteration 40 within 10m", 0, "job slow: iteration 40 of 40, loss ");
  EXPECT_EQ(job.code(), 0) << job.errors();
}

TEST(Watching, a_job_that_ends_before_says_why) {
  const JobBeside job(stuck_job("6s"));
  ASSERT_TRUE(job.has_done(0)) << job.errors();
  const LineBeside iteration("wait iteration 3", "iteration"), time("wait 10m", "time"), end("wait end", "end");
  const std::string reason = "iteration 1 did not end within 6 s";
  EXPECT_EQ(job.code(), 4) << job.output();
  for (const auto& [line, text] : {std::pair(&iteration, "wait: the job has ended before that: " + reason),
                                   std::pair(&time, "wait: the job has ended before 10 m had passed: " + reason),
                                   std::pair(&end, "wait: " + reason)}) {
    const Ran ran = line->end();
    EXPECT_EQ(ran.code, 3) << ran.output;
    EXPECT_TRUE(has(ran, text)) << ran.output;
  }
}

TEST(Watching, whoever_went_away_while_waiting_is_forgotten) {
  const JobBeside job("run " + slow_job(2000) + " --fresh");
  ASSERT_TRUE(job.has_done(1)) << job.errors();
  for (int client = 0; client < 8; ++client) {
    const RawClient raw(job.socket());
    for (int n = 0; n < 8; ++n)
      raw.send(R"({"id": 1, "verb": "wait", "arguments": {"end": true, "within_ms": 3000}})"
               "\n");
  }
  EXPECT_TRUE(soon([] { return run("status").code == 0; }, 30)) << run("status").output;
  RawClient raw(job.socket());
  const auto why = [&](const std::string& arguments) {
    const auto answer = raw.ask(R"({"id": 1, "verb": "wait", "arguments": )" + arguments + "}");
    EXPECT_EQ(answer["outcome"], "bad_request") << answer;
    return answer["text"].get<std::string>();
  };
  EXPECT_EQ(why("{}"), "expected 1 to 60000 as 'within_ms': ask again after that");
  EXPECT_EQ(why(R"({"end": true, "within_ms": 60001})"), "expected 1 to 60000 as 'within_ms': ask again after that");
  EXPECT_EQ(why(R"({"within_ms": 1})"), "expected one of 'iteration' (a number) and 'end' (true)");
  EXPECT_EQ(why(R"({"iteration": 1, "end": true, "within_ms": 1})"),
            "expected one of 'iteration' (a number) and 'end' (true)");
}

TEST(Watching, an_expectation_holds_or_says_what_it_got) {
  const JobBeside job("run " + slow_job(2000) + " --fresh");
  ASSERT_TRUE(job.has_done(1)) << job.errors();
  expect_line("expect 'loss < 100'", 0, "as expected loss < 100, got ");
  expect_line("expect loss '>=' 100", 1, "expect: expected loss >= 100, got ");
  expect_line("expect 'iteration>0'", 0, "as expected iteration > 0, got ");
  expect_line("expect 'layout = [2, 2, 1]'", 0, "got [2, 2, 1]");
  expect_line("expect 'layout = [1, 3, 1]'", 1, "expect: expected layout = [1, 3, 1], got [2, 2, 1], after iteration ");
  expect_line("expect 'layout != [1, 3, 1]'", 0, "got [2, 2, 1]");
  expect_line("expect 'moves >= 1'", 1, "expect: expected moves >= 1, got 0, after iteration ");
  expect_line("expect 'job = slow'", 0, "got slow");
  expect_line("expect 'stopping = false'", 0, "got false");
  expect_line("expect 'stopping = true'", 1, "expected stopping = true, got false");
  expect_line("expect 'iteraton > 1'", 2, "got 'iteraton'; did you mean 'iteration'?");
  expect_line("expect 'stages = 3'", 2, "expect: expected one of job, process, iteration, ");
  expect_line("expect 'loss < low'", 2, "expect: loss is a number, ");
  expect_line("expect 'job < slow'", 2, "expect: expected a number behind <, got 'slow'");
  const auto told = parsed("expect 'moves >= 1'");
  EXPECT_EQ(told["outcome"], "unmet");
  EXPECT_EQ(told["expected"], 1);
  EXPECT_EQ(told["got"], 0);
  EXPECT_EQ(told["comparison"], ">=");
}

TEST(Watching, words_that_make_no_sense_are_refused_without_a_job) {
  for (const char* words : {"", "10", "0s", "-1s", "iteration", "iteration 0", "iteration x", "iteration 3 within",
                            "iteration 3 within 10", "iteration 3 soon", "end now", "10s within 20s", "9999h"})
    expect_line(std::string("wait ") + words, 2, "wait: expected `iteration N`, `end` or a time such as `10s`");
  for (const char* words : {"", "loss", "'loss <'", "'< 3'", "'loss == 3'", "'loss =< 3'", "'Loss < 3'", "loss 3"})
    expect_line(std::string("expect ") + words, 2, "expect: expected a key of the status, one of < <= = != >= >");
  expect_line("status --within 3s", 2, "--within requires --check");
  expect_line("status --check --within 3", 2,
              "--within: expected a time with a unit, from 1ms to 1000h, such as 30s, got '3'");
  expect_line("status --check --within ''", 2, "expected a time such as 30s, got ''");
  expect_line("wait --help", 0, "stagecraft wait iteration 40 within 60s");
  expect_line("wait --help", 0, "24 hours");
  expect_line("expect --help", 0, "stagecraft expect 'loss < 3.1'");
}

}  // namespace
}  // namespace stagecraft::test
