// Talking to a running job: the verbs, from another process, against a real run.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>

#include "tests/tools/running_job.hpp"

namespace stagecraft::test {
namespace {

using Json = nlohmann::json;
namespace fs = std::filesystem;

Json object_of(const Ran& ran) { return Json::parse(ran.output, nullptr, false); }

void expect_equal_bits(const Json& a, const Json& b) {
  for (const char* key : {"losses_hex", "weights_sha256", "moments_sha256", "iterations"})
    EXPECT_EQ(a.at(key), b.at(key)) << key;
  EXPECT_FALSE(a.at("weights_sha256").get<std::string>().empty());
  EXPECT_TRUE(b.at("violations").empty()) << b.at("violations");
}

TEST(Control, a_layer_moves_by_hand_and_the_bits_are_those_of_a_run_in_which_none_does) {
  const std::string file = slow_job(60);
  const Ran plain = run("run " + file + " --json --fresh", "2>/dev/null");
  ASSERT_EQ(plain.code, 0);
  const JobBeside job("run " + file + " --json --fresh");
  ASSERT_TRUE(job.has_done(2)) << job.errors();
  const std::string socket = job.socket();
  struct stat found = {};
  ASSERT_EQ(stat(socket.c_str(), &found), 0) << socket;
  EXPECT_EQ(found.st_mode & 0777, 0600U);

  const Ran moved = run("migrate layers 1 to stage/1 --json", "2>/dev/null");
  EXPECT_EQ(moved.code, 0) << moved.output;
  EXPECT_EQ(object_of(moved)["layout"], Json({1, 3, 1})) << moved.output;
  EXPECT_EQ(object_of(moved)["outcome"], "done");
  const Ran status = run("status");
  EXPECT_EQ(status.code, 0);
  EXPECT_TRUE(has(status, socket)) << "it says which job it talks to\n" << status.output;
  EXPECT_TRUE(has(status, "job slow: iteration ")) << status.output;
  EXPECT_TRUE(has(status, "layout [1, 3, 1], 1 moves made, lost so far: none")) << status.output;
  EXPECT_TRUE(has(status, "stage/1        0     1-3    n1")) << status.output;
  const Ran back = run("migrate layout '[2, 1, 2]'");
  EXPECT_EQ(back.code, 0) << back.output;
  EXPECT_TRUE(has(back, "move 2 is made: layout [2, 1, 2] from iteration ")) << back.output;

  EXPECT_EQ(job.code(), 0) << job.errors();
  expect_equal_bits(object_of(plain), Json::parse(job.output()));
  EXPECT_FALSE(fs::exists(socket));
  const std::string log = text_of(fs::path(socket).parent_path() / "events.jsonl");
  EXPECT_NE(log.find("asked for: layer 1 to stage 1 (by hand, process "), std::string::npos);
  const Ran after = run("status");
  EXPECT_EQ(after.code, 2);
  EXPECT_TRUE(has(after, "expected a running job in 'stagecraft-runs/*/control.sock'")) << after.output;
}

TEST(Control, what_cannot_be_moved_is_refused_with_the_reason_and_the_job_goes_on) {
  const std::string file = slow_job(2000);
  const JobBeside job("run " + file + " --json --fresh");
  ASSERT_TRUE(job.has_done(1)) << job.errors();
  const auto refused = [&](const std::string& words, const std::string& why) {
    const Ran ran = run("migrate " + words);
    EXPECT_EQ(ran.code, 2) << words << "\n" << ran.output;
    EXPECT_TRUE(has(ran, why)) << words << "\n" << ran.output;
    const Ran json = run("migrate --json " + words, "2>/dev/null");
    EXPECT_EQ(json.code, 2);
    EXPECT_EQ(object_of(json)["outcome"], "refused") << json.output;
  };
  refused("layers 0 to stage/1", "it can get the last of layers 0 to 1 of stage 0, or the first of layer 4 of stage 2");
  refused("layers 3-9 to stage/0", "expected layers from 0 to 4, got 3 to 9");
  refused("layers 1 to stage/7", "expected a stage from 0 to 2, got 7");
  refused("layout [2, 2, 1]", "the layout is [2, 2, 1] already");
  refused("layout [2, 2]", "expected a layout of 3 chunks");
  refused("layout [9, 9, 9]", "expected a layout of 5 layers");
  const Ran stopped = run("stop --json", "2>/dev/null");
  EXPECT_EQ(stopped.code, 0);
  EXPECT_TRUE(has(stopped, "stopped on request after ")) << stopped.output;
  EXPECT_TRUE(fs::exists(object_of(stopped)["path"].get<std::string>())) << stopped.output;
  EXPECT_EQ(job.code(), 5);
}

TEST(Control, without_twins_or_memory_no_layer_moves) {
  const std::string file = slow_job(2000);
  const JobBeside job("run " + file + " --fresh --set recovery.twins=false");
  ASSERT_TRUE(job.has_done(1)) << job.errors();
  EXPECT_NE(job.output().find("control socket "), std::string::npos);
  const Ran ran = run("migrate layers 1 to stage/1");
  EXPECT_EQ(ran.code, 2);
  EXPECT_TRUE(has(ran, "set recovery.twins: true")) << ran.output;
  EXPECT_EQ(run("stop").code, 0);
  EXPECT_EQ(job.code(), 5);

  const JobBeside small("run " + file + " --fresh --set nodes.2.devices.0.memory=2MiB --set model.hidden=512");
  ASSERT_TRUE(small.has_done(1)) << small.errors();
  const Ran much = run("migrate layout [0, 0, 5]");
  EXPECT_EQ(much.code, 2);
  EXPECT_TRUE(has(much, "stage 2 of replica 0 needs ") && has(much, "its device has 2 MiB")) << much.output;
  EXPECT_EQ(run("stop").code, 0);
}

TEST(Control, a_checkpoint_is_written_on_request_and_stands_when_the_answer_comes) {
  const std::string file = slow_job(2000);
  const JobBeside job("run " + file + " --fresh");
  ASSERT_TRUE(job.has_done(3)) << job.errors();
  const Ran ran = run("checkpoint now --json", "2>/dev/null");
  ASSERT_EQ(ran.code, 0) << ran.output;
  const std::string path = object_of(ran)["path"];
  EXPECT_GE(object_of(ran)["iteration"], 3);
  EXPECT_EQ(run("checkpoint verify " + path).code, 0);
  EXPECT_TRUE(has(run("checkpoint now"), "stands: 'checkpoints/slow/step-"));
  EXPECT_EQ(run("stop").code, 0);
  EXPECT_EQ(job.code(), 5);
}

TEST(Control, lists_and_shows_what_there_is) {
  const JobBeside job("run " + slow_job(2000) + " --fresh");
  ASSERT_TRUE(job.has_done(1)) << job.errors();
  const Ran stages = run("list stages --json", "2>/dev/null");
  EXPECT_EQ(object_of(stages)["stages"].size(), 3U) << stages.output;
  EXPECT_EQ(object_of(stages)["stages"][2], Json({{"stage", "stage/2"},
                                                  {"replica", 0},
                                                  {"layers", "4"},
                                                  {"node", "n2"},
                                                  {"device", "cpu0"},
                                                  {"replaced", 0}}));
  for (const char* kind : {"nodes", "links", "devices"}) EXPECT_EQ(run(std::string("list ") + kind).code, 0) << kind;
  EXPECT_TRUE(has(run("list links"), "link/1-2"));
  EXPECT_TRUE(has(run("get node/n1"), "state       up"));
  EXPECT_TRUE(has(run("get stage/0"), "layers      0-1"));
  const Ran nobody = run("get stage/9");
  EXPECT_EQ(nobody.code, 2);
  EXPECT_TRUE(has(nobody, "there is no 'stage/9'; there are stage/0, stage/1, stage/2")) << nobody.output;
  const Ran kinds = run("list stage");
  EXPECT_EQ(kinds.code, 2);
  EXPECT_TRUE(has(kinds,
                  "expected one of stages, nodes, links, devices, faults, actors, got 'stage'; did you "
                  "mean 'stages'?"))
      << kinds.output;
  const Ran watched = run("watch 2", "2>/dev/null");
  EXPECT_EQ(watched.code, 0);
  EXPECT_EQ(std::count(watched.output.begin(), watched.output.end(), '\n'), 2) << watched.output;
  EXPECT_EQ(run("stop").code, 0);
}

TEST(Control, words_that_make_no_sense_are_refused_without_a_job) {
  for (const char* words : {"migrate", "migrate layers", "migrate layers 4-3 to stage/1", "migrate layers 1 to 1",
                            "migrate layers 1 to stage/x", "migrate layout", "migrate layout [1, two]",
                            "migrate layers 1 to stage/1 now"}) {
    const Ran ran = run(words);
    EXPECT_EQ(ran.code, 2) << words;
    EXPECT_TRUE(has(ran, "expected `layers A-B to stage/N`")) << ran.output;
  }
  EXPECT_EQ(run("get stage").code, 2);
  EXPECT_EQ(run("watch never").code, 2);
  const Ran nobody = run("status --socket nowhere.sock");
  EXPECT_EQ(nobody.code, 2);
  EXPECT_TRUE(has(nobody, "nobody answers at 'nowhere.sock': No such file or directory")) << nobody.output;
  const Ran help = run("migrate --help");
  EXPECT_EQ(help.code, 0);
  EXPECT_TRUE(has(help, "stagecraft migrate layers 3-4 to stage/1")) << help.output;
}

TEST(Control, garbage_on_the_socket_does_not_hurt_the_job) {
  const std::string file = slow_job(60);
  const Ran plain = run("run " + file + " --json --fresh", "2>/dev/null");
  const JobBeside job("run " + file + " --json --fresh");
  ASSERT_TRUE(job.has_done(1)) << job.errors();
  const std::string socket = job.socket();
  RawClient raw(socket);
  EXPECT_EQ(raw.ask("no json")["outcome"], "bad_request");
  EXPECT_EQ(raw.ask("[1, 2]")["outcome"], "bad_request");
  EXPECT_EQ(raw.ask(R"({"id": 5})")["id"], 5);
  EXPECT_EQ(raw.ask(R"({"id": "x", "verb": "statsu"})"),
            Json({{"id", "x"},
                  {"outcome", "bad_request"},
                  {"text", "there is no verb 'statsu'; did you mean 'status'?"},
                  {"data", Json::object()}}));
  for (const char* request :
       {R"({"verb": "status", "arguments": {"fast": true}})", R"({"verb": "status", "arguments": []})",
        R"({"verb": "migrate", "arguments": {"layers": 3, "stage": 1}})", R"({"verb": "migrate"})",
        R"({"verb": "migrate", "arguments": {"layers": "1", "stage": -1}})",
        R"({"verb": "migrate", "arguments": {"layout": [1e9]}})",
        R"({"verb": "migrate", "arguments": {"layout": [1], "stage": 1}})", R"({"verb": "list"})",
        R"({"verb": "list", "arguments": {"kind": ["stages"]}})", R"({"verb": "get", "arguments": {"name": "stage"}})",
        R"({"verb": "help"})", R"({"verb": ["status"]})", R"({"verb": null})"})
    EXPECT_EQ(raw.ask(request)["outcome"], "bad_request") << request;
  EXPECT_EQ(raw.ask(std::string(30'000, '['))["outcome"], "bad_request");
  EXPECT_EQ(raw.ask(std::string(70'000, 'x'))["text"], "a line has more than 65536 bytes");
  EXPECT_EQ(raw.ask(R"({"id": 1, "verb": "migrate", "arguments": {"layout": [4000000000, 4000000000, 5]}})")["outcome"],
            "refused");
  run_command(
      "head -c 300000 /dev/urandom | timeout 5 python3 -c \"import socket, sys; s = "
      "socket.socket(socket.AF_UNIX); s.connect('" +
      socket + "'); s.sendall(sys.stdin.buffer.read())\" 2>/dev/null");
  for (int i = 0; i < 50; ++i) RawClient(socket).send(R"({"verb": "status"})");
  EXPECT_EQ(raw.ask(R"({"id": 2, "verb": "status"})")["outcome"], "done");
  EXPECT_EQ(job.code(), 0) << job.errors();
  expect_equal_bits(object_of(plain), Json::parse(job.output()));
}

TEST(Control, a_job_that_is_frozen_is_named_in_time) {
  const JobBeside job("run " + slow_job(2000) + " --fresh");
  ASSERT_TRUE(job.has_done(1)) << job.errors();
  kill(job.process(), SIGSTOP);
  const auto before = std::chrono::steady_clock::now();
  // Both at once, because it takes ten seconds.
  const Ran ran = run_command("(" STAGECRAFT_BINARY " status --check; echo it ended with $?) 2>&1 & " STAGECRAFT_BINARY
                              " status 2>&1; code=$?; wait; exit $code");
  EXPECT_LT(std::chrono::steady_clock::now() - before, std::chrono::seconds(20));
  kill(job.process(), SIGCONT);
  EXPECT_EQ(ran.code, 4);
  EXPECT_TRUE(has(ran, "it ended with 4")) << ran.output;
  EXPECT_TRUE(has(ran, "process " + std::to_string(job.process()) + " at 'stagecraft-runs/slow-")) << ran.output;
  EXPECT_EQ(run("stop").code, 0) << "and it is well again";
}

TEST(Control, a_job_that_ends_first_says_so_to_whoever_waits) {
  const JobBeside job("run " + slow_job(25) + " --fresh");
  ASSERT_TRUE(job.has_done(1)) << job.errors();
  RawClient raw(job.socket());
  const Json answer = raw.ask(R"({"id": 1, "verb": "stop"})");
  EXPECT_EQ(answer["outcome"], "done");
  EXPECT_EQ(job.code(), 5);
  const JobBeside killed("run " + slow_job(2000) + " --fresh");
  ASSERT_TRUE(killed.has_done(1)) << killed.errors();
  const Ran ran = run_command("(" STAGECRAFT_BINARY " watch 1000 & sleep 1; kill -KILL " +
                              std::to_string(killed.process()) + "; wait $!) 2>&1");
  EXPECT_EQ(ran.code, 0) << ran.output;
  EXPECT_TRUE(has(ran, "the job has ended")) << ran.output;
  EXPECT_NE(killed.code(), 0) << "the last of its sockets is closed after the first";
  const Ran stale = run("status");
  EXPECT_EQ(stale.code, 2) << "its socket is still there, and nobody behind it\n" << stale.output;
  EXPECT_TRUE(has(stale, "Connection refused")) << stale.output;
}

TEST(Control, a_path_too_long_for_a_socket_is_told_and_the_job_runs) {
  const std::string folder(100, 'f');
  const Ran ran = run("run " + slow_job(2) + " --fresh --set output.dir=" + folder);
  EXPECT_EQ(ran.code, 0) << ran.output;
  EXPECT_TRUE(has(ran, "no control socket: '" + folder +
                           "/slow-1/control.sock' has 120 bytes, and the path of a socket "
                           "may have at most 107; the job runs without"))
      << ran.output;
}

TEST(Control, several_processes_are_one_job) {
  const std::string file = slow_job(80);
  const Ran plain = run("run " + file + " --json --fresh", "2>/dev/null");
  const JobBeside job("run " + file + " --processes --json --fresh");
  ASSERT_TRUE(job.has_done(2)) << job.errors();
  const Ran moved = run("migrate layers 4 to stage/1");
  EXPECT_EQ(moved.code, 0) << moved.output;
  const Ran all = run("list nodes --json", "2>/dev/null");
  EXPECT_EQ(object_of(all)["nodes"].size(), 3U);
  run_command("pkill -KILL -P " + std::to_string(job.process()) + " -f -- '--name n1'");
  EXPECT_TRUE(soon([] { return has(run("get node/n1"), "state       gone: "); })) << run("list nodes").output;
  const Ran status = run("status");
  EXPECT_TRUE(has(status, "stage 1 of replica 0 (1)")) << status.output;
  EXPECT_EQ(job.code(), 0) << job.errors();
  expect_equal_bits(object_of(plain), Json::parse(job.output()));
}

TEST(Control, whoever_leads_after_a_loss_can_be_talked_to) {
  const std::string file = slow_job(100);
  const Ran plain = run("run " + file + " --json --fresh", "2>/dev/null");
  const std::string port = std::to_string(20000 + getpid() % 20000);
  const std::string node = "node " + file + " --fresh --json --set nodes.0.listen=127.0.0.1:" + port + " --name ";
  const JobBeside first(node + "n0", "n0"), second(node + "n1", "n1"), third(node + "n2", "n2");
  ASSERT_TRUE(first.has_done(2)) << first.errors();
  kill(first.process(), SIGKILL);
  EXPECT_TRUE(second.has_done(3)) << second.errors();
  EXPECT_TRUE(second.socket().ends_with("/control-n1.sock")) << second.errors();
  const Ran moved = run("migrate layers 4 to stage/1");
  EXPECT_EQ(moved.code, 0) << moved.output;
  EXPECT_TRUE(has(moved, second.socket())) << moved.output;
  EXPECT_TRUE(has(run("get node/n0"), "state       gone: "));
  EXPECT_EQ(second.code(), 0) << second.errors();
  EXPECT_EQ(third.code(), 0) << third.errors();
  const Json rest = Json::parse(second.output());  // the iterations since it leads, and the weights of all
  EXPECT_EQ(object_of(plain)["weights_sha256"], rest["weights_sha256"]);
  EXPECT_FALSE(fs::exists(second.socket()));
}

}  // namespace
}  // namespace stagecraft::test
