// What planning and simulating cost, for tools/bench/plan. One JSON object: CPU seconds per figure, all samples; or, in
// a process of its own, the memory of one quick plan.
#include <fmt/format.h>

#include <cstdio>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>

#include "planning/follow.hpp"
#include "planning/generate.hpp"
#include "planning/planner.hpp"
#include "planning/random.hpp"
#include "planning/replay.hpp"
#include "tools/bench/cpu_time.hpp"
#include "tools/bench/process_memory.hpp"

namespace stagecraft::bench {
namespace {

using namespace std::chrono_literals;
using Json = nlohmann::json;

// Pipelines that differ in what makes planning harder.
struct Kind {
  const char* name;
  bool unequal = false, slow_links = false, capped = false;
};
constexpr Kind kinds[] = {{"equal operators"},
                          {"unequal operators", true},
                          {"unequal, slow links", true, true},
                          {"unequal, slow links, caps", true, true, true}};

PipelineProblem problem_of(const Kind& kind, std::uint32_t stages, std::uint32_t micro_batches) {
  PipelineProblem problem;
  problem.shape = {stages, 1, MicroBatch{0}, micro_batches};
  std::uint64_t drawn = 0;
  const auto draw = [&](std::uint64_t low, std::uint64_t high) {
    return std::chrono::microseconds(low + bounded(keyed(7, drawn++), high - low + 1));
  };
  for (std::uint32_t s = 0; s < stages; ++s)
    problem.times.push_back(kind.unequal ? OperatorTimes{draw(8'000, 12'000), draw(8'000, 14'000), draw(6'000, 12'000)}
                                         : OperatorTimes{10ms, 10ms, 10ms});
  for (std::uint32_t b = 0; kind.slow_links && b + 1 < stages; ++b) {
    const Duration latency = b % 3 == 1 ? Duration(draw(5'000, 20'000)) : 0ms;
    problem.forward_links.push_back({.latency = latency});
    problem.backward_links.push_back({.latency = latency});
  }
  if (kind.capped) problem.caps.assign(stages, {std::nullopt, 3, std::max(4U, stages)});
  return problem;
}

// CPU seconds of repeated calls: at least five, and as many as fit into half a second.
std::vector<double> samples_of(const std::function<void()>& act) {
  act();  // what the first call alone pays for does not count
  std::vector<double> samples;
  double spent = 0;
  while (samples.size() < 5 || (spent < 0.5 && samples.size() < 500)) {
    const double begin = cpu_seconds(CLOCK_PROCESS_CPUTIME_ID);
    act();
    samples.push_back(cpu_seconds(CLOCK_PROCESS_CPUTIME_ID) - begin);
    spent += samples.back();
  }
  return samples;
}

Json planning(const char* name, Effort effort, std::uint32_t stages, std::uint32_t micro_batches) {
  Json figures = Json::array();
  for (const Kind& kind : kinds) {
    const PipelineProblem problem = problem_of(kind, stages, micro_batches);
    double gap = 0;
    const auto act = [&] {
      const auto outcome = plan_pipeline(problem, effort);
      const auto* plan = std::get_if<PlannedPipeline>(&outcome);
      if (plan == nullptr) throw std::runtime_error("a pipeline of the benchmark can't be planned");
      gap =
          static_cast<double>(plan->forecast.makespan.count()) / static_cast<double>(plan->bound.makespan.count()) - 1;
    };
    const std::vector<double> samples = samples_of(act);
    figures.push_back({{"what", name},
                       {"kind", kind.name},
                       {"stages", stages},
                       {"micro_batches", micro_batches},
                       {"gap", gap},
                       {"cpu_seconds", samples}});
  }
  return figures;
}

// The simulator under the three rules of dispatch, on the same list.
Json simulating(std::uint32_t stages, std::uint32_t micro_batches) {
  Json figures = Json::array();
  const std::size_t operators = std::size_t{3} * stages * micro_batches;
  for (const Kind& kind : {kinds[0], kinds[2]}) {
    const PipelineProblem problem = problem_of(kind, stages, micro_batches);
    const Schedule list = generate(ScheduleKind::one_f_one_b, problem, {{}, true});
    const SimulationResult replayed = replay(problem, list);
    std::vector<StagePlan> in_order = bare_plans(problem.shape), reactive = in_order;
    for (std::size_t s = 0; s < in_order.size(); ++s) {
      in_order[s].dispatch = Dispatch::in_order;
      in_order[s].order = list.operators[s];
      reactive[s].dispatch = Dispatch::reactive;
      reactive[s].caps.activations = replayed.peaks[s].activations;
    }
    const std::map<std::string, std::vector<StagePlan>> rules{
        {"static", in_order}, {"reactive", reactive}, {"follow", follow_plans(problem, list, replayed)}};
    for (const auto& [rule, plans] : rules) {
      const SimulationInput input = simulation_of(problem, plans);
      const auto act = [&] {
        if (simulate(input).timeline.size() != operators) throw std::runtime_error("operators are missing");
      };
      const std::vector<double> samples = samples_of(act);
      figures.push_back({{"what", "simulate, " + rule},
                         {"kind", kind.name},
                         {"stages", stages},
                         {"micro_batches", micro_batches},
                         {"operators", operators},
                         {"cpu_seconds", samples}});
    }
  }
  return figures;
}

// What the process grew by for one quick plan.
Json memory(std::uint32_t stages, std::uint32_t micro_batches) {
  const PipelineProblem problem = problem_of(kinds[2], stages, micro_batches);
  const std::uint64_t before = status_bytes("VmRSS");
  const auto outcome = plan_pipeline(problem, Effort::quick);
  if (std::get_if<PlannedPipeline>(&outcome) == nullptr) throw std::runtime_error("no plan");
  return {{"stages", stages},
          {"micro_batches", micro_batches},
          {"operators", std::uint64_t{3} * stages * micro_batches},
          {"bytes", status_bytes("VmHWM") - before}};
}

int print_figures(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "";
  try {
    if (what == "memory" && argc == 4) {
      const auto number = [&](int i) { return static_cast<std::uint32_t>(std::stoul(argv[i])); };
      fmt::print("{}\n", memory(number(2), number(3)).dump());
      return 0;
    }
    if (what != "speed") throw std::runtime_error("usage: plan_bench speed | plan_bench memory STAGES MICRO_BATCHES");
    Json figures = Json::array();
    const auto add = [&](const Json& more) { figures.insert(figures.end(), more.begin(), more.end()); };
    add(planning("quick plan", Effort::quick, 8, 32));
    add(planning("quick plan", Effort::quick, 16, 128));
    add(planning("quick plan", Effort::quick, 64, 512));
    add(planning("full portfolio", Effort::full, 8, 24));
    add(simulating(16, 128));
    add(simulating(64, 512));
    fmt::print("{}\n", figures.dump());
  } catch (const std::exception& problem) {
    fmt::print(stderr, "plan_bench: {}\n", problem.what());
    return 1;
  }
  return 0;
}

}  // namespace
}  // namespace stagecraft::bench

int main(int argc, char** argv) { return stagecraft::bench::print_figures(argc, argv); }
