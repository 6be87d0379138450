#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <sstream>

#include "planning/chrome_trace.hpp"
#include "planning/draw_svg.hpp"
#include "planning/planner.hpp"
#include "planning/replay.hpp"
#include "planning/validate.hpp"
#include "tools/commands.hpp"
#include "tools/output.hpp"
#include "tools/plan_input.hpp"
#include "tools/plan_report.hpp"
#include "tools/report.hpp"
#include "transport/real_disk.hpp"

namespace stagecraft::tools {

namespace {

using Outcome = std::variant<PlanView, PlanProblems>;

// The search keeps its time: what it looks at shrinks with the number of operators in a schedule.
constexpr std::uint64_t most_operators = 100'000, quick_operators = 6'000;

std::variant<ExactResult, PlanProblems> search(const PlanRequest& request) {
  const PipelineShape& shape = request.shape;
  const std::uint64_t operators = std::uint64_t{3} * shape.stages * shape.micro_batches;
  if (shape.chunks > 1)
    return PlanProblems{
        {fmt::format("--exact searches pipelines of one chunk per stage, this one has {}: leave --exact "
                     "out, or take another --schedule or --set pipeline.chunks=1",
                     shape.chunks)}};
  if (operators > most_operators)
    return PlanProblems{
        {fmt::format("--exact searches schedules of at most {} operators, this one has {}: leave --exact "
                     "out (--schedule planned), or take fewer micro-batches or stages",
                     most_operators, operators)}};
  const PipelineProblem problem = problem_of(request);
  auto outcome = plan_pipeline(problem, Effort::full);
  if (const auto* impossible = std::get_if<ImpossibleCap>(&outcome))
    return PlanProblems{{"--exact: " + to_text(*impossible)}};
  PlannedPipeline& planned = std::get<PlannedPipeline>(outcome);
  const Duration makespan = planned.forecast.makespan;
  if (makespan == planned.bound.makespan) return ExactResult{std::move(planned.schedule), makespan, makespan, true, 0};
  ExactOptions options;
  const std::uint64_t share = std::max<std::uint64_t>(1, operators / quick_operators);
  options.nodes /= share;
  options.beam_width = static_cast<std::uint32_t>(std::max<std::uint64_t>(1, options.beam_width / share));
  options.incumbent = std::move(planned.schedule);
  return std::get<ExactResult>(exact_search(problem, options));
}

// The optimum is a list. Stages run it in order, unless they were asked to do something else with it.
PlanProblems use_exact(const PlanOptions& options, PlanInput& input, PlanView& view) {
  auto found = search(input.assumed);
  if (auto* problems = std::get_if<PlanProblems>(&found)) return std::move(*problems);
  view.exact = std::get<ExactResult>(std::move(found));
  if (options.dispatch.empty() && input.assumed.dispatch == Dispatch::reactive)
    input.assumed.dispatch = Dispatch::in_order;
  input.assumed.list = view.exact->schedule;
  input.assumed.schedule = ScheduleKind::planned;  // its warm-ups are those of the list
  input.assumed.warmup.clear();
  return {};
}

// A list from a file, or what is wrong with it.
std::variant<Schedule, PlanProblems> read_list(const PlanOptions& options, const PlanRequest& request) {
  RealDisk disk;
  const auto text = disk.read(options.list);
  if (!text) return PlanProblems{{text.error().text()}};
  const auto schedule = parse_schedule(text.value());
  if (!schedule) {
    std::istringstream lines(text.value());
    std::string line, word;
    for (std::size_t number = 1; std::getline(lines, line); ++number)
      for (std::istringstream words(line); words >> word;)
        if (!parse_operator(word))
          return PlanProblems{
              {fmt::format("{}:{}: expected an operator, chunk, kind and micro-batch such as 2F0, 2B0, "
                           "2W0 or 2X0, got '{}'",
                           options.list, number, word)}};
  }
  PlanProblems problems;
  const PipelineProblem problem = problem_of(request);
  bool blocked = false;
  for (const ScheduleFault& fault : validate(problem, *schedule, request.credits)) {
    problems.lines.push_back(fmt::format("{}: {}", options.list, fault.text));
    blocked |= fault.kind == ScheduleFault::Kind::blocked;
  }
  if (blocked) problems.lines.push_back(draw_blocked(problem, *schedule, replay(problem, *schedule)));
  if (!problems.lines.empty()) return problems;
  return *schedule;
}

// Stages run it in order, unless they were asked to do something else with it.
PlanProblems use_list(const PlanOptions& options, PlanInput& input) {
  auto list = read_list(options, input.assumed);
  if (auto* problems = std::get_if<PlanProblems>(&list)) return std::move(*problems);
  if (options.dispatch.empty() && input.assumed.dispatch == Dispatch::reactive)
    input.assumed.dispatch = Dispatch::in_order;
  input.assumed.list = std::get<Schedule>(std::move(list));
  input.assumed.warmup.clear();
  return {};
}

enum class Source : std::uint8_t { schedule, exact, list };

Outcome view_of(const PlanOptions& options, PlanInputs& inputs, const ScheduleChoice& choice, Source source) {
  const bool exact = source == Source::exact;
  auto read = inputs.read(choice);
  if (auto* problems = std::get_if<PlanProblems>(&read)) return std::move(*problems);
  PlanInput& input = std::get<PlanInput>(read);
  PlanView view;
  view.name = exact ? "exact" : std::string(name_of(input.topology.pipeline.schedule));
  view.replicas = input.topology.pipeline.replicas;
  if (exact) {
    PlanProblems problems = use_exact(options, input, view);
    if (!problems.lines.empty()) return problems;
  }
  if (source == Source::list) {
    PlanProblems problems = use_list(options, input);
    if (!problems.lines.empty()) return problems;
    view.name = options.list;
  }
  view.dispatch = input.assumed.dispatch;
  view.shape = input.real.shape;
  view.differs = input.assumed.forward_links != input.real.forward_links ||
                 input.assumed.backward_links != input.real.backward_links;
  view.priced = price(input.assumed, input.real);
  std::vector<std::string>& notes = view.priced.plan.notes;
  if (view.dispatch == Dispatch::reactive && (exact || input.assumed.schedule == ScheduleKind::planned))
    notes.emplace_back(
        "reactive stages run no list: of the planned one they keep what it holds, as caps; "
        "--dispatch follow or static runs the list");
  if (!exact) notes.insert(notes.end(), input.notes.begin(), input.notes.end());
  return view;
}

bool is_same_file(const std::string& one, const std::string& other) {
  namespace fs = std::filesystem;
  std::error_code error;
  if (fs::equivalent(one, other, error) && !error) return true;
  const fs::path here = fs::weakly_canonical(fs::absolute(one), error),
                 there = fs::weakly_canonical(fs::absolute(other), error);
  return !error && here == there;
}

// What is wrong with the names, before anything is planned.
PlanProblems name_problems(const PlanOptions& options) {
  PlanProblems problems;
  for (const auto& [option, file] : {std::pair{"--svg", options.svg}, {"--trace", options.trace}})
    if (!file.empty() && is_same_file(file, options.file.file))
      problems.lines.push_back(
          fmt::format("{} {}: this is the topology file, which would be lost: name another file", option, file));
  if (!options.svg.empty() && !options.trace.empty() && is_same_file(options.svg, options.trace))
    problems.lines.push_back(
        fmt::format("--svg and --trace both name {}, and one would replace the other: name two files", options.svg));
  return problems;
}

int refuse(const PlanProblems& problems) {
  for (const std::string& line : problems.lines) complain("{}\n", line);
  return bad_input;
}

bool write(const std::string& file, const std::string& text) {
  RealDisk disk;
  const DiskStatus error = disk.write_whole(file, text);
  if (error) complain("{}\n", error->text());
  return !error;
}

// The picture and the trace, where they were asked for.
bool write_files(const PlanOptions& options, const PlanView& view) {
  const SimulationResult& result = view.priced.result;
  const std::string title = fmt::format("{}: {}, {} dispatch, {}", options.file.file, view.name, name_of(view.dispatch),
                                        format(result.makespan));
  if (!options.svg.empty() && !write(options.svg, draw_svg(result.timeline, {title}))) return false;
  return options.trace.empty() || write(options.trace, to_chrome_trace(view.shape, result));
}

}  // namespace

int plan_command(const PlanOptions& options) {
  if (const PlanProblems problems = name_problems(options); !problems.lines.empty()) return refuse(problems);
  PlanInputs inputs(options);
  auto outcome = view_of(options, inputs, {"--schedule", options.schedule},
                         options.exact           ? Source::exact
                         : !options.list.empty() ? Source::list
                                                 : Source::schedule);
  if (const auto* problems = std::get_if<PlanProblems>(&outcome)) return refuse(*problems);
  const PlanView& view = std::get<PlanView>(outcome);
  std::vector<ComparedPlan> compared;
  for (const std::string& name : options.compare) {
    auto other = view_of(options, inputs, {"--compare", name}, Source::schedule);
    const auto* problems = std::get_if<PlanProblems>(&other);
    if (problems && !parse_schedule_kind(name)) return refuse(*problems);
    compared.push_back({name, {}, {}});
    if (problems) {
      compared.back().problems = problems->lines;
    } else {
      compared.back().view = std::get<PlanView>(std::move(other));
    }
  }
  if (!write_files(options, view)) return bad_input;
  if (options.file.json) {
    say("{}\n", plan_json(view, compared));
  } else {
    say("{}", plan_text(view, terminal_width()));
    if (!compared.empty()) say("{}", comparison_text(view, compared));
  }
  return done;
}

}  // namespace stagecraft::tools
