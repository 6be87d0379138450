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

void expect_equal_results(const Json& a, const Json& b) {
  for (const char* key : {"losses_hex", "weights_sha256", "moments_sha256", "iterations", "corpus_sha256"})
    EXPECT_EQ(a.at(key), b.at(key)) << key;
  EXPECT_FALSE(a.at("weights_sha256").get<std::string>().empty());
  EXPECT_TRUE(b.at("violations").empty()) << b.at("violations");
}

TEST(Processes, have_the_bits_of_one_process) {
  const std::string file = tiny_nodes();
  const Json one = record_of(run("run " + file + " --json", "2>/dev/null"));
  const Json several = record_of(run("run " + file + " --json --processes --fresh", "2>/dev/null"));
  expect_equal_results(one, several);
}

TEST(Processes, continue_from_a_checkpoint_of_theirs) {
  const std::string file = tiny_nodes();
  const Json whole = record_of(run("run " + file + " --json --fresh", "2>/dev/null"));
  record_of(run("run " + file + " --json --processes --fresh --set job.iterations=4", "2>/dev/null"));
  const Json rest = record_of(run("run " + file + " --json --processes --resume", "2>/dev/null"));
  EXPECT_EQ(rest.at("weights_sha256"), whole.at("weights_sha256"));
  EXPECT_EQ(rest.at("moments_sha256"), whole.at("moments_sha256"));
}

const std::string long_job =
    " --json --fresh --set job.iterations=400 --set checkpoint.every=0 --set recovery.detect_after=2s";

// Strikes one of the processes once the first iteration is done.
Ran struck_run(const std::string& file, const std::string& signal) {
  // As a pattern that this very command does not match.
  const std::string victim = " -f -- '" + file.substr(0, file.size() - 1) + "[l] --name n1'";
  Ran ran = run_command(
      "rm -f said; (for n in $(seq 600); do grep -q ^iteration said 2>/dev/null && break; sleep 0.05; done; pkill -" +
      signal + victim + ") & " + STAGECRAFT_BINARY + " run " + file + " --processes" + long_job + " 2>said");
  run_command("pkill -KILL" + victim);  // a frozen one does not end by itself
  return ran;
}

TEST(Processes, lose_one_that_is_killed_or_frozen_and_no_bit) {
  const std::string file = temporary(tiny_nodes());  // a name that no other test has
  const Json whole = record_of(run("run " + file + long_job, "2>/dev/null"));
  for (const char* signal : {"KILL", "STOP"}) {
    const Json struck = record_of(struck_run(file, signal));
    expect_equal_results(whole, struck);
    EXPECT_EQ(struck.at("lost"), 2) << signal;  // a stage, and the twin of another
    EXPECT_EQ(struck.at("begun_again"), 1) << signal;
  }
}

// Every node by itself, and a signal to the one that leads once the first iteration is done. What the second one
// leaves.
Ran run_without_leader(const std::string& file, const std::string& signal) {
  const std::string node = std::string(STAGECRAFT_BINARY) + " node " + file + " --name ";
  const std::string port = std::to_string(20000 + getpid() % 20000);
  const std::string sets = long_job + " --set nodes.0.listen=127.0.0.1:" + port;
  return run_command("rm -f said; " + node + "n1" + sets + " >out-n1 2>said-n1 & one=$!; " + node + "n2" + sets +
                     " >out-n2 2>said-n2 & two=$!; " + node + "n0" + sets + " >/dev/null 2>said & zero=$!; " +
                     "for n in $(seq 600); do grep -q ^iteration said 2>/dev/null && break; sleep 0.05; done; kill -" +
                     signal +
                     " $zero; wait $two; echo $? >code-n2; wait $one; code=$?; kill -KILL $zero 2>/dev/null; " +
                     "cat said-n1 out-n1; exit $code");
}

TEST(Processes, go_on_when_the_one_that_leads_is_killed_or_frozen) {
  const std::string file = temporary(tiny_nodes());
  const Json whole = record_of(run("run " + file + long_job, "2>/dev/null"));
  for (const char* signal : {"KILL", "STOP"}) {
    const Ran ran = run_without_leader(file, signal);
    const Json struck = record_of(ran);
    expect_equal_results(whole, struck);
    EXPECT_TRUE(has(ran, "node 'n1' leads the job from iteration")) << ran.output.substr(0, 500);
    EXPECT_EQ(struck.at("lost"), 2) << signal;  // a stage, and the twin of another
    EXPECT_EQ(struck.at("begun_again"), 1) << signal;
    std::ifstream code("code-n2");
    EXPECT_EQ(code.get(), '0') << signal;
  }
}

TEST(Processes, end_with_a_checkpoint_when_any_of_them_is_asked_to) {
  const std::string file = temporary(tiny_nodes());
  const Ran ran = struck_run(file, "TERM");
  EXPECT_EQ(ran.code, 5) << ran.output.substr(0, 300);
  EXPECT_TRUE(has(ran, "stopped on request after")) << ran.output.substr(0, 300);
}

TEST(Processes, know_each_other_by_certificates) {
  const std::string file = tiny_nodes("security: { certificates: certificates }\n");
  ASSERT_EQ(run("certificate " + file + " --out certificates").code, 0);
  const Json bare = record_of(run("run " + file + " --json --fresh", "2>/dev/null"));
  const Json encrypted = record_of(run("run " + file + " --json --processes --fresh", "2>/dev/null"));
  expect_equal_results(bare, encrypted);
}

TEST(Node, comes_only_with_a_certificate_of_the_same_authority_and_strangers_do_no_harm) {
  const std::string file = tiny_nodes("security: { certificates: certificates }\n");
  ASSERT_EQ(run("certificate " + file + " --out certificates --force").code, 0);
  fs::create_directories("elsewhere");
  fs::copy_file(file, "elsewhere/nodes.yaml", fs::copy_options::overwrite_existing);
  ASSERT_EQ(run("certificate " + file + " --out elsewhere/certificates --force").code, 0);
  const std::string port = std::to_string(20000 + getpid() % 20000);
  const std::string sets = " --set nodes.0.listen=127.0.0.1:" + port +
                           " --set timeouts.operation=1s --set timeouts.iteration=2s --set timeouts.stage=4s"
                           " --set timeouts.node=5s";
  const std::string binary = STAGECRAFT_BINARY;
  const Ran both = run_command(
      "(" + binary + " node nodes.yaml --name n0 --fresh" + sets + " 2>&1 & sleep 0.5;" +
      "head -c 100000 /dev/urandom | timeout 1 bash -c 'cat > /dev/tcp/127.0.0.1/" + port + "' 2>/dev/null;" +
      "printf '\\5\\0\\0\\0\\377\\377\\377\\377\\377\\377\\377\\377' | timeout 1 bash -c 'cat > /dev/tcp/127.0.0.1/" +
      port + "' 2>/dev/null; (cd elsewhere && " + binary + " node nodes.yaml --name n1" + sets + " 2>&1); wait)");
  EXPECT_TRUE(has(both, "are the certificates of both of one authority")) << both.output;
  EXPECT_TRUE(has(both, "node 'n1' (127.0.0.1:0) has not come")) << both.output;  // and it lives to say so
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
  const Ran all =
      run("node " + tiny_nodes("security: { certificates: certificates }\n", "0.0.0.0:7777") + " --name n0");
  EXPECT_EQ(all.code, 2);
  EXPECT_TRUE(has(all, "on all interfaces: expected the one address")) << all.output;
  const Ran empty = run("node " + tiny_nodes("security: { certificates: nowhere }\n") + " --name n0");
  EXPECT_EQ(empty.code, 2);
  EXPECT_TRUE(has(empty, "nowhere/ca.pem")) << empty.output;
}

}  // namespace
}  // namespace stagecraft::test
