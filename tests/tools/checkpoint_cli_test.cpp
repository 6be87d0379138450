// `stagecraft checkpoint` as people and scripts use it: what it prints, what it makes, what it refuses, exit codes.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/tools/command.hpp"

namespace stagecraft::test {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

std::string content(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

void flip_last_byte(const fs::path& path) {
  std::string bytes = content(path);
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  std::ofstream(path, std::ios::binary) << bytes;
}

// A small job that was trained for four iterations and left checkpoints of iterations 2 and 4.
class CheckpointCommand : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    root = new std::string(temporary("jobs"));
    fs::create_directories(*root + "/kept");
    std::string text;
    for (int i = 0; i < 400; ++i) text += "the quick brown fox jumps over lazy dog number " + std::to_string(i) + ".\n";
    std::ofstream(*root + "/text.txt") << text;
    std::ofstream(file()) << "version: 1\njob: { name: tiny, iterations: 4 }\n"
                             "model: { layers: 2, width: 16, heads: 2, context: 32, vocabulary: bytes }\n"
                             "data: { sources: [{ files: " +
                                 *root +
                                 "/text.txt }], micro_batch_tokens: 64 }\n"
                                 "training: { micro_batches: 2 }\npipeline: { stages: 1 }\n"
                                 "nodes: [{ name: n0, devices: [{ kind: cpu, memory: 64MiB }] }]\n"
                                 "checkpoint: { dir: " +
                                 *root +
                                 "/kept, every: 2 }\n"
                                 "output: { dir: " +
                                 *root + "/runs }\n";
    trained = new Ran(run("run " + file()));
  }
  static void TearDownTestSuite() {
    std::error_code ignored;
    fs::remove_all(*root, ignored);
    delete root;
    delete trained;
  }
  void SetUp() override {
    ASSERT_EQ(trained->code, 0) << trained->output;
    // Each test has a copy of the checkpoints.
    here = *root + "/" + testing::UnitTest::GetInstance()->current_test_info()->name();
    fs::create_directories(here);
    fs::copy(*root + "/kept/tiny", job(), fs::copy_options::recursive);
  }

  static std::string file() { return *root + "/tiny.yaml"; }
  std::string topology() const { return file() + " --set checkpoint.dir=" + here; }
  std::string job() const { return here + "/tiny"; }
  std::string newest() const { return job() + "/step-00000004"; }

  std::string here;
  static std::string* root;
  static Ran* trained;
};
std::string* CheckpointCommand::root = nullptr;
Ran* CheckpointCommand::trained = nullptr;

TEST_F(CheckpointCommand, ls_shows_iteration_size_layout_and_state_of_a_topology_a_folder_and_one_checkpoint) {
  for (const std::string& what : {topology(), job(), job() + "/"}) {
    const Ran ran = run("checkpoint ls " + what);
    EXPECT_EQ(ran.code, 0) << ran.output;
    EXPECT_TRUE(has(ran, "step-00000004") && has(ran, "step-00000002")) << ran.output;
    EXPECT_TRUE(has(ran, "1 stages x 1 chunks x 1 replicas  verified")) << ran.output;
    EXPECT_LT(ran.output.find("step-00000004"), ran.output.find("step-00000002")) << "newest first";
  }
  const Ran one = run("checkpoint ls " + newest());
  EXPECT_EQ(one.code, 0) << one.output;
  EXPECT_TRUE(has(one, "step-00000004") && !has(one, "step-00000002")) << one.output;
}

TEST_F(CheckpointCommand, ls_tells_which_are_damaged_or_unfinished_and_why) {
  flip_last_byte(newest() + "/model.safetensors");
  fs::create_directories(job() + "/step-00000006.partial");
  const Ran ran = run("checkpoint ls " + job());
  EXPECT_EQ(ran.code, 0);
  EXPECT_TRUE(has(ran, "damaged") && has(ran, "unfinished") && has(ran, "verified")) << ran.output;
  EXPECT_TRUE(has(ran, "model.safetensors' has checksum")) << ran.output;
  const Json j = Json::parse(run("checkpoint ls --json " + job(), "2>/dev/null").output);
  ASSERT_EQ(j["checkpoints"].size(), 3u);
  EXPECT_EQ(j["newest_verified"], job() + "/step-00000002");
  EXPECT_EQ(j["checkpoints"][0]["state"], "unfinished");
  EXPECT_EQ(j["checkpoints"][1]["state"], "damaged");
  EXPECT_TRUE(j["checkpoints"][1].contains("why"));
  EXPECT_EQ(j["checkpoints"][2]["state"], "verified");
  EXPECT_EQ(j["checkpoints"][2]["iteration"], 2);
  EXPECT_EQ(j["checkpoints"][2]["job"], "tiny");
}

TEST_F(CheckpointCommand, verify_ends_with_3_when_one_is_damaged) {
  EXPECT_EQ(run("checkpoint verify " + job()).code, 0);
  EXPECT_EQ(run("checkpoint verify " + topology()).code, 0);
  const Ran sound = run("checkpoint verify " + newest());
  EXPECT_EQ(sound.code, 0) << sound.output;
  EXPECT_TRUE(has(sound, newest() + ": verified, iteration 4")) << sound.output;
  fs::remove(newest() + "/manifest.json");
  for (const std::string& what : {job(), newest(), topology()}) {
    const Ran ran = run("checkpoint verify " + what);
    EXPECT_EQ(ran.code, 3) << ran.output;
    EXPECT_TRUE(has(ran, "manifest.json': No such file")) << ran.output;
  }
}

TEST_F(CheckpointCommand, a_folder_with_files_of_others_is_no_damaged_checkpoint) {
  fs::create_directories(here + "/others");
  std::ofstream(here + "/others/notes.txt") << "nothing of ours";
  const Ran ran = run("checkpoint verify " + here + "/others");
  EXPECT_EQ(ran.code, 2) << ran.output;
  EXPECT_TRUE(has(ran, "no checkpoints in '" + here + "/others'")) << ran.output;
}

TEST_F(CheckpointCommand, check_says_that_there_are_some_and_no_place_is_no_place) {
  EXPECT_TRUE(has(run("check " + topology()), "the newest after iteration 4: `run` will ask for --resume or --fresh"));
  for (const std::string& verb : {std::string("export "), std::string("reshard --files 1 ")}) {
    const Ran ran = run("checkpoint " + verb + "--to '' " + newest());
    EXPECT_EQ(ran.code, 2) << ran.output;
    EXPECT_TRUE(has(ran, "--to: expected the place of what is to be made")) << ran.output;
  }
}

TEST_F(CheckpointCommand, what_holds_no_checkpoint_is_refused_with_2) {
  fs::create_directories(here + "/empty");
  const std::string to = "--to " + here + "/x ";
  for (const std::string& verb :
       {std::string("ls "), std::string("verify "), "reshard --files 2 " + to, "export " + to}) {
    const Ran ran = run("checkpoint " + verb + here + "/none");
    EXPECT_EQ(ran.code, 2) << verb;
    EXPECT_TRUE(has(ran, here + "/none")) << ran.output;
    const Ran empty = run("checkpoint " + verb + here + "/empty");
    EXPECT_EQ(empty.code, verb == "ls " ? 0 : 2) << verb << empty.output;
    EXPECT_TRUE(has(empty, "no checkpoint")) << empty.output;
  }
  EXPECT_EQ(run("checkpoint ls " + file() + " --set checkpoint.dir=" + here + "/none").code, 0) << "not trained yet";
  fs::remove_all(here + "/empty");
  EXPECT_TRUE(has(run("checkpoint ls " + here), "name a folder in it, such as '" + job() + "'"));
  EXPECT_EQ(run("checkpoint ls " + file() + " --set checkpoint.dri=x").code, 2);
}

TEST_F(CheckpointCommand, bad_usage_ends_with_2) {
  EXPECT_EQ(run("checkpoint").code, 2);
  EXPECT_EQ(run("checkpoint fly " + job()).code, 2);
  EXPECT_EQ(run("checkpoint reshard " + newest() + " --to " + here + "/x").code, 2);
  EXPECT_EQ(run("checkpoint reshard " + newest() + " --files 2").code, 2);
  EXPECT_EQ(run("checkpoint reshard " + newest() + " --files 2 --max-size 1MiB --to " + here + "/x").code, 2);
  EXPECT_EQ(run("checkpoint reshard " + newest() + " --files 0 --to " + here + "/x").code, 2);
  EXPECT_EQ(run("checkpoint reshard " + newest() + " --max-size 5 --to " + here + "/x").code, 2);
  EXPECT_EQ(run("checkpoint reshard " + newest() + " --max-size 0 --to " + here + "/x").code, 2);
  EXPECT_EQ(run("checkpoint export " + newest()).code, 2);
  EXPECT_FALSE(fs::exists(here + "/x"));
}

TEST_F(CheckpointCommand, reshard_splits_a_checkpoint_that_verifies_and_puts_it_together_again) {
  const std::string split = here + "/split", whole = here + "/whole";
  const Ran ran = run("checkpoint reshard " + newest() + " --files 3 --to " + split);
  EXPECT_EQ(ran.code, 0) << ran.output;
  EXPECT_TRUE(has(ran, "3 model files, 3 optimizer files, verified")) << ran.output;
  const Json index = Json::parse(content(split + "/model.safetensors.index.json"));
  EXPECT_EQ(index["weight_map"]["lm_head.weight"], "model-00003-of-00003.safetensors");
  EXPECT_EQ(run("checkpoint verify " + split).code, 0);
  EXPECT_EQ(run("checkpoint reshard " + split + " --max-size 1GiB --to " + whole).code, 0);
  for (const auto& entry : fs::directory_iterator(newest()))
    EXPECT_EQ(content(entry.path()), content(whole / entry.path().filename())) << entry.path();
}

TEST_F(CheckpointCommand, nothing_is_written_over_and_a_damaged_source_leaves_nothing) {
  std::ofstream(here + "/taken") << "mine";
  for (const std::string verb : {"reshard --files 2 ", "export ", "export --gguf "}) {
    const Ran ran = run("checkpoint " + verb + newest() + " --to " + here + "/taken");
    EXPECT_EQ(ran.code, 2) << ran.output;
    EXPECT_TRUE(has(ran, "taken' is there already")) << ran.output;
  }
  EXPECT_EQ(content(here + "/taken"), "mine");
  flip_last_byte(newest() + "/optimizer.safetensors");
  for (const std::string verb : {"reshard --files 2 ", "export ", "export --gguf "}) {
    const Ran ran = run("checkpoint " + verb + newest() + " --to " + here + "/new");
    EXPECT_EQ(ran.code, 3) << ran.output;
    EXPECT_TRUE(has(ran, "optimizer.safetensors' has checksum")) << ran.output;
    EXPECT_FALSE(fs::exists(here + "/new"));
    EXPECT_FALSE(fs::exists(here + "/new.partial"));
  }
}

TEST_F(CheckpointCommand, a_job_stands_for_its_newest_sound_checkpoint_and_the_others_are_named) {
  fs::resize_file(newest() + "/model.safetensors", 100);
  const Ran ran = run("checkpoint export " + topology() + " --to " + here + "/model");
  EXPECT_EQ(ran.code, 0) << ran.output;
  EXPECT_TRUE(has(ran, "passed over " + newest())) << ran.output;
  EXPECT_TRUE(has(ran, job() + "/step-00000002 -> " + here + "/model")) << ran.output;
  EXPECT_EQ(Json::parse(content(here + "/model/config.json"))["model_type"], "llama");
  EXPECT_EQ(content(here + "/model/model.safetensors"), content(job() + "/step-00000002/model.safetensors"));
  EXPECT_EQ(run("checkpoint export --gguf " + topology() + " --to " + here + "/model.gguf").code, 0);
  EXPECT_EQ(content(here + "/model.gguf").substr(0, 4), "GGUF");
}

}  // namespace
}  // namespace stagecraft::test
