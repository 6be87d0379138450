#include <fmt/format.h>

#include <algorithm>

#include "model/job_plan.hpp"
#include "planning/chrome_trace.hpp"
#include "planning/draw_svg.hpp"
#include "tools/commands.hpp"
#include "tools/open_topology.hpp"
#include "tools/output.hpp"
#include "tools/plan_report.hpp"
#include "tools/report.hpp"
#include "transport/real_disk.hpp"

namespace stagecraft::tools {

namespace {

// The file with what the options say instead of it. A schedule that runs another number of chunks gets that number.
std::optional<Topology> open(const PlanOptions& options, const std::string& schedule) {
  FileOptions file = options.file;
  const auto set = [&](const std::string& key, const std::string& value) { file.set.push_back(key + "=" + value); };
  if (!options.dispatch.empty()) set("pipeline.dispatch", options.dispatch);
  // Warm-ups of the file are those of its own schedule.
  if (!options.warmup.empty() || !schedule.empty())
    set("pipeline.warmup", options.warmup.empty() ? "auto" : "[" + options.warmup + "]");
  if (schedule.empty()) return open_topology(file);
  set("pipeline.schedule", schedule);
  const auto kind = parse_schedule_kind(schedule);
  const std::optional<std::uint32_t> chunks = kind ? chunks_needed(*kind) : std::nullopt;
  if (chunks) set("pipeline.chunks", std::to_string(*chunks));
  return open_topology(file);
}

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

bool apply(const std::vector<LinkLatency>& links, std::string_view option, PlanRequest& request) {
  for (const LinkLatency& link : links) {
    if (apply(link, request)) continue;
    complain("{} {}-{}: no link joins these stages; there are stages 0 to {}, name two that follow each other\n",
             option, link.one.value, link.other.value, request.shape.stages - 1);
    return false;
  }
  return true;
}

// A schedule's list, split into B and W, on one chunk per stage: what the exact search is for.
std::optional<ExactResult> search(const PlanRequest& request) {
  if (request.shape.chunks > 1 || request.shape.micro_batches == 0) {
    complain("--exact searches pipelines of one chunk per stage, this one has {}: leave it out\n",
             request.shape.chunks);
    return std::nullopt;
  }
  auto outcome = exact_search(problem_of(request));
  if (const auto* impossible = std::get_if<ImpossibleCap>(&outcome)) {
    complain("{}\n", to_text(*impossible));
    return std::nullopt;
  }
  return std::get<ExactResult>(std::move(outcome));
}

std::optional<PlanView> view_of(const PlanOptions& options, const std::string& schedule, bool exact) {
  const auto topology = open(options, schedule);
  if (!topology) return std::nullopt;
  const JobPlan job = plan_job(*topology);
  PlanRequest real = job.requests.front();
  if (!apply(options.delays, "--delay", real)) return std::nullopt;
  PlanRequest assumed = real;
  if (!apply(options.assumed, "--assume", assumed)) return std::nullopt;
  PlanView view;
  if (exact) {
    view.exact = search(assumed);
    if (!view.exact) return std::nullopt;
    assumed.list = view.exact->schedule;
  }
  view.name = exact ? "exact" : std::string(name_of(topology->pipeline.schedule));
  view.dispatch = topology->pipeline.dispatch;
  view.shape = real.shape;
  view.priced = price(assumed, real);
  view.differs = assumed.forward_links != real.forward_links || assumed.backward_links != real.backward_links;
  return view;
}

bool write(const std::string& file, const std::string& text) {
  RealDisk disk;
  const DiskStatus error = disk.write_whole(file, text);
  if (error) complain("{}\n", error->text());
  return !error;
}

}  // namespace

int plan_command(const PlanOptions& options) {
  const auto view = view_of(options, options.schedule, options.exact);
  if (!view) return bad_input;
  std::vector<PlanView> compared;
  for (const std::string& name : options.compare) {
    auto other = view_of(options, name, false);
    if (!other) return bad_input;
    compared.push_back(std::move(*other));
  }
  const SimulationResult& result = view->priced.result;
  const std::string title = fmt::format("{}: {}, {} dispatch, {}", options.file.file, view->name,
                                        name_of(view->dispatch), format(result.makespan));
  if (!options.svg.empty() && !write(options.svg, draw_svg(result.timeline, {title}))) return bad_input;
  if (!options.trace.empty() && !write(options.trace, to_chrome_trace(view->shape, result))) return bad_input;
  if (options.file.json) {
    say("{}\n", plan_json(*view, compared));
  } else {
    say("{}", plan_text(*view, terminal_width()));
    if (!compared.empty()) say("{}", comparison_text(compared));
  }
  return done;
}

}  // namespace stagecraft::tools
