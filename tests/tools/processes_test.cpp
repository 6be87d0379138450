// A job in several processes, as people start it: the same bits, and a clear word when it can't be.
#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>

#include "tests/tools/command.hpp"

namespace stagecraft::test {
namespace {

using Json = nlohmann::json;
namespace fs = std::filesystem;

/// Three nodes with a stage each; `more` goes in at the end.
std::string tiny_nodes(const std::string& more = {}, const std::string& listen = "127.0.0.1:0") {
  std::ofstream("text.txt") << std::string(400, 'a') + "\n\n" + std::string(300, 'b') + "\n\nand something else\n\n";
  std::ofstream("nodes.yaml")
      << R"(version: 1
job: { name: nodes, seed: 7, iterations: 6 }
model: { layers: 3, width: 16, heads: 2, hidden: 24, context: 16 }
data: { sources: [{ files: text.txt, split: "\n\n" }], micro_batch_tokens: 16 }
training: { micro_batches: 4, logical_shards: 2, optimizer: { kind: adamw, learning_rate: 1e-2, clip: 0.5 } }
pipeline: { stages: 3, schedule: 1f1b, dispatch: reactive }
timeouts: { operation: 10s, iteration: 20s, stage: 30s, node: 40s }
checkpoint: { every: 2 }
nodes:
)"
      << "  - { name: n0, listen: \"" << listen << "\", devices: [{ kind: cpu, count: 1, memory: 64MiB }] }\n"
      << R"(  - { name: n1, listen: "127.0.0.1:0", devices: [{ kind: cpu, count: 1, memory: 64MiB }] }
  - { name: n2, listen: "127.0.0.1:0", devices: [{ kind: cpu, count: 1, memory: 64MiB }] }
)" << more;
  return "nodes.yaml";
}

Json record_of(const Ran& ran) {
  EXPECT_EQ(ran.code, 0) << ran.output;
  return Json::parse(ran.output.substr(ran.output.rfind("\n{") == std::string::npos ? 0 : ran.output.rfind("\n{") + 1));
}

void expect_equal_bits(const Json& a, const Json& b) {
  for (const char* key : {"losses_hex", "weights_sha256", "moments_sha256", "iterations", "corpus_sha256"})
    if (a.contains(key)) EXPECT_EQ(a.at(key), b.at(key)) << key;
  EXPECT_FALSE(a.at("weights_sha256").get<std::string>().empty());
  EXPECT_TRUE(b.at("violations").empty()) << b.at("violations");
}

TEST(Processes, have_the_bits_of_one_process) {
  const std::string file = tiny_nodes();
  const Json one = record_of(run("run " + file + " --json", "2>/dev/null"));
  const Json several = record_of(run("run " + file + " --json --processes --fresh", "2>/dev/null"));
  expect_equal_bits(one, several);
}

TEST(Processes, continue_from_a_checkpoint_of_theirs) {
  const std::string file = tiny_nodes();
  const Json whole = record_of(run("run " + file + " --json --fresh", "2>/dev/null"));
  record_of(run("run " + file + " --json --processes --fresh --set job.iterations=4", "2>/dev/null"));
  const Json rest = record_of(run("run " + file + " --json --processes --resume", "2>/dev/null"));
  EXPECT_EQ(rest.at("weights_sha256"), whole.at("weights_sha256"));
  EXPECT_EQ(rest.at("moments_sha256"), whole.at("moments_sha256"));
}

TEST(Node, is_told_what_its_name_must_be) {
  const std::string file = tiny_nodes();
  const Ran nobody = run("node " + file);
  EXPECT_EQ(nobody.code, 2);
  EXPECT_TRUE(has(nobody, "expected --name with one of n0, n1, n2")) << nobody.output;
  const Ran stranger = run("node " + file + " --name n7");
  EXPECT_EQ(stranger.code, 2);
  EXPECT_TRUE(has(stranger, "--name says 'n7'")) << stranger.output;
  const Ran lost = run_command("SLURM_NODEID=1 " + std::string(STAGECRAFT_BINARY) + " node " + file + " 2>&1");
  EXPECT_EQ(lost.code, 2);
  EXPECT_TRUE(has(lost, "expected where node 'n0' listens")) << lost.output;
}

TEST(Node, does_not_wait_for_ever) {
  const std::string file = tiny_nodes();
  const std::string brief =
      " --set timeouts.operation=100ms --set timeouts.iteration=200ms --set timeouts.stage=1s --set timeouts.node=2s";
  const Ran alone = run("node " + file + " --name n1 --leader 127.0.0.1:1" + brief);
  EXPECT_EQ(alone.code, 2);
  EXPECT_TRUE(has(alone, "the first node does not answer within 1 s")) << alone.output;
  const Ran first = run("node " + file + " --name n0 --fresh" + brief);
  EXPECT_EQ(first.code, 2);
  EXPECT_TRUE(has(first, "node 'n1' (127.0.0.1:0) has not come, node 'n2' (127.0.0.1:0) has not come")) << first.output;
}

TEST(Node, is_not_let_in_with_another_topology) {
  const std::string file = tiny_nodes();
  const std::string brief =
      " --set timeouts.operation=1s --set timeouts.iteration=2s --set timeouts.stage=5s --set timeouts.node=6s";
  const std::string port = std::to_string(20000 + getpid() % 20000);
  const std::string listen = " --set nodes.0.listen=127.0.0.1:" + port;
  const Ran both = run_command("(" + std::string(STAGECRAFT_BINARY) + " node " + file + " --name n0 --fresh" + brief +
                               listen + " 2>&1 & " + STAGECRAFT_BINARY + " node " + file + " --name n1" + brief +
                               listen + " --set job.seed=8 2>&1; wait)");
  EXPECT_TRUE(has(both, "the first node does not let it in: node 'n1' has another topology than node 'n0': line"))
      << both.output;
  EXPECT_TRUE(has(both, "refused: node 'n1' has another topology")) << both.output;
}

TEST(Node, listens_to_other_machines_with_certificates_only) {
  const Ran bare = run("node " + tiny_nodes({}, "0.0.0.0:7777") + " --name n0");
  EXPECT_EQ(bare.code, 2);
  EXPECT_TRUE(has(bare, "expected security.certificates, got none")) << bare.output;
  const Ran empty = run("node " + tiny_nodes("security: { certificates: nowhere }\n") + " --name n0");
  EXPECT_EQ(empty.code, 2);
  EXPECT_TRUE(has(empty, "nowhere/ca.pem")) << empty.output;
}

}  // namespace
}  // namespace stagecraft::test
