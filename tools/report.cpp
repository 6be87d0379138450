#include "tools/report.hpp"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "model/checkpoint/checkpoint_folder.hpp"
#include "tools/output.hpp"
#include "tools/resume.hpp"
#include "tools/table.hpp"

namespace stagecraft::tools {

namespace {

std::string count_text(double n) {
  if (n >= 1e9) return fmt::format("{:.2f} billion", n / 1e9);
  if (n >= 1e6) return fmt::format("{:.2f} million", n / 1e6);
  return fmt::format("{:.0f}", n);
}

std::string milliseconds(Duration d) { return fmt::format("{:.2f}", static_cast<double>(d.count()) / 1e6); }

std::string place_text(const Topology& topology, Place p) {
  if (topology.pipeline.replicas == 1) return fmt::format("stage {}", p.stage.value);
  return fmt::format("stage {}, replica {}", p.stage.value, p.replica.value);
}

std::string percent(double part, double whole) { return whole > 0 ? fmt::format("{:.0f} %", 100 * part / whole) : "-"; }

// Operators, times, and memory of every stage.
std::string stage_table(const Topology& topology, const RunResult& result) {
  Table table({"", "F ms", "B ms", "W ms", "B+W ms", "busy", "peak memory", "planned", "peak/plan"});
  Duration total{};
  for (const IterationReport& r : result.iterations) total += r.time;
  std::map<Place, MemoryUse> memory;
  for (const MemoryUse& m : result.memory) memory[m.place] = m;
  const auto cell = [](const StageProfile::Row& row) { return row.count > 0 ? milliseconds(row.median) : "-"; };
  for (const StageProfile& p : result.profile) {
    const MemoryUse& m = memory[p.place];
    table.add({place_text(topology, p.place), cell(p.forward), cell(p.backward_input), cell(p.backward_weight),
               cell(p.backward), percent(static_cast<double>(p.busy().count()), static_cast<double>(total.count())),
               format(m.peak), format(m.planned),
               percent(static_cast<double>(m.peak.value), static_cast<double>(m.planned.value))});
  }
  return table.text();
}

// What became of the state on the disk.
std::string checkpoint_lines(const Topology& topology, const RunResult& result) {
  std::string out;
  if (!result.resumed_from.empty())
    out += fmt::format("continued '{}' after iteration {}\n", result.resumed_from, result.start_iteration);
  if (!result.set_aside.empty())
    out += fmt::format("checkpoints of another history are now in '{}'\n", result.set_aside);
  if (result.saved_iteration > 0)
    out += fmt::format("the state after iteration {} is in '{}'; continue it with --resume\n", result.saved_iteration,
                       checkpoint_folder(topology) + "/" + StepFolder{result.saved_iteration}.name());
  if (!result.checkpoint_error.empty()) out += "THE LAST CHECKPOINT IS NOT WRITTEN: " + result.checkpoint_error + "\n";
  return out;
}

}  // namespace

std::string describe_job(const Topology& topology, const JobPlan& plan) {
  const PipelineSpec& p = topology.pipeline;
  std::string out = fmt::format(
      "job {}: {} layers over {} stages x {} chunks x {} replicas, {} with {} dispatch, {} micro-batches in {} logical "
      "shards\n",
      topology.job.name, topology.model.layers, p.stages, p.chunks, p.replicas, name_of(p.schedule),
      name_of(p.dispatch), topology.training.micro_batches, topology.training.logical_shards);
  if (topology.emulated()) return out + "devices: emulated; nothing is computed, losses and weights are digests\n";
  return out + fmt::format("model: {} parameters, width {}, {} heads, context {}; up to {} tokens per iteration\n",
                           count_text(static_cast<double>(plan.parameters)), topology.model.width, topology.model.heads,
                           topology.model.context, topology.data->micro_batch_tokens * topology.training.micro_batches);
}

std::string stage_map(const Topology& topology, const JobPlan& plan) {
  Table table({"", "device", "layers", "warm-up", "cap F-W", "credits", "parameters", "moments", "snapshot", "working",
               "total", "of"});
  const auto cap = [](const std::optional<std::uint32_t>& c) { return c ? std::to_string(*c) : std::string("-"); };
  for (std::uint32_t r = 0; r < topology.pipeline.replicas; ++r)
    for (std::uint32_t s = 0; s < topology.pipeline.stages; ++s) {
      const Place p{{s}, {r}};
      std::vector<std::string> layers;
      for (const std::uint32_t count : topology.pipeline.layers_of(p.stage)) layers.push_back(std::to_string(count));
      const PipelineShape shape = topology.pipeline.shape();
      if (s == 0) layers.front() = "embedding+" + layers.front();
      if (p.stage == shape.stage_of({shape.total_chunks() - 1})) layers.back() += "+head";
      const Topology::Seat seat = topology.seat(p);
      const StagePlan& stage = plan.replicas[r].stages[s];
      const MemoryEstimate& m = plan.memory[r][s];
      const Bytes limit = topology.device(p).memory;
      table.add({place_text(topology, p),
                 fmt::format("{}/{}{}", topology.nodes[seat.node].name, topology.emulated() ? "emulated" : "cpu",
                             seat.device),
                 fmt::format("{}", fmt::join(layers, " | ")), std::to_string(plan.replicas[r].warmup[s]),
                 cap(stage.caps.held), std::to_string(plan.replicas[r].credits), format(m.parameters),
                 format(m.moments), m.snapshot.value > 0 ? format(m.snapshot) : "-", format(m.working),
                 format(m.total()), limit.value > 0 ? format(limit) : "-"});
    }
  return table.text();
}

Duration median_time(const RunResult& result, Duration IterationReport::*time) {
  std::vector<Duration> times;
  for (std::size_t i = result.iterations.size() > 1 ? 1 : 0; i < result.iterations.size(); ++i)
    times.push_back(result.iterations[i].*time);
  if (times.empty()) return {};
  const auto middle = times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2);
  std::nth_element(times.begin(), middle, times.end());
  return *middle;
}

double tokens_per_second(const RunResult& result) {
  double tokens = 0, seconds = 0;
  for (const IterationReport& r : result.iterations) {
    tokens += static_cast<double>(r.tokens);
    seconds += static_cast<double>(r.time.count()) / 1e9;
  }
  return seconds > 0 ? tokens / seconds : 0;
}

std::string summary(const Topology& topology, const RunResult& result, std::size_t width) {
  std::string out = "\n" + result.reason + "\n" + checkpoint_lines(topology, result);
  for (const std::string& v : result.violations) out += "BROKEN INVARIANT: " + v + "\n";
  if (result.iterations.empty()) return out;
  const IterationReport &first = result.iterations.front(), &last = result.iterations.back();
  std::uint64_t skipped = 0;
  for (const IterationReport& r : result.iterations) skipped += r.skipped;
  if (topology.emulated()) {
    out += "\n  loss per token    none: emulated devices carry digests\n";
  } else {
    out += fmt::format("\n  loss per token    {:.4f} in iteration {}, {:.4f} in iteration {} (divided by {} tokens)\n",
                       first.loss, first.iteration.value, last.loss, last.iteration.value, last.tokens);
  }
  if (skipped > 0) out += fmt::format("  skipped steps     {} (the gradient was not finite)\n", skipped);
  out += fmt::format("  iteration         {} median", format(median_time(result, &IterationReport::time)));
  const Duration wall = median_time(result, &IterationReport::wall);
  if (topology.emulated() && wall != median_time(result, &IterationReport::time))
    out += fmt::format(" ({} by the clock, with the timers' lateness)", format(wall));
  if (!topology.emulated()) out += fmt::format("\n  rate              {:.0f} tokens/s", tokens_per_second(result));
  out += fmt::format("\n  weights           sha256 {}\n  moments           sha256 {}\n\n", result.weights_sha256,
                     result.moments_sha256);
  out += stage_table(topology, result);
  for (const MemoryUse& m : result.memory)
    if (m.overdrafts > 0)
      out += fmt::format("  {} went over its device's {} {} times\n", place_text(topology, m.place), format(m.limit),
                         m.overdrafts);
  if (!result.last_iteration.empty()) out += "\nthe last iteration:\n" + draw_timeline(result.last_iteration, width);
  if (!result.trace.empty())
    out += fmt::format("\n  trace      {}   (open it in https://ui.perfetto.dev)\n", result.trace);
  if (!result.log.empty()) out += fmt::format("  event log  {}\n", result.log);
  if (!result.log_error.empty()) out += "  log and trace are not complete: " + result.log_error + "\n";
  return out;
}

std::string to_json(const Topology& topology, const RunResult& result, std::uint64_t seed) {
  static constexpr std::string_view endings[] = {"done", "stopped", "no_progress", "fault", "bug"};
  nlohmann::ordered_json j;
  j["job"] = topology.job.name;
  j["seed"] = seed;
  j["job_seed"] = topology.job.seed;
  j["ending"] = endings[static_cast<std::size_t>(result.ending)];
  j["reason"] = result.reason;
  j["resumed_from"] = result.resumed_from;
  j["start_iteration"] = result.start_iteration;
  j["passed_over"] = nlohmann::ordered_json::array();
  for (const PassedOver& p : result.passed_over) j["passed_over"].push_back({{"path", p.path}, {"why", p.why}});
  j["set_aside"] = result.set_aside;
  j["saved_iteration"] = result.saved_iteration;
  j["checkpoint_error"] = result.checkpoint_error;
  j["iterations"] = result.iterations.size();
  j["first_loss"] =
      result.iterations.empty() ? nlohmann::ordered_json() : nlohmann::ordered_json(result.iterations.front().loss);
  j["last_loss"] =
      result.iterations.empty() ? nlohmann::ordered_json() : nlohmann::ordered_json(result.iterations.back().loss);
  for (const char* list : {"losses", "losses_hex", "gradient_norms", "clips", "learning_rates", "skipped", "tokens",
                           "iteration_ms", "iteration_wall_ms"})
    j[list] = nlohmann::ordered_json::array();
  for (const IterationReport& r : result.iterations) {
    j["losses"].push_back(r.loss);
    j["losses_hex"].push_back(fmt::format("{:a}", r.loss));
    j["gradient_norms"].push_back(r.gradient_norm);
    j["clips"].push_back(r.clip);
    j["learning_rates"].push_back(r.learning_rate);
    j["skipped"].push_back(r.skipped);
    j["tokens"].push_back(r.tokens);
    j["iteration_ms"].push_back(static_cast<double>(r.time.count()) / 1e6);
    j["iteration_wall_ms"].push_back(static_cast<double>(r.wall.count()) / 1e6);
  }
  j["weights_sha256"] = result.weights_sha256;
  j["moments_sha256"] = result.moments_sha256;
  j["tokens_per_second"] = tokens_per_second(result);
  j["peak_bytes"] = nlohmann::ordered_json::array();
  j["planned_bytes"] = nlohmann::ordered_json::array();
  j["overdrafts"] = nlohmann::ordered_json::array();
  for (const MemoryUse& m : result.memory) {
    j["peak_bytes"].push_back(m.peak.value);
    j["planned_bytes"].push_back(m.planned.value);
    j["overdrafts"].push_back(m.overdrafts);
  }
  j["corpus_sha256"] = result.corpus_sha256;
  j["lost"] = result.losses;
  j["begun_again"] = result.begun_again;
  j["events"] = result.events;
  j["event_hash"] = fmt::format("{:016x}", result.event_hash);
  j["violations"] = result.violations;
  j["trace"] = result.trace;
  j["log"] = result.log;
  return j.dump();
}

int exit_code(const RunResult& result) {
  switch (result.ending) {
    case Ending::done:
    case Ending::stopped:
      if (!result.violations.empty()) return bug;
      if (!result.checkpoint_error.empty()) return fault;
      if (result.ending == Ending::done) return done;
      return result.saved_iteration > 0 || !result.resumed_from.empty() ? stopped : left_at_once;
    case Ending::fault:
      return fault;
    case Ending::no_progress:
      return no_progress;
    case Ending::bug:
      return bug;
  }
  return bug;
}

std::size_t terminal_width() {
  winsize size = {};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 40) return std::min<std::size_t>(size.ws_col, 200);
  return 110;
}

int report_run(Disk& disk, const Topology& topology, const RunResult& result, const std::string& record, bool json) {
  const std::string object = to_json(topology, result, topology.job.seed);
  if (const DiskStatus error = disk.write_whole(record, object + "\n"))
    complain("the record of the run is not kept: {}\n", error->text());
  if (json) {
    say("{}\n", object);
  } else {
    say("{}", summary(topology, result, terminal_width()));
  }
  return result.log_error.empty() ? exit_code(result) : std::max<int>(fault, exit_code(result));
}

}  // namespace stagecraft::tools
