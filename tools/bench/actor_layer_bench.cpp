// One run of a topology in the real world, for tools/bench/actor_layer and tools/bench/observe: CPU time of the
// process, and what the bodies of device work took of it, between two iterations, and how many operators ran meanwhile.
// One line of JSON. Where the folder is `-`, the run keeps neither event log nor trace.
#include <fmt/format.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>

#include "actors/event_ring.hpp"
#include "actors/runtime.hpp"
#include "tools/bench/cpu_time.hpp"
#include "tools/bench/job.hpp"

namespace stagecraft::bench {
namespace {

constexpr std::uint32_t first_measured = 3;  // buffers, caches and the text are warm by then

struct Sample {
  std::uint32_t iteration = 0;
  double process = 0;
  std::map<std::string, double> threads, waits;  // seconds and waits by name, threads of one name together
  double devices = 0;                            // seconds in bodies; a device's thread also runs actors

  static Sample take(std::uint32_t iteration, const World& world) {
    Sample s{.iteration = iteration, .process = cpu_seconds(CLOCK_PROCESS_CPUTIME_ID), .threads = {}, .waits = {}};
    for (const ThreadTime& t : threads_of_process()) {
      s.threads[t.name] += t.seconds;
      s.waits[t.name] += t.waits;
    }
    s.devices = static_cast<double>(world.computed().count()) / 1e9;
    return s;
  }
};

std::string read(const std::string& path) {
  std::ifstream file(path);
  if (!file) throw std::invalid_argument("cannot read " + path);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

double per_iteration(const RunResult& result, bool services) {
  double count = 0;
  for (const StageProfile& p : result.profile)
    count += static_cast<double>(services ? p.service.count
                                          : p.forward.count + p.backward_input.count + p.backward_weight.count +
                                                p.backward.count);
  return count / static_cast<double>(result.iterations.size());
}

// CPU seconds that the recorder's memory of one event takes: hash, and a place in a ring that is full.
double cost_of_an_event() {
  constexpr std::uint64_t events = 2'000'000;
  EventRing ring(50'000);
  Event event{.kind = EventKind::ran, .key = {{1}, {1}}};
  event.place = Place{{1}, {0}};
  event.op = Operator{OperatorKind::forward, {1}, {1}};
  std::uint64_t hash = 0;
  const double begin = cpu_seconds(CLOCK_THREAD_CPUTIME_ID);
  for (std::uint64_t n = 0; n < events; ++n) {
    event.at = Instant{static_cast<std::int64_t>(n)};
    hash = keyed(hash, hash_of(event));
    ring.push(n, event);
  }
  const double took = cpu_seconds(CLOCK_THREAD_CPUTIME_ID) - begin;
  return hash == 0 ? 0 : took / static_cast<double>(events);
}

nlohmann::json measure(const Topology& topology, const std::string& folder) {
  const auto world = make_real_world(2);
  std::optional<Sample> begin, end;
  RunOptions options;
  if (folder != "-") {
    options.log_path = folder + "/events.jsonl";
    options.trace_path = folder + "/trace.json";
  }
  options.on_iteration = [&](const IterationReport& report) {
    const std::uint32_t k = report.iteration.value;
    if (k == first_measured) begin = Sample::take(k, *world);
    if (k + 1 == topology.job.iterations) end = Sample::take(k, *world);
  };
  const RunResult result = run_job(*world, topology, options);
  if (result.ending != Ending::done || !begin || !end)
    throw std::runtime_error("the run did not end well: " + result.reason);

  const double iterations = end->iteration - begin->iteration;
  std::map<std::string, double> threads, waits;
  for (const auto& [name, seconds] : end->threads) threads[name] = (seconds - begin->threads[name]) / iterations;
  for (const auto& [name, count] : end->waits) waits[name] = (count - begin->waits[name]) / iterations;
  return {{"iterations", iterations},
          {"operators", per_iteration(result, false)},
          {"services", per_iteration(result, true)},
          {"process", (end->process - begin->process) / iterations},
          {"devices", (end->devices - begin->devices) / iterations},
          {"events", static_cast<double>(result.events) / static_cast<double>(result.iterations.size())},
          {"cost_of_an_event", cost_of_an_event()},
          {"threads", threads},
          {"waits", waits},
          {"cost_of_a_wait", cost_of_a_wait()},
          {"wall", static_cast<double>(result.elapsed.count()) * 1e-9 / static_cast<double>(result.iterations.size())}};
}

int measure_and_print(int argc, char** argv) {
  if (argc < 3) {
    std::fputs("usage: actor_layer_bench TOPOLOGY FOLDER [key=value...]\n", stderr);
    return 2;
  }
  try {
    const auto topology = load_job(argv[1], read(argv[1]), {argv + 3, argv + argc});
    if (topology.emulated() || topology.job.iterations < first_measured + 2)
      throw std::invalid_argument(
          fmt::format("{} needs cpu devices and at least {} iterations", argv[1], first_measured + 2));
    fmt::print("{}\n", measure(topology, argv[2]).dump());
  } catch (const std::exception& problem) {
    fmt::print(stderr, "actor_layer_bench: {}\n", problem.what());
    return 1;
  }
  return 0;
}

}  // namespace
}  // namespace stagecraft::bench

int main(int argc, char** argv) { return stagecraft::bench::measure_and_print(argc, argv); }
