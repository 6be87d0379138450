// Runs for tools/bench/migrate, in turn: a job whose layers move while it runs, and the same job that is stopped with a
// checkpoint and continued from it under the other layout. One line of JSON per pair, with the event logs and when, by
// one clock, each run's own clock began.
#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "actors/runtime.hpp"
#include "tools/bench/job.hpp"

namespace stagecraft::bench {
namespace {

constexpr std::uint32_t moves_each = 3, apart = 4, first_move = 3;

double now_us() {
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

std::string text_of(const std::string& path) {
  std::ifstream file(path);
  if (!file) throw std::runtime_error("cannot read " + path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

struct Bench {
  std::string file, text, folder;
  std::vector<std::string> overrides;

  Topology topology(std::vector<std::string> more) const {
    std::vector<std::string> all = overrides;
    all.insert(all.end(), more.begin(), more.end());
    return load_job(file, text, all);
  }
  nlohmann::json run(const Topology& topology, RunOptions options, const std::string& name) const {
    options.log_path = fmt::format("{}/{}.jsonl", folder, name);
    std::remove(options.log_path.c_str());
    const double began = now_us();
    const auto world = make_real_world(2);
    const RunResult result = run_job(*world, topology, options);
    if (result.ending != Ending::done && result.ending != Ending::stopped)
      throw std::runtime_error("the run did not end well: " + result.reason);
    return {{"log", options.log_path}, {"began_us", began}, {"moves", result.moves}};
  }
  // One layer from the first stage to the second and back again.
  nlohmann::json live() const {
    const Topology plain = topology({fmt::format("job.iterations={}", first_move + moves_each * apart)});
    RunOptions options;
    for (std::uint32_t m = 0; m < moves_each; ++m) {
      Move move;
      move.at = {first_move + m * apart};
      move.layout = plain.pipeline.layout;
      if (m % 2 == 0) --move.layout[0], ++move.layout[1];
      options.moves.push_back(std::move(move));
    }
    return run(plain, options, "live");
  }
  // Stopped after the same iteration, continued under the other layout.
  nlohmann::json suspended() const {
    const std::string checkpoints = folder + "/checkpoints";
    const Topology plain = topology({"job.iterations=1000"});
    RunOptions first;
    first.checkpoint_folder = checkpoints;
    std::uint32_t done = 0;
    first.on_iteration = [&done](const IterationReport& r) { done = r.iteration.value; };
    first.stop_asked = [&done] { return done >= first_move; };
    nlohmann::json result;
    result["before"] = run(plain, first, "before");
    const auto disk = make_real_world(1);
    const CheckpointChoice newest = newest_verified(disk->disk(), checkpoints);
    if (!newest.path) throw std::runtime_error("there is no checkpoint to continue");
    Layout layout = plain.pipeline.layout;
    --layout[0], ++layout[1];
    RunOptions second;
    second.checkpoint_folder = checkpoints;
    second.resume_from = *newest.path;
    const auto info = read_manifest(disk->disk(), *newest.path);
    const std::uint32_t at = std::get<CheckpointInfo>(info).iteration;
    result["after"] = run(topology({fmt::format("job.iterations={}", at + 2), "pipeline.layout=" + to_text(layout)}),
                          second, "after");
    return result;
  }
};

int print_pairs(int argc, char** argv) {
  if (argc < 4) {
    std::fputs("usage: migrate_bench TOPOLOGY FOLDER PAIRS [key=value...]\n", stderr);
    return 2;
  }
  try {
    const Bench bench{argv[1], text_of(argv[1]), argv[2], {argv + 4, argv + argc}};
    for (int pair = std::stoi(argv[3]); pair > 0; --pair) {
      nlohmann::json line;
      line["live"] = bench.live();
      line["suspended"] = bench.suspended();
      fmt::print("{}\n", line.dump());
      std::fflush(stdout);
      if (pair > 1) std::getchar();  // until the logs have been read
    }
  } catch (const std::exception& problem) {
    fmt::print(stderr, "migrate_bench: {}\n", problem.what());
    return 1;
  }
  return 0;
}

}  // namespace
}  // namespace stagecraft::bench

int main(int argc, char** argv) { return stagecraft::bench::print_pairs(argc, argv); }
