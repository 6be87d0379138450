// Mutated scenarios: whatever happens to the bytes, the loader answers, and what it accepts is sane on a topology, too.
#include <gtest/gtest.h>

#include "tests/config/examples.hpp"
#include "tests/config/mutants.hpp"
#include "tests/config/scenarios.hpp"

namespace stagecraft {
namespace {

using namespace std::chrono_literals;

const std::vector<std::string> other_values{"0",    "1",    "3",    "40",      "1024",     "-1",    "0.5",      "1e3",
                                            "3s",   "10ms", "200h", "2x",      "slow",     "kill",  "cut",      "flip",
                                            "{}",   "[]",   "~",    "[1, 2]",  "real",     "5..1",  "nan",      "oom",
                                            "drop", "n0",   "skew", "pause }", "[n1, n0]", "saved", "committed"};

void expect_sane(const FaultSpec& f) {
  ASSERT_FALSE(f.id.empty());
  ASSERT_TRUE(f.factor >= 1 && f.factor <= 1000);
  ASSERT_TRUE(f.probability > 0 && f.probability <= 1);
  ASSERT_TRUE(f.mean >= 0ns && f.mean <= 1h && f.constant >= 0ns && f.constant <= 1h);
  ASSERT_GE(f.operation, 1U);
  ASSERT_FALSE(f.iterations && f.time);
  ASSERT_FALSE(strikes_once(f.kind) && (f.iterations || f.time));
  ASSERT_TRUE(f.trigger.kind != Trigger::Kind::iteration || f.trigger.iteration.value >= 1);
  const bool timed = f.trigger.kind == Trigger::Kind::time || f.trigger.kind == Trigger::Kind::drawn;
  ASSERT_TRUE(!timed || f.trigger.time > 0ns);
  ASSERT_GE(f.trigger.at_most, 1U);
  const std::size_t names = f.kind == FaultKind::partition ? 2 : f.kind == FaultKind::skew ? 1 : 0;
  ASSERT_EQ(f.on.node_names.size(), names);
}

void expect_sane(const Expectation& e, const Scenario& s) {
  using enum Expectation::Kind;
  const auto same_id = [&](const FaultSpec& f) { return f.id == e.fault; };
  ASSERT_TRUE(e.fault.empty() || std::any_of(s.faults.begin(), s.faults.end(), same_id));
  ASSERT_TRUE(e.kind != iteration_time || e.ratio.has_value() != e.within.has_value());
  ASSERT_TRUE((e.kind != progress && e.kind != shutdown) || e.within);
  ASSERT_EQ(e.kind == never, !e.never.empty());
  ASSERT_EQ(e.kind == committed || e.kind == checkpoint || e.kind == moved, e.at_least >= 1);
}

void expect_fit(Scenario scenario, const Topology& topology) {
  const auto diagnostics = check_against(scenario, topology);
  if (!diagnostics.empty()) return;
  for (const FaultSpec& f : scenario.faults) {
    ASSERT_EQ(f.on.nodes.size(), f.on.node_names.size());
    for (std::uint32_t node : f.on.nodes) ASSERT_LT(node, topology.nodes.size());
    ASSERT_LT(f.on.stage.value, topology.pipeline.stages);
    ASSERT_LT(f.on.other.value, topology.pipeline.stages);
  }
}

// True when it was accepted.
bool expect_answer(const std::string& text, const Topology& topology) {
  const auto result = load_scenario("s.yaml", text);
  EXPECT_EQ(result.scenario.has_value(), result.diagnostics.empty()) << lines_of(result.diagnostics);
  for (const Diagnostic& d : result.diagnostics) {
    EXPECT_FALSE(d.message.empty());
    EXPECT_EQ(to_text(d).find('\n'), std::string::npos) << to_text(d);
  }
  EXPECT_TRUE(std::is_sorted(result.diagnostics.begin(), result.diagnostics.end(),
                             [](const Diagnostic& a, const Diagnostic& b) { return a.at < b.at; }));
  if (!result.scenario) return false;
  for (const FaultSpec& f : result.scenario->faults) expect_sane(f);
  for (const Expectation& e : result.scenario->expect) expect_sane(e, *result.scenario);
  EXPECT_LE(result.scenario->first_seed, result.scenario->last_seed);
  EXPECT_GE(result.scenario->deadline, 1ms);
  expect_fit(*result.scenario, topology);
  return true;
}

TEST(ScenarioFuzz, five_thousand_mutants_are_refused_or_sane) {
  constexpr int mutants = 5000;
  const Topology topology = load(emulated_file, {"job.iterations=60", "checkpoint.every=10"});
  ASSERT_TRUE(expect_answer(rich_scenario, topology)) << "the file to be mutated is good";
  int accepted = 0;
  for (int i = 0; i < mutants; ++i) {
    Entropy entropy(static_cast<std::uint64_t>(i), "mutants of a scenario");
    const std::string text = mutant_of(rich_scenario, other_values, entropy);
    accepted += expect_answer(text, topology) ? 1 : 0;
    if (HasFailure()) FAIL() << "seed " << i << ":\n" << text;
  }
  // Both ways out are taken often enough to mean something.
  EXPECT_GT(accepted, mutants / 20);
  EXPECT_LT(accepted, mutants * 9 / 10);
  RecordProperty("accepted", accepted);
}
TEST(ScenarioFuzz, texts_of_random_pieces_of_yaml_are_answered) {
  const Topology topology = load(emulated_file);
  for (std::uint64_t seed = 0; seed < 1000; ++seed) {
    Entropy entropy(seed, "pieces of YAML");
    const std::string text = pieces_of_yaml(entropy);
    expect_answer(text, topology);
    if (HasFailure()) FAIL() << "seed " << seed << ":\n" << text;
  }
}

}  // namespace
}  // namespace stagecraft
