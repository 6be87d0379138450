// What a person and a script get to see of a run: the head, the summary, one JSON object, an exit code. Any thread.
#pragma once

#include <string>

#include "actors/runtime.hpp"
#include "model/job_plan.hpp"
#include "tools/commands.hpp"

namespace stagecraft::tools {

/// Two or three lines: what will run, on what.
std::string describe_job(const Topology& topology, const JobPlan& plan);

/// The table of stages: layers, schedule, caps, memory.
std::string stage_map(const Topology& topology, const JobPlan& plan);

/// Rates, losses, a table per stage, the timeline of the last iteration, and the paths.
std::string summary(const Topology& topology, const RunResult& result, std::size_t width);

/// One line of JSON with everything, see docs/user-guide.md.
std::string to_json(const Topology& topology, const RunResult& result, std::uint64_t seed);

/// Median of the iterations' times, without the first where there are more.
Duration median_time(const RunResult& result, Duration IterationReport::*time);
/// Trained tokens per second of iteration time; 0 when nothing ran.
double tokens_per_second(const RunResult& result);

/// What the command ends with after this run.
int exit_code(const RunResult& result);

/// Keeps the record of the run in a file and says how it went, to a person or as one object. The exit code.
int report_run(Disk& disk, const Topology& topology, const RunResult& result, const std::string& record, bool json);

/// Columns of standard output; 110 when it is no terminal.
std::size_t terminal_width();

}  // namespace stagecraft::tools
