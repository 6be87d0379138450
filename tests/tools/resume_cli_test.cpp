// Runs that are stopped, killed or robbed of their disk, and what continues them: as processes, with real signals and
// files.
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "tests/tools/command.hpp"

namespace stagecraft::test {
namespace {

using Json = nlohmann::json;
using namespace std::chrono_literals;
namespace fs = std::filesystem;

// A folder with a small job on a text of its own; the command is run in it.
class ResumeCommand : public ::testing::Test {
 protected:
  void SetUp() override {
    folder = temporary(::testing::UnitTest::GetInstance()->current_test_info()->name());
    fs::remove_all(folder);
    fs::create_directories(folder);
    std::ofstream text(folder + "/text");
    for (int line = 0; line < 4000; ++line) text << "line " << line * 7 % 1013 << " of " << line % 89 << "\n\n";
    std::ofstream(folder + "/job.yaml") << R"(version: 1
job: { name: small, seed: 7, iterations: 30 }
model: { layers: 4, width: 48, heads: 4, context: 64 }
data: { sources: [{ files: text, split: "\n\n" }], micro_batch_tokens: 128 }
training: { micro_batches: 8, logical_shards: 4 }
pipeline: { stages: 3 }
nodes: [{ name: n0, devices: [{ kind: cpu, count: 3, memory: 512MiB }] }]
)";
  }
  void TearDown() override { fs::remove_all(folder); }

  // Both streams.
  Ran in_folder(const std::string& arguments) const { return shell(std::string(STAGECRAFT_BINARY) + " " + arguments); }
  Ran shell(const std::string& command) const { return run_command("cd " + folder + " && " + command + " 2>&1"); }
  // The JSON object that ends a run in the folder; fails the test when the run does not end with `code`.
  Json result(const std::string& arguments, int code = 0) const {
    const Ran ran =
        run_command("cd " + folder + " && " + STAGECRAFT_BINARY + " run job.yaml --json " + arguments + " 2>stderr");
    EXPECT_EQ(ran.code, code) << ran.output << read("stderr");
    return ran.output.empty() ? Json() : Json::parse(ran.output, nullptr, false);
  }
  std::string read(const std::string& name) const {
    std::ifstream file(folder + "/" + name);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  // The result of a run that nobody interrupts, and how long it took.
  std::pair<Json, std::chrono::milliseconds> timed_whole() const {
    const auto begin = std::chrono::steady_clock::now();
    Json whole = result("--set output.dir=whole");
    return {std::move(whole),
            std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() - begin)};
  }
  bool has_checkpoints() const { return fs::exists(folder + "/checkpoints/small"); }

  // Runs that have come so far that they listen to signals.
  std::ptrdiff_t begun() const {
    std::error_code none_yet;
    return std::distance(fs::directory_iterator(folder + "/stagecraft-runs", none_yet), fs::directory_iterator());
  }
  // Starts a run and waits until it has begun.
  pid_t start_and_wait(const std::vector<std::string>& more) const {
    const std::ptrdiff_t before = begun();
    const pid_t child = start(more);
    for (int i = 0; i < 3000 && begun() == before; ++i) std::this_thread::sleep_for(10ms);
    return child;
  }
  // Starts a run; its output goes to the file `out`.
  pid_t start(const std::vector<std::string>& more) const {
    std::vector<std::string> words{"stagecraft", "run", "job.yaml", "--json"};
    words.insert(words.end(), more.begin(), more.end());
    const pid_t child = fork();
    if (child != 0) return child;
    if (chdir(folder.c_str()) != 0) _exit(126);
    (void)freopen("out", "w", stdout);
    (void)freopen("stderr", "w", stderr);
    std::vector<char*> argv;
    argv.reserve(words.size() + 1);
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    execv(STAGECRAFT_BINARY, argv.data());
    _exit(127);
  }
  static int wait_for(pid_t child) {
    int status = 0;
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }

  std::string folder;
};

TEST_F(ResumeCommand, a_signal_leaves_a_checkpoint_and_5_and_the_run_is_continued_with_the_same_bits) {
  const auto [whole, time] = timed_whole();
  std::vector<std::string> more{"--set", "job.iterations=30"};
  for (const int signal : {SIGINT, SIGTERM, SIGUSR1}) {
    const pid_t child = start_and_wait(more);
    std::this_thread::sleep_for(time / 3);
    kill(child, signal);
    const int code = wait_for(child);
    const Json stopped = Json::parse(read("out"), nullptr, false);
    if (code == 0) {  // so fast that it was done before the signal
      EXPECT_EQ(stopped["weights_sha256"], whole["weights_sha256"]);
      return;
    }
    EXPECT_EQ(code, 5) << read("stderr");
    EXPECT_EQ(stopped["ending"], "stopped");
    EXPECT_EQ(result("", 2), Json()) << "without a word about the checkpoints nothing starts";
    EXPECT_NE(read("stderr").find("--resume"), std::string::npos) << read("stderr");
    more = {"--resume", "--set", "pipeline.stages=2"};
  }
  const Json resumed = result("--resume");
  EXPECT_EQ(resumed["weights_sha256"], whole["weights_sha256"]);
  EXPECT_EQ(resumed["moments_sha256"], whole["moments_sha256"]);
  EXPECT_EQ(resumed["losses_hex"].back(), whole["losses_hex"].back());
}

TEST_F(ResumeCommand, a_second_signal_leaves_at_once) {
  const pid_t child = start_and_wait({"--set", "job.iterations=100000"});
  kill(child, SIGTERM);
  kill(child, SIGINT);
  const int code = wait_for(child);
  EXPECT_TRUE(code == 130 || code == 5) << code << ": two signals that come as one are one";
}

// B30, with a real process and a real disk.
TEST_F(ResumeCommand, killed_at_any_moment_it_continues_with_the_same_bits) {
  const auto [whole, time] = timed_whole();
  const std::vector<std::string> every{"--set", "checkpoint.every=1"};
  std::uint32_t kills = 0;
  for (std::uint32_t attempt = 0; attempt < 40; ++attempt) {
    std::vector<std::string> more = every;
    if (has_checkpoints()) more.emplace_back(in_folder("checkpoint ls job.yaml").code == 0 ? "--resume" : "--fresh");
    const pid_t child = start(more);
    std::this_thread::sleep_for(time * (2 + attempt * 7 % 11) / 14);
    kill(child, SIGKILL);
    const int code = wait_for(child);
    if (code == 0) break;
    if (code == 2) {  // killed before the first checkpoint was whole
      EXPECT_NE(read("stderr").find("--fresh"), std::string::npos) << read("stderr");
      fs::remove_all(folder + "/checkpoints");
      continue;
    }
    EXPECT_EQ(code, 128 + SIGKILL) << read("stderr");
    ++kills;
  }
  EXPECT_GT(kills, 0U);
  const bool any = in_folder("checkpoint verify job.yaml").code == 0;  // none: it was always killed too early
  const Ran last =
      in_folder(std::string("run job.yaml --json --set job.iterations=31 ") + (any ? "--resume" : "--fresh"));
  const Json longer = result("--set output.dir=whole --set checkpoint.dir=elsewhere --set job.iterations=31");
  ASSERT_EQ(last.code, 0) << last.output;
  EXPECT_NE(last.output.find(longer["weights_sha256"].get<std::string>()), std::string::npos) << last.output;
}

TEST_F(ResumeCommand, fresh_moves_the_old_ones_aside) {
  result("--set checkpoint.every=10");
  EXPECT_EQ(result("--set checkpoint.every=10", 2), Json());
  result("--fresh --set checkpoint.every=15");
  EXPECT_TRUE(fs::exists(folder + "/checkpoints/small.before-1/step-00000010/manifest.json"));
  EXPECT_TRUE(fs::exists(folder + "/checkpoints/small/step-00000015/manifest.json"));
  EXPECT_FALSE(fs::exists(folder + "/checkpoints/small/step-00000010"));
}

TEST_F(ResumeCommand, a_full_disk_costs_the_checkpoint_is_said_and_ends_with_3) {
  const Ran ran = shell("bash -c 'ulimit -f 64; exec " + std::string(STAGECRAFT_BINARY) +
                        " run job.yaml --set checkpoint.every=30'");
  EXPECT_EQ(ran.code, 3) << ran.output;
  EXPECT_TRUE(has(ran, "THE LAST CHECKPOINT IS NOT WRITTEN")) << ran.output;
  EXPECT_TRUE(has(ran, "model.safetensors") || has(ran, "optimizer.safetensors")) << ran.output;
  EXPECT_FALSE(fs::exists(folder + "/checkpoints/small/step-00000030"));
}

TEST_F(ResumeCommand, what_cannot_be_continued_is_named_and_nothing_is_lost) {
  result("--set checkpoint.every=10");
  const Ran other = in_folder("run job.yaml --resume --set model.layers=5 --set job.iterations=40");
  EXPECT_EQ(other.code, 2);
  EXPECT_TRUE(has(other, "layers")) << other.output;
  const Ran shards = in_folder("run job.yaml --resume --set training.logical_shards=8 --set job.iterations=40");
  EXPECT_EQ(shards.code, 2);
  EXPECT_TRUE(has(shards, "logical_shards")) << shards.output;
  const Ran missing = in_folder("run job.yaml --resume checkpoints/small/step-00000011");
  EXPECT_EQ(missing.code, 2);
  EXPECT_TRUE(has(missing, "step-00000011")) << missing.output;
  EXPECT_EQ(in_folder("run job.yaml --resume --fresh").code, 2);
  const Ran done = in_folder("run job.yaml --resume");
  EXPECT_EQ(done.code, 0);
  EXPECT_TRUE(has(done, "nothing is left to do")) << done.output;
  const Json nothing = result("--resume");
  EXPECT_EQ(nothing["ending"], "done");
  EXPECT_EQ(nothing["iterations"], 0);
  EXPECT_EQ(nothing["start_iteration"], 30);
  std::ofstream(folder + "/checkpoints/small/step-00000030/model.safetensors", std::ios::app) << "x";
  const Ran older = in_folder("run job.yaml --resume --set job.iterations=31");
  EXPECT_EQ(older.code, 0) << older.output;
  // Of iteration 20, or of 10 where the disk was still busy with that one.
  EXPECT_TRUE(has(older, "passed over") && has(older, "after iteration ")) << older.output;
  EXPECT_TRUE(fs::exists(folder + "/checkpoints/small.before-1/step-00000030")) << "a damaged one is not thrown away";
}

TEST_F(ResumeCommand, a_place_that_takes_no_checkpoint_is_refused_before_anything_runs) {
  std::ofstream(folder + "/file") << "not a folder";
  const Ran ran = in_folder("run job.yaml --set checkpoint.dir=file");
  EXPECT_EQ(ran.code, 2) << ran.output;
  EXPECT_TRUE(has(ran, "can't write 'file/small.lock': Not a directory; no checkpoint could be kept")) << ran.output;
  EXPECT_FALSE(fs::exists(folder + "/stagecraft-runs"));
}

}  // namespace
}  // namespace stagecraft::test
