#include "tools/plan_input.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "model/job_plan.hpp"
#include "model/memory_check.hpp"
#include "tools/open_topology.hpp"
#include "tools/output.hpp"

namespace stagecraft::tools {

// What options say instead of the file, and for messages the option behind each override.
struct PlanInputs::Overrides {
  FileOptions file;
  std::map<std::string, std::string> typed;  // the source of a diagnostic -> what a person typed

  void set(const std::string& key, const std::string& value, const std::string& option) {
    file.set.push_back(key + "=" + value);
    typed["--set " + file.set.back()] = option;
  }
};

namespace {

constexpr double longest_iteration = 1e8;  // seconds; the planner's sums in nanoseconds hold ten times as much

// Sets the latency of every boundary between two stages, both ways. False when there is none.
bool apply(const LinkLatency& link, PlanRequest& request) {
  const PipelineShape& shape = request.shape;
  bool found = false;
  for (std::uint32_t b = 0; b + 1 < shape.total_chunks(); ++b) {
    const StageId from = shape.stage_of({b}), to = shape.stage_of({b + 1});
    if (from == to || std::minmax(from, to) != std::minmax(link.one, link.other)) continue;
    found = true;
    for (auto* links : {&request.forward_links, &request.backward_links}) {
      if (links->empty()) links->resize(shape.total_chunks() - 1);
      (*links)[b].latency = link.latency;
    }
  }
  return found;
}

void apply(const std::vector<LinkLatency>& links, std::string_view option, PlanRequest& request,
           PlanProblems& problems) {
  const std::uint32_t stages = request.shape.stages;
  for (const LinkLatency& link : links)
    if (!apply(link, request))
      problems.lines.push_back(fmt::format(
          "{} {}-{}: no link joins these stages; {}", option, link.one.value, link.other.value,
          stages == 1 ? "there is one stage and no link: leave it out"
                      : fmt::format("there are stages 0 to {}: name two that follow each other", stages - 1)));
}

// Seconds of all operators and messages of a replica's iteration, one after the other.
double all_work(const Topology& topology, const PlanOptions& options) {
  const PipelineSpec& pipeline = topology.pipeline;
  const PipelineShape shape = pipeline.shape();
  const auto seconds = [](Duration d) { return static_cast<double>(d.count()) / 1e9; };
  const std::uint64_t tokens = topology.data ? topology.data->micro_batch_tokens : 0;
  double work = 0;
  for (std::uint32_t c = 0; c < shape.total_chunks(); ++c) {
    const StageId stage = shape.stage_of({c});
    const CostTable& costs = topology.device({stage, {0}}).costs;
    const auto message = static_cast<double>(std::max(costs.boundary.value, tokens * topology.model.width * 4));
    const double times = costs.per_layer ? pipeline.layout[c] : 1;
    work += times * (seconds(costs.forward) + seconds(costs.backward_input) + seconds(costs.backward_weight));
    if (c + 1 == shape.total_chunks() || shape.is_inside(c)) continue;
    for (const Direction direction : {Direction::forward, Direction::backward}) {
      const LinkCost link = link_cost(topology, stage, shape.stage_of({c + 1}), direction);
      work += seconds(link.latency) + seconds(link.occupancy);
      if (link.bandwidth.bytes_per_second > 0) work += message / link.bandwidth.bytes_per_second;
    }
  }
  for (const auto* links : {&options.delays, &options.assumed})
    for (const LinkLatency& link : *links) work += 2 * pipeline.chunks * seconds(link.latency);
  const std::uint32_t micro_batches = (topology.training.micro_batches + pipeline.replicas - 1) / pipeline.replicas;
  return work * micro_batches;
}

}  // namespace

std::variant<Topology, PlanProblems> PlanInputs::load(const Overrides& overrides) {
  auto loaded = read_topology(overrides.file);
  if (!loaded) return PlanProblems{};  // it has been said why
  PlanProblems problems;
  for (Diagnostic& d : loaded->diagnostics) {
    const auto typed = overrides.typed.find(d.source);
    if (typed != overrides.typed.end()) d.source = typed->second;
    const std::string text = to_text(d);
    if (d.severity == Severity::error) {
      problems.lines.push_back(text);
    } else if (said_.insert(text).second) {
      complain("{}\n", text);
    }
  }
  if (!loaded->topology) return problems;
  return std::move(*loaded->topology);
}

std::variant<PlanInput, PlanProblems> PlanInputs::read(const ScheduleChoice& choice) {
  Overrides overrides{options_.file, {}};
  const bool is_main = choice.option != "--compare";
  if (!options_.dispatch.empty())
    overrides.set("pipeline.dispatch", options_.dispatch, "--dispatch " + options_.dispatch);
  if (!choice.name.empty()) {
    const std::string option = choice.option + " " + choice.name;
    overrides.set("pipeline.schedule", choice.name, option);
    // A schedule that is defined for another number of chunks gets that number.
    const auto kind = parse_schedule_kind(choice.name);
    const std::optional<std::uint32_t> chunks = kind ? chunks_needed(*kind) : std::nullopt;
    if (chunks) overrides.set("pipeline.chunks", std::to_string(*chunks), option);
    // Warm-ups of the file are those of its own schedule.
    if (!is_main || options_.warmup.empty()) overrides.set("pipeline.warmup", "auto", option);
  }
  if (is_main && !options_.warmup.empty())
    overrides.set("pipeline.warmup", "[" + options_.warmup + "]", "--warmup " + options_.warmup);

  auto loaded = load(overrides);
  if (auto* problems = std::get_if<PlanProblems>(&loaded)) return std::move(*problems);
  Topology& topology = std::get<Topology>(loaded);
  if (const double work = all_work(topology, options_); work > longest_iteration)
    return PlanProblems{{fmt::format(
        "{}: the operators and messages of one iteration take {:.3g} s in all, the most that is planned is "
        "{:.0e} s: take fewer micro-batches, or shorter operators, latencies and transfers",
        options_.file.file, work, longest_iteration)}};
  const JobPlan job = plan_job(topology);
  PlanInput input{std::move(topology), job.requests.front(), {}, {}};
  PlanProblems problems;
  apply(options_.delays, "--delay", input.assumed, problems);
  input.real = input.assumed;
  apply(options_.assumed, "--assume", input.assumed, problems);
  if (!problems.lines.empty()) return problems;
  input.notes = memory_shortages(input.topology, job);
  return input;
}

}  // namespace stagecraft::tools
