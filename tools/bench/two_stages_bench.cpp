// Pairs of training iterations, one of a single stage and one of two stages, for tools/bench/two_stages. Every job is
// run afresh, device threads pinned to a core each; its last iteration counts. One line of JSON per pair.
#include <fmt/format.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "actors/runtime.hpp"
#include "model/job_plan.hpp"
#include "planning/random.hpp"
#include "tools/bench/cpu_time.hpp"
#include "tools/bench/job.hpp"

namespace stagecraft::bench {
namespace {

// Pieces of one document that all fill a micro-batch, so that every operator of a kind has the same work.
constexpr std::uint32_t context = 256, pieces = 64;

constexpr const char* job_text = R"(version: 1
job: {{ name: two-stages-bench, seed: 7, iterations: 3 }}
model: {{ layers: 8, width: 256, heads: 8, context: {0}, vocabulary: bytes, tied_embeddings: false }}
data: {{ sources: [{{ files: {1} }}], micro_batch_tokens: {0} }}
training:
  micro_batches: 8
  optimizer: {{ kind: adamw, learning_rate: 3e-4, weight_decay: 0.1, clip: 1.0 }}
pipeline: {{ stages: {2}, schedule: 1f1b, dispatch: reactive }}
nodes: [{{ name: n0, listen: "127.0.0.1:0", devices: [{{ kind: cpu, count: {2}, memory: 8GiB }}] }}]
)";

void write_text(const std::string& path) {
  std::ofstream file(path);
  // n bytes are n + 1 targets: no piece is left over.
  for (std::uint64_t i = 0; i + 1 < std::uint64_t{context} * pieces; ++i)
    file.put(static_cast<char>('a' + bounded(keyed(1, i), 26)));
  if (!file.flush()) throw std::runtime_error("cannot write " + path);
}

double seconds(Duration d) { return static_cast<double>(d.count()) * 1e-9; }

/// Mean times of the operators of each stage in the run's last iteration.
std::vector<OperatorTimes> measured_times(const RunResult& result, std::size_t stages) {
  std::vector<OperatorTimes> times(stages);
  for (std::size_t s = 0; s < stages; ++s)
    for (const auto& [kind, time] : {std::pair{OperatorKind::forward, &OperatorTimes::forward},
                                     {OperatorKind::backward_input, &OperatorTimes::backward_input},
                                     {OperatorKind::backward_weight, &OperatorTimes::backward_weight}}) {
      Duration total{};
      std::int64_t count = 0;
      for (const TimedOperator& t : result.last_iteration)
        if (!t.overhead && t.place.stage.value == s && t.op.kind == kind) total += t.end - t.start, ++count;
      if (count == 0)
        throw std::runtime_error(fmt::format("stage {} shows no operator of kind {}", s, static_cast<int>(kind)));
      times[s].*time = total / count;
    }
  return times;
}

/// What the schedule allows with these operator times: the simulator that also plans.
Duration forecast(const Topology& topology, std::vector<OperatorTimes> times) {
  const PipelinePlan plan = plan_job(topology).replicas.front();
  SimulationInput input;
  input.shape = {topology.pipeline.stages, topology.pipeline.chunks, MicroBatch{0}, topology.training.micro_batches};
  input.plans = plan.stages;
  input.times = std::move(times);
  input.credits = plan.credits;
  const SimulationResult result = simulate(input);
  if (result.hung) throw std::runtime_error("the simulated iteration hangs");
  return result.makespan;
}

/// Step, reduce and norm on the first stage: it starts the iteration and ends it, so no schedule hides them.
Duration services_of_first_stage(const RunResult& result) {
  Duration total{};
  for (const TimedOperator& t : result.last_iteration)
    if (t.overhead && t.place.stage.value == 0) total += t.end - t.start;
  return total;
}

void pin_devices(const std::vector<int>& cores) {
  std::size_t next = 0;
  for (const ThreadTime& t : threads_of_process())
    if (t.is_device()) pin(t.id, {cores[next++ % cores.size()]});
}

nlohmann::json run(const std::string& text_file, std::uint32_t stages, const std::vector<int>& cores,
                   const std::vector<std::string>& overrides) {
  const Topology topology =
      load_job("two_stages_bench", fmt::format(fmt::runtime(job_text), context, text_file, stages), overrides);
  const std::set<int> both(cores.begin(), cores.end());
  double busy = 0, own = 0;
  std::chrono::steady_clock::time_point start;
  RunOptions options;
  options.on_iteration = [&](const IterationReport& report) {
    if (report.iteration.value != 1) return;
    pin_devices(cores);
    busy = busy_seconds(both), own = cpu_seconds(CLOCK_PROCESS_CPUTIME_ID), start = std::chrono::steady_clock::now();
  };
  const auto world = make_real_world(2);
  const RunResult result = run_job(*world, topology, options);
  if (result.ending != Ending::done) throw std::runtime_error("the run did not end well: " + result.reason);
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
  const double others = std::max(0.0, busy_seconds(both) - busy - (cpu_seconds(CLOCK_PROCESS_CPUTIME_ID) - own));
  const auto times = measured_times(result, stages);
  nlohmann::json operators = nlohmann::json::array();
  for (const OperatorTimes& t : times)
    operators.push_back({seconds(t.forward), seconds(t.backward_input), seconds(t.backward_weight)});
  return {{"measured", seconds(result.iterations.back().time)},
          {"forecast", seconds(forecast(topology, times))},
          {"services", seconds(services_of_first_stage(result))},
          {"operators", operators},
          {"others", others / (elapsed.count() * static_cast<double>(both.size()))}};
}

int print_pairs(int argc, char** argv) {
  if (argc < 5) {
    std::fputs("usage: two_stages_bench FOLDER PAIRS CORE CORE [key=value...]\n", stderr);
    return 2;
  }
  try {
    const std::string text_file = std::string(argv[1]) + "/text";
    const std::vector<int> cores{std::stoi(argv[3]), std::stoi(argv[4])};
    const std::vector<std::string> overrides(argv + 5, argv + argc);
    if (!pin(0, {cores.begin(), cores.end()})) throw std::runtime_error("cannot confine itself to these cores");
    write_text(text_file);
    for (int pair = std::stoi(argv[2]); pair > 0; --pair) {
      nlohmann::json line;
      line["one"] = run(text_file, 1, cores, overrides);
      line["two"] = run(text_file, 2, cores, overrides);
      fmt::print("{}\n", line.dump());
      std::fflush(stdout);
    }
  } catch (const std::exception& problem) {
    fmt::print(stderr, "two_stages_bench: {}\n", problem.what());
    return 1;
  }
  return 0;
}

}  // namespace
}  // namespace stagecraft::bench

int main(int argc, char** argv) { return stagecraft::bench::print_pairs(argc, argv); }
