// The verbs of the command line as plain functions: options in, exit code out. main.cpp parses; one file per verb acts.
//
// Exit codes: 0 done; 1 an expectation failed; 2 bad usage or file; 3 a fault ended the run; 4 no progress within the
// deadline; 5 stopped after a good checkpoint; 70 a bug. Main thread only.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "model/checkpoint/reshard.hpp"
#include "planning/ids.hpp"
#include "planning/units.hpp"

namespace stagecraft::tools {

enum ExitCode : int {
  done = 0,
  expectation_failed = 1,
  bad_input = 2,
  fault = 3,
  no_progress = 4,
  stopped = 5,
  bug = 70,
  left_at_once = 130,  ///< stopped with nothing to keep: before the first iteration, or by a second signal
};

struct FileOptions {
  std::string file;
  std::vector<std::string> set;  ///< dotted.key=value
  bool json = false;
};

struct RunCommandOptions {
  FileOptions file;
  bool resume = false;                   ///< continue a checkpoint: `resume_path`, or the newest that is sound
  std::string resume_path;               ///< empty: the newest one
  bool fresh = false;                    ///< start anew although there are checkpoints
  bool processes = false;                ///< each node of the file in a process of its own, on this machine
  bool faults = false;                   ///< people may break it: `inject`
  std::optional<std::uint16_t> metrics;  ///< the port of /metrics; 0: any that is free
};

/// One node of several. The first one runs the job, as `run` does.
struct NodeOptions {
  RunCommandOptions run;
  std::string name;    ///< empty: from the environment of the launcher
  std::string leader;  ///< where the first node listens; empty: as the file says
};

struct SimOptions {
  FileOptions file;
  std::uint64_t first_seed = 1, last_seed = 1;
  Duration lateness{};  ///< every message between actors comes up to this much late
  std::string trace;    ///< file for the Chrome trace of the one seed; empty: none
};

/// One `--delay` or `--assume`.
struct LinkLatency {
  StageId one, other;
  Duration latency{};
};

struct PlanOptions {
  FileOptions file;
  std::string schedule, dispatch, warmup;  ///< instead of the file's; empty: as the file says
  std::vector<LinkLatency> delays;         ///< what links really do
  std::vector<LinkLatency> assumed;        ///< what the planner believes of them; none: the same
  std::vector<std::string> compare;        ///< schedules to plan as well
  bool exact = false;                      ///< search for the optimum
  std::string list;                        ///< a file with a list of one's own; empty: none
  std::string svg, trace;                  ///< files to be written; empty: none
  std::string socket;                      ///< without a file: of the job that is asked for its plan
};

struct ReproduceOptions {
  std::string paper;         ///< its short name
  std::vector<int> figures;  ///< only these; empty: all that are emulated
  std::uint64_t seed = 1;    ///< of delays that change
  bool json = false;
};

struct CheckpointOptions {
  FileOptions file;            ///< a topology, a job's folder of checkpoints, or one checkpoint
  std::string to;              ///< what is to be made
  Split split = FileCount{1};  ///< reshard
  bool gguf = false;           ///< export: one GGUF file instead of a folder for Hugging Face's transformers
};

struct CertificateOptions {
  FileOptions file;
  std::string out;  ///< the folder
  std::string
      node;        ///< only this node, signed by the authority that is in the folder; empty: a new authority, all nodes
  int days = 365;  ///< how long they are valid
  bool force = false;  ///< write over what is there
};

struct ScenarioOptions {
  std::vector<std::string> files;                                ///< scenarios; of a swarm: one topology
  std::optional<std::pair<std::uint64_t, std::uint64_t>> seeds;  ///< instead of the file's
  bool json = false;
};

/// A line to a running job (verbs.hpp).
struct TalkOptions {
  std::vector<std::string> words;  ///< the verb's name first
  std::string socket;              ///< empty: that of the newest run here
  bool check = false;              ///< of the status: whether the job gets on
  std::string within{};            ///< and what is too long for it; empty: as its topology says
  bool json = false;
};

/// `file.file`: a topology whose job is to be started; empty: attach to one that runs.
struct ShellOptions {
  FileOptions file;
  bool fresh = false, resume = false, processes = false;  ///< of the job that is started
  std::string socket;                                     ///< empty: that of the newest run here
  std::string script;                                     ///< empty: standard input
};

/// `file.file`: a Lua script; `file.set` is for each topology that it starts.
struct ScriptOptions {
  FileOptions file;
  std::vector<std::string> arguments;  ///< what the script sees as `arg`
  std::uint64_t seed = 1;              ///< of math.random
  bool trusted = false;                ///< it may read and write files anywhere, and start processes
};

struct TraceOptions {
  std::string file;
  bool iterations = false;  ///< each of them, too
  bool json = false;
};

int check_command(const FileOptions& options);
int run_command(const RunCommandOptions& options);
int node_command(const NodeOptions& options);
int sim_command(const SimOptions& options);
int plan_command(const PlanOptions& options);
int reproduce_command(const ReproduceOptions& options);
int scenario_check_command(const ScenarioOptions& options);
int scenario_run_command(const ScenarioOptions& options);
int scenario_swarm_command(const ScenarioOptions& options);
int talk_command(const TalkOptions& options);
int shell_command(const ShellOptions& options);
int script_command(const ScriptOptions& options);
int trace_summary_command(const TraceOptions& options);
int explain_command(const std::string& code);
int certificate_command(const CertificateOptions& options);
int checkpoint_ls_command(const CheckpointOptions& options);
int checkpoint_verify_command(const CheckpointOptions& options);
int checkpoint_reshard_command(const CheckpointOptions& options);
int checkpoint_export_command(const CheckpointOptions& options);

}  // namespace stagecraft::tools
