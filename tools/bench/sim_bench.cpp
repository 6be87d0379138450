// What the virtual world costs, for tools/bench/sim: one measurement per process, one JSON object. A wide pipeline on
// emulated devices, the actors of one that wait, the recorder by itself, or a small model that is really trained.
#include <fmt/format.h>

#include <cstdio>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#include "actors/node.hpp"
#include "actors/recorder.hpp"
#include "actors/runtime.hpp"
#include "actors/world/deterministic_scheduler.hpp"
#include "tools/bench/cpu_time.hpp"
#include "tools/bench/job.hpp"
#include "tools/bench/process_memory.hpp"
#include "transport/memory_disk.hpp"

namespace stagecraft::bench {
namespace {

using Json = nlohmann::json;

struct Size {
  std::uint32_t stages = 1, replicas = 1, iterations = 1;
};

// One layer per stage; sixteen micro-batches per replica; a node for each replica.
Topology wide(const Size& size) {
  constexpr std::uint32_t micro_batches = 16;
  std::string text = fmt::format(
      "version: 1\n"
      "job: {{ name: wide, seed: 7, iterations: {} }}\n"
      "model: {{ layers: {} }}\n"
      "training: {{ micro_batches: {}, logical_shards: {} }}\n"
      "pipeline: {{ stages: {}, chunks: 1, replicas: {}, schedule: 1f1b, dispatch: reactive }}\nnodes:\n",
      size.iterations, size.stages, micro_batches * size.replicas, 4 * size.replicas, size.stages, size.replicas);
  for (std::uint32_t r = 0; r < size.replicas; ++r)
    text += fmt::format(
        "  - {{ name: n{}, listen: '127.0.0.1:{}', devices: [{{ kind: emulated, count: {}, memory: 8GiB,\n"
        "        costs: {{ forward: 10ms, backward_input: 10ms, backward_weight: 10ms }} }}] }}\n",
        r, 9000 + r, size.stages);
  return load_job("wide.yaml", text, {});
}

std::uint64_t steps_of(World& world) { return DeterministicScheduler::of(world.system()).steps(); }

void expect_done(const RunResult& result) {
  if (result.ending != Ending::done || !result.violations.empty())
    throw std::runtime_error("the run did not end well: " + result.reason);
}

// Messages and CPU time from the end of the first iteration to that of the last, and the memory after each.
Json run(const Size& size, bool logs, bool serialises) {
  const Topology topology = wide(size);
  const auto world = make_virtual_world({.serialise = serialises}, std::make_shared<MemoryDisk>());
  const double begin = cpu_seconds(CLOCK_PROCESS_CPUTIME_ID);
  double first = 0, last = 0;
  std::uint64_t first_steps = 0, last_steps = 0;
  std::vector<std::uint64_t> memory;
  RunOptions options;
  if (logs) options.log_path = "/events.jsonl";
  options.on_iteration = [&](const IterationReport& report) {
    last = cpu_seconds(CLOCK_PROCESS_CPUTIME_ID);
    last_steps = steps_of(*world);
    memory.push_back(status_bytes("VmRSS"));
    if (report.iteration.value > 1) return;
    first = last;
    first_steps = last_steps;
  };
  const RunResult result = run_job(*world, topology, options);
  expect_done(result);
  return {{"stages", size.stages},
          {"replicas", size.replicas},
          {"messages", last_steps - first_steps},
          {"cpu_seconds", last - first},
          {"start_seconds", first - begin},
          {"end_seconds", cpu_seconds(CLOCK_PROCESS_CPUTIME_ID) - last},
          {"events", result.events},
          {"memory", memory},
          {"event_hash", fmt::format("{:016x}", result.event_hash)},
          {"weights", result.weights_sha256}};
}

// What stages, reducers and link ends take once they are spawned, with the message that wires each in its mailbox.
Json idle(const Size& size) {
  const Topology topology = wide(size);
  const auto world = make_virtual_world({}, std::make_shared<MemoryDisk>());
  const auto outbox = std::make_shared<Outbox>();
  const BatchSource none = [](Iteration, MicroBatch) -> std::shared_ptr<const TokenBatch> { return nullptr; };
  const auto job = std::make_shared<Job>(Job{*world, topology, plan_job(topology), {}, none, {}, {}, {}, {}, {}});
  const std::uint64_t before = status_bytes("VmRSS");
  const NodeHandles handles = spawn_node(job, outbox);
  const std::uint64_t spawned = status_bytes("VmRSS");
  const std::vector<Watched> all = handles.cast->all();
  const std::size_t actors = all.size() + 1;
  caf::anon_send_exit(handles.node, caf::exit_reason::kill);
  for (const Watched& w : all) caf::anon_send_exit(w.actor, caf::exit_reason::kill);
  world->drive([&] { return world->system().registry().running() == 0; });
  return {{"actors", actors}, {"bytes", spawned - before}};
}

// The recorder alone: the events of `iterations` of a wide pipeline, by the dozen as stages tell them.
Json recorder(const Size& size, bool logs) {
  const Topology topology = wide(size);
  const auto world = make_virtual_world({}, std::make_shared<MemoryDisk>());
  const auto job = std::make_shared<Job>(
      Job{*world, topology, plan_job(topology), {}, {}, {}, logs ? "/events.jsonl" : "", {}, {}, {}});
  const RecorderActor ear = spawn_recorder(job, {});
  std::uint64_t events = 0;
  const double begin = cpu_seconds(CLOCK_PROCESS_CPUTIME_ID);
  for (std::uint32_t k = 1; k <= size.iterations; ++k) {
    const Key key{Epoch{1}, Iteration{k}};
    for (std::uint32_t s = 0; s < size.stages; ++s) {
      Events batch;
      for (std::uint32_t m = 0; m < topology.training.micro_batches; ++m)
        for (const OperatorKind kind :
             {OperatorKind::forward, OperatorKind::backward_input, OperatorKind::backward_weight})
          batch.events.push_back({EventKind::ran,
                                  Instant{s + m},
                                  Instant{s},
                                  Place{{s}, {}},
                                  key,
                                  Operator{kind, ChunkId{s}, MicroBatch{m}},
                                  {},
                                  {}});
      events += batch.events.size();
      tell_from_outside(ear, std::move(batch));
    }
    tell_from_outside(ear, Event{.kind = EventKind::committed, .key = key});
    while (DeterministicScheduler::of(world->system()).step()) {
    }
  }
  const double seconds = cpu_seconds(CLOCK_PROCESS_CPUTIME_ID) - begin;
  caf::anon_send_exit(ear, caf::exit_reason::kill);
  world->drive([&] { return world->system().registry().running() == 0; });
  return {{"events", events}, {"cpu_seconds", seconds}};
}

// Documents of 1 to 60 letters in which most letters hang on the one before.
std::shared_ptr<MemoryDisk> small_text() {
  std::string text;
  for (std::uint64_t d = 0; d < 600; ++d) {
    std::uint64_t letter = keyed(11, d) % 26;
    for (std::uint64_t i = 0; i <= keyed(12, d) % 60; ++i) {
      text += static_cast<char>('a' + letter);
      letter = keyed(13, d, i) % 8 == 0 ? keyed(14, d, i) % 26 : (letter * 5 + 3) % 26;
    }
    text += "\n\n";
  }
  auto disk = std::make_shared<MemoryDisk>();
  disk->make_directories("/text");
  disk->write_whole("/text/a.txt", text);
  return disk;
}

// One seed of a model as tiny as that of the tests, fifty iterations: what each of many seeds costs.
Json tiny() {
  const Topology topology = load_job(
      "tiny.yaml",
      "version: 1\n"
      "job: { name: tiny, seed: 7, iterations: 50 }\n"
      "model: { layers: 5, width: 16, heads: 2, kv_heads: 1, hidden: 24, context: 24, tied_embeddings: false }\n"
      "data: { sources: [{ files: /text/*.txt, split: \"\\n\\n\" }], micro_batch_tokens: 32 }\n"
      "training: { micro_batches: 8, logical_shards: 4, optimizer: { kind: adamw, learning_rate: 1e-2, clip: 0.05 } }\n"
      "pipeline: { stages: 4, chunks: 1, replicas: 1, schedule: 1f1b, dispatch: reactive }\n"
      "nodes: [{ name: n0, devices: [{ kind: cpu, count: 4, memory: 1GiB }] }]\n",
      {});
  const auto disk = small_text();
  const double begin = cpu_seconds(CLOCK_PROCESS_CPUTIME_ID);
  const auto world = make_virtual_world({}, disk);
  const RunResult result = run_job(*world, topology, {});
  const double seconds = cpu_seconds(CLOCK_PROCESS_CPUTIME_ID) - begin;
  expect_done(result);
  return {{"cpu_seconds", seconds}, {"iterations", result.iterations.size()}, {"weights", result.weights_sha256}};
}

Json measure(const std::vector<std::string>& words) {
  const auto is = [&](const char* what, std::size_t count) { return words.size() == count && words[0] == what; };
  const auto number = [&](std::size_t i) { return static_cast<std::uint32_t>(std::stoul(words[i])); };
  if (is("run", 6)) return run({number(1), number(2), number(3)}, words[4] == "log", words[5] == "serialise");
  if (is("idle", 3)) return idle({number(1), number(2)});
  if (is("recorder", 4)) return recorder({number(1), 1, number(2)}, words[3] == "log");
  if (is("tiny", 1)) return tiny();
  throw std::runtime_error(
      "usage: sim_bench run STAGES REPLICAS ITERATIONS log|quiet serialise|direct\n"
      "       sim_bench idle STAGES REPLICAS\n       sim_bench recorder STAGES ITERATIONS log|quiet\n       sim_bench "
      "tiny");
}

int measure_and_print(int argc, char** argv) {
  try {
    fmt::print("{}\n", measure({argv + 1, argv + argc}).dump());
  } catch (const std::exception& problem) {
    fmt::print(stderr, "sim_bench: {}\n", problem.what());
    return 1;
  }
  return 0;
}

}  // namespace
}  // namespace stagecraft::bench

int main(int argc, char** argv) { return stagecraft::bench::measure_and_print(argc, argv); }
