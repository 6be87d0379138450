// Experiment scripts: what they can do, what they can't, how they fail, and the examples with the numbers that they
// print.
#include <gtest/gtest.h>
#include <signal.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "tests/tools/running_job.hpp"

namespace stagecraft::test {
namespace {

namespace fs = std::filesystem;

// The examples, and the text that the tiny one learns, as they lie in a checkout.
void lay_out_checkout() {
  fs::copy(example(""), "examples", fs::copy_options::recursive | fs::copy_options::overwrite_existing);
  fs::copy_file(STAGECRAFT_SOURCE_DIR "/LICENSE", "LICENSE", fs::copy_options::overwrite_existing);
}

Ran run_script(const std::string& text, const std::string& arguments = "") {
  lay_out_checkout();
  std::ofstream("test.lua") << text;
  return run("script test.lua " + arguments);
}

// It ended with this code, and said this.
void expect_end(const std::string& script, int code, const std::string& said, const std::string& arguments = "") {
  const Ran ran = run_script(script, arguments);
  EXPECT_EQ(ran.code, code) << script << "\n" << ran.output;
  EXPECT_TRUE(has(ran, said)) << script << "\n" << ran.output;
}

TEST(Script, the_delay_sweep_prints_the_table_of_the_worked_example) {
  lay_out_checkout();
  const Ran ran = run("script examples/shell/delay-sweep.lua");
  EXPECT_EQ(ran.code, 0) << ran.output;
  EXPECT_TRUE(has(ran,
                  "  delay_ms  1f1b static  zb-h2 static  reactive  planned follow\n"
                  "  -------------------------------------------------------------\n"
                  "  0                 450           390       390             390\n"
                  "  10                550           400       400             400\n"
                  "  15                600           405       405             405\n"
                  "  20                650           420       410             410\n"
                  "  30                750           480       420             420\n"
                  "  40                850           540       440             430\n"
                  "  50                950           600       460             440\n"
                  "  60               1050           660       490             450\n"))
      << ran.output;
  const Ran one = run("script examples/shell/delay-sweep.lua --json -- 20", "2>/dev/null");
  EXPECT_EQ(one.code, 0);
  EXPECT_EQ(nlohmann::json::parse(one.output)["planned follow"], 410) << one.output;
  EXPECT_EQ(run("script examples/shell/delay-sweep.lua -- soon").code, 1);
}

TEST(Script, the_ablation_shows_what_each_part_does) {
  lay_out_checkout();
  const Ran ran = run("script examples/shell/ablation.lua");
  EXPECT_EQ(ran.code, 0) << ran.output;
  EXPECT_TRUE(has(ran, "static           off         off        393       1070     1070\n")) << ran.output;
  EXPECT_TRUE(has(ran, "static           off          on        393       1070      670\n")) << ran.output;
  EXPECT_TRUE(has(ran, "follow           off          on        393        920      486\n")) << ran.output;
  EXPECT_TRUE(has(ran, "follow            on          on        393        920      453\n")) << ran.output;
}

TEST(Script, a_stage_that_is_killed_costs_no_bit) {
  lay_out_checkout();
  const Ran ran = run("script examples/shell/kill-and-recover.lua");
  EXPECT_EQ(ran.code, 0) << ran.output;
  EXPECT_TRUE(has(ran, "ready                2     2     1            1")) << ran.output;
  // Without twins the stage is not rebuilt, but the job begins anew: the example's other expectations still hold.
  const Ran other = run("script examples/shell/kill-and-recover.lua --set recovery.attempts=0");
  EXPECT_EQ(other.code, 1) << "the run ends with its first loss, which must be noticed\n" << other.output;
}

TEST(Script, a_job_is_moved_and_broken_step_by_step_and_keeps_its_bits) {
  lay_out_checkout();
  const Ran ran = run("script examples/shell/step-by-step.lua");
  EXPECT_EQ(ran.code, 0) << ran.output;
  EXPECT_TRUE(has(ran, "layer 3 moved to stage 2     iteration  6   32.66 ms  layout 1 1 2 0\n")) << ran.output;
  EXPECT_TRUE(has(ran, "as in a run that was left alone; events ")) << ran.output;
}

TEST(Script, a_layer_moves_away_from_a_slow_stage_once_a_threshold_lets_it_be_found) {
  lay_out_checkout();
  const Ran ran = run("script examples/shell/move-under-load.lua");
  EXPECT_EQ(ran.code, 0) << ran.output;
  for (const char* said : {"healthy", "stage 2 is 15 % slower", "found: ", "layer 5 has moved to stage 3"})
    EXPECT_TRUE(has(ran, said)) << said << "\n" << ran.output;
}

TEST(Script, says_what_the_shell_takes_and_gets_its_answers) {
  const std::string begin = "local job = stagecraft.start{file = 'examples/tiny.yaml', faults = {}, seed = 3}\n";
  expect_end(begin + R"(
job:wait{iteration = 2}
local paused = job:say("pause")
expect(paused.outcome == "done" and job:status().paused, paused.text)
expect(#job:say("dump").waits == 4)
expect(job:say("resume").outcome == "done")
expect(#job:say("plan").stages == 4 and #job:say("logs 5 stage/1").events == 5)
expect(job:say("inject kill on stage/1").outcome == "done")
expect(job:wait_until(function(status) return #status.losses > 0 end, 3), "nobody died")
expect(job:decided("lost").what:find("stage 1", 1, true) and not job:decided("rerouted"))
expect(job:wait_until(function() return false end, 2) == nil)
expect(job:finish().lost == 1))",
             0, "");
  expect_end(begin + "job:say('mirgate layers 1 to stage/1')", 2, "did you mean 'migrate'?");
  expect_end(begin + "job:say('watch 3')", 2, "'watch' is for the shell alone");
  expect_end(begin + "job:say('set smallest none')", 2, "expected a threshold and its value");
  expect_end(begin + "job:wait_until(3)", 2, "expected a function of the status, got a number");
}

TEST(Script, a_simulation_is_the_one_of_the_command_line_to_the_last_event) {
  lay_out_checkout();
  const Ran sim =
      run("sim examples/worked-example.yaml --seed 3 --lateness 5ms --set job.iterations=4 --json", "2>/dev/null");
  const auto object = nlohmann::json::parse(sim.output);
  const Ran ran = run_script(R"(
    local r = stagecraft.sim{file = "examples/worked-example.yaml", seed = 3, lateness = "5ms", iterations = 4}
    print(r.event_hash, r.weights_sha256, #r.losses, r.ending, r.iteration_ms[4], r.peak_bytes[1], #r.violations))");
  EXPECT_EQ(ran.code, 0) << ran.output;
  EXPECT_EQ(ran.output, object["event_hash"].get<std::string>() + "\t" + object["weights_sha256"].get<std::string>() +
                            "\t4\tdone\t" + object["iteration_ms"][3].dump() + "\t" + object["peak_bytes"][0].dump() +
                            "\t0\n");
}

TEST(Script, faults_are_those_of_a_scenario_file_as_text_or_as_a_table) {
  lay_out_checkout();
  const Ran file = run("scenario run examples/scenarios/stage-dies-in-a-backward.yaml --seeds 3 --json", "2>/dev/null");
  const std::string hash = nlohmann::json::parse(file.output)["event_hash"];
  expect_end(R"(
    local text = [[
- { id: crash, when: { event: backward_started, stage: 2, micro_batch: 3, iteration: 5 }, do: kill, on: { stage: 2 } }]]
    local list = {{id = "crash", when = {event = "backward_started", stage = 2, micro_batch = 3, iteration = 10 / 2},
                   ["do"] = "kill", on = {stage = 2}}}
    for _, faults in ipairs{text, list} do
      local r = stagecraft.sim{file = "examples/tiny.yaml", seed = 3, faults = faults,
                               expect = {{loss = {equals = "fault_free", tolerance = "exact"}}}}
      print(r.event_hash, r.ok, r.lost, #r.faults, r.faults[1].id)
    end)",
             0, hash + "\ttrue\t1\t1\tcrash\n" + hash + "\ttrue\t1\t1\tcrash\n");
  expect_end(R"(local r = stagecraft.sim{file = "examples/tiny.yaml", expect = {{committed = {at_least = 12}},
                  {iteration_time = {at_most = "1us"}}}}
                print(r.ok, #r.broken, r.broken[1].what, r.exit_code))",
             0, "false\t1\titeration_time");
}

TEST(Script, the_real_world_gives_the_same_bits_and_leaves_nothing) {
  expect_end(R"(local real = stagecraft.run{file = "examples/tiny.yaml", iterations = 4}
                local sim = stagecraft.sim{file = "examples/tiny.yaml", iterations = 4}
                expect(real.weights_sha256 == sim.weights_sha256 and #real.weights_sha256 == 64, "other bits")
                print(real.ending, real.iterations))",
             0, "done\t4");
  EXPECT_FALSE(fs::exists("stagecraft-runs")) << "a run by a script keeps no files";
  EXPECT_FALSE(fs::exists("checkpoints"));
  expect_end(R"(stagecraft.run{file = "examples/tiny.yaml", faults = {{id = "x", ["do"] = "kill", on = {stage = 1}}}})",
             2, "takes --trusted");
}

TEST(Script, an_expectation_that_does_not_hold_ends_it_at_its_line_whatever_catches_it) {
  expect_end("local x = 1\nexpect(x == 1, 'fine')\nexpect(x == 2, 'x is ' .. x)\nprint('never')", 1,
             "test.lua:3: x is 1\n");
  expect_end("local ran = coroutine.resume(coroutine.create(function()\nexpect(false, 'inside')\nend))\nprint('never')",
             1, "test.lua:2: inside\n");
  EXPECT_FALSE(has(run("script test.lua"), "never")) << "it goes on behind the coroutine";
  const Ran caught = run_script("while true do pcall(function() expect(false, 'caught') end) end");
  EXPECT_EQ(caught.code, 1);
  EXPECT_EQ(caught.output, "test.lua:1: caught\n");
}

TEST(Script, an_error_names_its_file_and_line_and_the_way_there) {
  expect_end(
      "local function inner()\n  local t\n  return t.x\nend\nlocal y = inner()", 2,
      "test.lua:3: attempt to index a nil value (local 't')\nstack traceback:\n\ttest.lua:3: in local 'inner'\n");
  expect_end("x = = 1", 2, "test.lua:1: unexpected symbol near '='");
  expect_end("\nerror({})", 2, "test.lua:2: table: ");
  expect_end("\nerror('bare', 0)", 2, "test.lua:2: bare\n");
  expect_end("coroutine.yield(1)", 2, "test.lua:1: coroutine.yield outside of a coroutine");
  expect_end("stagecraft.sim{file = 'examples/tiny.yaml', sed = 1}", 2,
             "test.lua:1: stagecraft.sim: expected one of file, seed");
  expect_end("stagecraft.sim{file = 'none.yaml'}", 2, "test.lua:1: cannot read 'none.yaml'");
  expect_end("stagecraft.sim{file = 'examples/tiny.yaml', set = {'model.layrs=3'}}", 2,
             "SC0114: model.layrs: expected one of");
  expect_end("stagecraft.sim{file = 'examples/tiny.yaml', faults = {{id = 'x', ['do'] = 'kil'}}}", 2,
             "did you mean 'kill'?\n  its line 6:   - { do: kil, id: x }");
  expect_end("local t = {} t.t = t stagecraft.sim(t)", 2, "nested more than 32 deep");
  expect_end("stagecraft.sim{file = print}", 2,
             "file: expected a number, a text, a boolean or a table, got a function");
  expect_end("print(pcall(stagecraft.sim, {}))", 0, "false\ttest.lua:1: stagecraft.sim: expected one table");
  EXPECT_EQ(run("script none.lua").code, 2);
}

TEST(Script, it_reaches_no_file_and_no_process_unless_it_is_trusted) {
  const std::string names = "print(io, os, require, package, debug, dofile, loadfile, fail, ask, host_sim)";
  expect_end(names, 0, "nil\tnil\tnil\tnil\tnil\tnil\tnil\tnil\tnil\tnil\n");
  expect_end("print(type(io.open), type(os.execute), type(require), fail, host_sim)", 0,
             "function\tfunction\tfunction\tnil\tnil\n", "--trusted");
  expect_end("print(load(string.dump(function() return 1 end)))", 0, "nil\tattempt to load a binary chunk");
  expect_end("print(pcall(load, 'x', 'x', 'b'))", 0, "binary chunks are not loaded");
  expect_end("print(load('return 7')())", 0, "7\n");
  const std::string save = "local t = table_of{'a', 'b'} t:add{1, 'x,\"y\"'} t:add{b = 0.5, a = true} t:";
  expect_end(save + "csv('out.csv') t:json('examples/out.json')", 0, "");
  EXPECT_EQ(text_of("out.csv"), "a,b\r\n1,\"x,\"\"y\"\"\"\r\ntrue,0.5\r\n");
  EXPECT_EQ(text_of("examples/out.json"), "[{\"a\":1,\"b\":\"x,\\\"y\\\"\"},{\"a\":true,\"b\":0.5}]\n");
  const fs::path outside = fs::current_path().string() + "-outside";
  fs::create_directories(outside);
  fs::remove("link");
  fs::create_directory_symlink(outside, "link");
  for (const std::string& path : {std::string("../x.csv"), std::string("link/x.csv"), (outside / "x.csv").string()}) {
    std::string line = save;
    line.append("csv('").append(path).append("')");
    expect_end(line, 2, "is not in the current folder");
    EXPECT_TRUE(fs::is_empty(outside));
  }
  expect_end(save + "csv('link/x.csv')", 0, "", "--trusted");
  EXPECT_TRUE(fs::exists(outside / "x.csv"));
  fs::remove_all(outside);
}

TEST(Script, chance_comes_from_its_seed_alone) {
  const std::string draw = "print(math.random(1, 1 << 40))";
  const Ran one = run_script(draw), again = run_script(draw), other = run_script(draw, "--seed 2");
  EXPECT_EQ(one.output, again.output);
  EXPECT_NE(one.output, other.output);
  expect_end("math.randomseed()", 2, "test.lua:1: math.randomseed: expected a seed");
  expect_end("math.randomseed(3) local a = math.random() math.randomseed(3) print(a == math.random())", 0, "true");
}

TEST(Script, its_memory_is_bounded_and_its_arguments_are_its_own) {
  expect_end("\nlocal t = {}\nfor i = 1, 1 << 40 do t[i] = ('x'):rep(1000) .. i end", 2,
             "test.lua:3: not enough memory: the values of a script may take 256 MiB together");
  expect_end("print(pcall(string.rep, 'x', 1 << 40))  print('goes on')", 0, "goes on");
  expect_end("print(#arg, arg[1], arg[2])", 0, "2\t--json\tb c\n", "-- --json 'b c'");
  expect_end("print(stagecraft.sim{file = 'examples/worked-example.yaml', iterations = 7}.iterations)", 0, "2\n",
             "--set job.iterations=2");
}

TEST(Script, its_statistics_are_those_of_the_books) {
  expect_end(
      "print(stats.mean{1, 2, 6}, stats.median{3, 1, 2}, stats.median{4, 1, 2, 3}, stats.percentile({1, 2, 3, 4}, 25))",
      0, "3.0\t2.0\t2.5\t1.75\n");
  // Student's t at 97.5 %: 12.706 (1), 4.303 (2), 2.776 (4), 2.262 (9); at 99.5 %: 3.250 (9).
  expect_end(R"(
    local function t(n, confidence)
      local list, s = {}, 0
      for i = 1, n do list[i] = i end
      local i = stats.interval(list, confidence)
      for _, x in ipairs(list) do s = s + (x - i.mean) ^ 2 end
      return (i.high - i.mean) / math.sqrt(s / (n - 1) / n)
    end
    print(("%.3f %.3f %.3f %.3f %.3f"):format(t(2), t(3), t(5), t(10), t(10, 0.99))))",
             0, "12.706 4.303 2.776 2.262 3.250\n");
  expect_end("stats.median{}", 2, "test.lua:1: stats.median: expected a list of one number or more");
  expect_end("stats.interval{1}", 2, "test.lua:1: stats.interval: expected two numbers or more");
  expect_end("stats.mean{1, 0 / 0}", 2, "number 2 of the list is");
  expect_end("table_of{'a'}:add{1, 2}", 2, "test.lua:1: add: expected 1 values, one for each column, got 2");
  expect_end("for p in stagecraft.sweep{{'a', {1, 2}}, {'b', {'x', 'y'}}} do io_ = print(p.a, p.b) end", 0,
             "1\tx\n1\ty\n2\tx\n2\ty\n");
}

// In the virtual world: what is asked of a job between two of its moments.
constexpr const char* step_by_step = R"(
local job = stagecraft.start{file = "examples/tiny.yaml", seed = 4, by_hand = {
  {id = "slow", ["do"] = "delay", on = {link = {0, 1}}, with = {constant = "5ms"}},
  {id = "crash", ["do"] = "kill", on = {stage = 2}}}}
local healthy = job:wait{iteration = 3}
expect(healthy.iteration == 3 and healthy.iteration_ms < 4, "the first iterations are slow")
job:inject("slow")
local slow = job:wait{iteration = 5}
expect(slow.iteration_ms > 15, "the link is not slow: " .. slow.iteration_ms)
job:heal("slow")
job:inject("crash")
local again = job:wait{iteration = 7}
expect(again.iteration_ms < 4, "the link is not healed: " .. again.iteration_ms)
local move = job:migrate{layout = {2, 0, 1, 1}}
expect(move.outcome == "done" and move.layout[1] == 2, move.text)
local refused = job:migrate{layers = 9, to = {stage = 1}}
expect(refused.outcome == "refused", refused.text)
local kept = job:checkpoint()
expect(kept.outcome == "done" and kept.iteration > 7, kept.text)
local before = job:status().now_ms
local after = job:wait{ms = 1.5}.now_ms
expect(after >= before + 1.5 and after < before + 3.5, ("waited %.2f ms"):format(after - before))
local result = job:finish()
expect(result.ok and result.lost == 1 and result.iterations == 12, result.reason)
local calm = stagecraft.sim{file = "examples/tiny.yaml"}
expect(result.weights_sha256 == calm.weights_sha256, "other bits")
print(result.event_hash))";

TEST(Script, a_job_is_started_broken_and_watched_step_by_step_and_replayed_to_the_last_event) {
  const Ran ran = run_script(step_by_step), again = run_script(step_by_step);
  EXPECT_EQ(ran.code, 0) << ran.output;
  EXPECT_EQ(ran.output, again.output);
}

TEST(Script, a_job_in_the_real_world_is_stopped_and_another_one_follows) {
  expect_end(R"(
    local job = stagecraft.start{file = "examples/tiny.yaml", world = "real"}
    job:wait{iteration = 2}
    job:stop()
    local result = job:finish()
    print(result.ending, result.iterations < 12)
    local next = stagecraft.start{file = "examples/tiny.yaml", world = "real", iterations = 3}
    print(next:finish().ending))",
             0, "stopped\ttrue\ndone\n");
  expect_end("stagecraft.start{file = 'examples/tiny.yaml', world = 'real'}:wait{iteration = 1} expect(false, 'no')", 1,
             "test.lua:1: no\n");
  expect_end("stagecraft.start{file = 'examples/tiny.yaml'}:wait{iteration = 1} print('left')", 0, "left\n");
}

TEST(Script, what_can_not_be_asked_of_a_job_is_refused_at_its_line) {
  const std::string begin = "local job = stagecraft.start{file = 'examples/tiny.yaml'}\n";
  expect_end(begin + "job:wait{iteration = 13}", 2,
             "test.lua:2: job:wait: iteration: the job has 12 iterations, got 13\n");
  expect_end(begin + "job:wait{}", 2, "test.lua:2: job:wait: expected one table");
  expect_end(begin + "job.wait()", 2, "test.lua:2: wait: call it as job:wait(...)");
  expect_end(begin + "job:inject('x')", 2, "test.lua:2: job:inject: there is no fault 'x' among by_hand");
  expect_end(begin + "stagecraft.sim{file = 'examples/tiny.yaml'}", 2, "finish it first");
  expect_end(begin + "stagecraft.start{file = 'examples/tiny.yaml'}", 2, "test.lua:2: ");
  expect_end(begin + "job:finish()\njob:status()", 2, "test.lua:3: job:status: no such job runs");
  expect_end(begin + "job:wait{iteration = 12}\njob:wait{ms = 1e9}", 2,
             "test.lua:3: job:wait: the job has ended: all 12");
  expect_end(begin + "coroutine.wrap(function()\njob:wait{ms = 1} end)()", 2,
             "test.lua:3: a job can't be waited for in a coroutine");
  expect_end(begin + "table.sort({2, 1}, function()\njob:wait{ms = 1} end)", 2,
             "test.lua:3: a job can't be waited for in");
  expect_end("stagecraft.start{file = 'none.yaml'}", 2, "test.lua:1: cannot read 'none.yaml'");
  expect_end(
      "stagecraft.start{file = 'examples/tiny.yaml', by_hand = {{id = 'x', ['do'] = 'slow', on = {stage = 1}, "
      "with = {factor = 2}, at = {iteration = 2}}}}",
      2, "'x' has a trigger or a duration");
}

// Each script and each command of the page, with what is printed below the command.
TEST(Script, its_page_shows_what_runs) {
  lay_out_checkout();
  std::ifstream page(STAGECRAFT_SOURCE_DIR "/docs/scripting.md");
  std::string block;
  bool open = false, is_lua = false;
  int scripts = 0, commands = 0;
  for (std::string line; std::getline(page, line);) {
    if (!line.starts_with("```")) {
      if (open) block += line + "\n";
      continue;
    }
    if (std::exchange(open, !open)) {
      if (is_lua) {
        const Ran ran = run_script(block);
        EXPECT_EQ(ran.code, 0) << block << ran.output;
        ++scripts;
      } else {
        const std::string start = "$ stagecraft ";
        ASSERT_TRUE(block.starts_with(start)) << block;
        const std::size_t end = block.find('\n');
        const Ran ran = run(block.substr(start.size(), end - start.size()));
        EXPECT_EQ(ran.code, 0) << ran.output;
        EXPECT_EQ(ran.output, block.substr(end + 1));
        ++commands;
      }
    }
    block.clear();
    is_lua = line == "```lua";
  }
  EXPECT_EQ(scripts, 4);
  EXPECT_EQ(commands, 1);
  EXPECT_EQ(text_of("sweep.csv").substr(0, 18), "dispatch,seed,ms\r\n");
}

TEST(Script, one_that_never_ends_is_stopped_and_so_is_the_run_that_it_waits_for) {
  lay_out_checkout();
  const std::string job = "{file = 'examples/tiny.yaml', iterations = 1000000}";
  for (const std::string& text :
       {std::string("while true do pcall(function() while true do end end) end"),
        "stagecraft.sim" + job + " print('goes on')", "stagecraft.run" + job + " print('goes on')",
        "local job = stagecraft.start" + job + " pcall(job.wait, job, {iteration = 900000}) print('goes on')",
        "local job = stagecraft.start" + job + " while true do job:wait{ms = 1} end"}) {
#ifdef __SANITIZE_THREAD__  // which hands signals on in calls that it knows, and there is none in this loop
    if (text.starts_with("while")) continue;
#endif
    fs::remove("endless.txt");
    std::ofstream("endless.lua") << "print('begun') " << text << "\n";
    const pid_t process = fork();
    if (process == 0) {
      if (!freopen("endless.txt", "w", stdout) || dup2(STDOUT_FILENO, STDERR_FILENO) < 0) _exit(126);
      execl(STAGECRAFT_BINARY, STAGECRAFT_BINARY, "script", "endless.lua", nullptr);
      _exit(127);
    }
    EXPECT_TRUE(soon([&] { return text_of("endless.txt") == "begun\n"; })) << text;
    usleep(100'000);
    kill(process, SIGINT);
    int status = 0;
    bool ended = false;
    EXPECT_TRUE(soon([&] { return ended = ended || waitpid(process, &status, WNOHANG) == process; })) << text;
    if (!ended) kill(process, SIGKILL), waitpid(process, &status, 0);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 130) << text << ": " << status;
    EXPECT_EQ(text_of("endless.txt"), "begun\nendless.lua:1: stopped here\n") << text;
  }
}

}  // namespace
}  // namespace stagecraft::test
