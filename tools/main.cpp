// The `stagecraft` command: parses the command line and calls the verb. CLI11 is included here and nowhere else.
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <charconv>
#include <csignal>
#include <exception>
#include <tuple>

#include "config/scenario.hpp"
#include "planning/bug.hpp"
#include "planning/units.hpp"
#include "tools/commands.hpp"
#include "tools/output.hpp"
#include "tools/verbs.hpp"

namespace stagecraft::tools {

namespace {

void add_file_options(CLI::App& verb, FileOptions& options) {
  verb.add_option("FILE", options.file, "topology file (docs/topology.md)")->required();
  verb.add_option("--set", options.set, "override a value, as dotted.key=value; may be repeated")
      ->allow_extra_args(false)
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
}

// "7" or "1..100", as many as a scenario may name.
std::optional<std::pair<std::uint64_t, std::uint64_t>> parse_seeds(const std::string& text) {
  const auto number = [](std::string_view digits, std::uint64_t& out) {
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), out);
    return error == std::errc{} && end == digits.data() + digits.size();
  };
  std::pair<std::uint64_t, std::uint64_t> seeds;
  const std::size_t dots = text.find("..");
  const bool last = number(dots == std::string::npos ? text : text.substr(dots + 2), seeds.second);
  if (!last || !number(text.substr(0, dots), seeds.first) || seeds.first > seeds.second) return std::nullopt;
  if (seeds.second - seeds.first >= most_seeds) return std::nullopt;
  return seeds;
}

// "0-1=20ms". Latencies are at most what a file may say.
LinkLatency parse_link_latency(const char* option, const std::string& text) {
  constexpr Duration longest = std::chrono::hours(1);
  LinkLatency link;
  const std::size_t dash = text.find('-'), equals = text.find('=');
  const auto stage = [](std::string_view digits, StageId& out) {
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), out.value);
    return error == std::errc{} && end == digits.data() + digits.size();
  };
  const std::string_view view = text;
  const bool is_link = dash != std::string::npos && equals != std::string::npos && dash < equals &&
                       stage(view.substr(0, dash), link.one) &&
                       stage(view.substr(dash + 1, equals - dash - 1), link.other);
  const auto latency = is_link ? parse_duration(view.substr(equals + 1)) : std::nullopt;
  if (!latency)
    throw CLI::ValidationError(option,
                               "expected two stages and a latency with a unit, such as 0-1=20ms, got '" + text + "'");
  if (*latency > longest) throw CLI::ValidationError(option, "expected a latency of at most 1 h, got '" + text + "'");
  link.latency = *latency;
  return link;
}

void add_plan_verb(CLI::App& app, PlanOptions& options, int& code) {
  CLI::App* plan =
      app.add_subcommand("plan", "price a pipeline without running it: timeline, idle time, memory, slack");
  add_file_options(*plan, options.file);
  plan->add_flag("--json", options.file.json, "one object on one line");
  plan->add_option("--schedule", options.schedule, "this one instead of the file's, e.g. zb-h2 or planned");
  plan->add_option("--dispatch", options.dispatch, "static, reactive or follow, instead of the file's");
  plan->add_option("--warmup", options.warmup, "forwards before the first backward, per stage, e.g. 7,5,3,1");
  const auto links = [&](const char* name, std::vector<LinkLatency>& list, const char* text) {
    plan->add_option_function<std::vector<std::string>>(
            name,
            [name, &list](const std::vector<std::string>& texts) {
              for (const std::string& given : texts) list.push_back(parse_link_latency(name, given));
            },
            text)
        ->allow_extra_args(false)
        ->expected(1)
        ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  };
  links("--delay", options.delays, "what a link really takes, each way, e.g. 0-1=20ms; may be repeated");
  links("--assume", options.assumed, "what the planner believes it takes (default: what it really takes)");
  plan->add_option("--compare", options.compare, "schedules to plan as well, e.g. 1f1b,zb-h2,planned")->delimiter(',');
  CLI::Option* exact =
      plan->add_flag("--exact", options.exact, "search for the optimum (small pipelines), and prove it where possible");
  plan->add_option("--list", options.list,
                   "a list of your own: a file with a line of operators such as 0F0 0B0 0W0 per stage")
      ->excludes(exact);
  plan->add_option("--svg", options.svg, "draw the timeline into this file");
  plan->add_option("--trace", options.trace, "write it as a Chrome trace, for Perfetto");
  for (const char* name : {"--schedule", "--dispatch", "--warmup", "--compare", "--list", "--svg", "--trace"})
    plan->get_option(name)->check(
        [](const std::string& text) { return text.empty() ? "expected a value, got ''" : ""; });
  CLI::Option* file = plan->get_option("FILE");
  file->required(false)->description("a topology (default: ask a running job for its plan)");
  for (CLI::Option* option : plan->get_options())
    if (option != file && option != plan->get_help_ptr() && !option->check_name("--json")) option->needs(file);
  plan->add_option("--socket", options.socket, "of a running job: its control socket, or the folder of its run")
      ->excludes(file);
  plan->callback([&options, &code] {
    code = options.file.file.empty()
               ? talk_command({.words = {"plan"}, .socket = options.socket, .json = options.file.json})
               : plan_command(options);
  });
}

void add_node_verb(CLI::App& app, NodeOptions& options, int& code) {
  CLI::App* node = app.add_subcommand("node", "one node of a job on several machines: what a cluster launcher calls");
  add_file_options(*node, options.run.file);
  node->add_flag("--json", options.run.file.json, "the first node ends with one object on one line");
  node->add_option("--name", options.name,
                   "which node of the file (default: SLURM_NODEID, SLURMD_NODENAME, GROUP_RANK)");
  node->add_option("--leader", options.leader, "host:port of the first node (default: where the file says it listens)");
  CLI::Option* resume = node->add_option("--resume", options.run.resume_path,
                                         "the first node: continue the newest sound checkpoint, or the one at PATH");
  resume->expected(0, 1)->option_text("[PATH]");
  node->add_flag("--fresh", options.run.fresh, "the first node: start anew; checkpoints of this job are moved aside")
      ->excludes(resume);
  node->callback([&options, &code, resume] {
    options.run.resume = resume->count() > 0;
    code = node_command(options);
  });
}

void add_one_seed(CLI::App& verb, std::uint64_t& seed, const std::string& what) {
  verb.add_option_function<std::string>(
      "--seed",
      [&seed](const std::string& text) {
        const auto seeds = parse_seeds(text);
        if (!seeds || seeds->first != seeds->second)
          throw CLI::ValidationError("--seed", "expected a number below 2^64, got '" + text + "'");
        seed = seeds->first;
      },
      what);
}

// What it fills in outlives the parsing.
void add_reproduce_verb(CLI::App& app, ReproduceOptions& options, int& code) {
  CLI::App* verb = app.add_subcommand("reproduce", "the tables of a paper beside ours, simulated now");
  verb->add_option("NAME", options.paper, "the paper: pipemorph")->required();
  verb->add_option("--figure", options.figures, "only these figures, e.g. --figure 15 16 (default: all)");
  add_one_seed(*verb, options.seed, "of the delays that change (default 1)");
  verb->add_flag("--json", options.json, "one object on one line per cell");
  verb->callback([&options, &code] { code = reproduce_command(options); });
}

// The verbs below `checkpoint`. What they fill in outlives the parsing.
void add_checkpoint_verbs(CLI::App& app, CheckpointOptions& options, int& code) {
  CLI::App* checkpoint = app.add_subcommand("checkpoint", "list, verify, reshard and export checkpoints");
  checkpoint->require_subcommand(1);
  const auto add = [&](const char* name, const char* text, int (*act)(const CheckpointOptions&)) {
    CLI::App* verb = checkpoint->add_subcommand(name, text);
    add_file_options(*verb, options.file);
    verb->get_option("FILE")->description("a topology, a job's folder of checkpoints, or one checkpoint");
    verb->add_flag("--json", options.file.json, "one object on one line");
    verb->callback([&options, &code, act] { code = act(options); });
    return verb;
  };
  add("ls", "the checkpoints of a job, newest first, and whether they are sound", checkpoint_ls_command);
  add("verify", "compare every byte with the manifest; exit code 3 when one is damaged", checkpoint_verify_command);

  CLI::App* reshard =
      add("reshard", "write the same checkpoint with its tensors in other files", checkpoint_reshard_command);
  reshard->add_option("--to", options.to, "the folder to be made")->required();
  CLI::Option_group* how = reshard->add_option_group("how", "exactly one of");
  how->require_option(1);
  how->add_option_function<std::uint32_t>(
         "--files", [&options](std::uint32_t n) { options.split = FileCount{n}; }, "into just so many tensor files")
      ->check(CLI::Range(1U, 99'999U));
  how->add_option_function<std::string>(
      "--max-size",
      [&options](const std::string& text) {
        const auto bytes = parse_bytes(text);
        if (!bytes || bytes->value == 0)
          throw CLI::ValidationError("--max-size", "expected a size such as 2GiB, got '" + text + "'");
        options.split = *bytes;
      },
      "into tensor files of at most so many bytes, e.g. 2GiB");

  CLI::App* exported = add("export", "write the model for other programs: Hugging Face's transformers, or GGUF",
                           checkpoint_export_command);
  exported->add_option("--to", options.to, "the folder to be made; with --gguf, the file")->required();
  exported->add_flag("--gguf", options.gguf, "one GGUF file, for llama.cpp and its kin");
}

// What it fills in outlives the parsing.
void add_certificate_verb(CLI::App& app, CertificateOptions& options, int& code) {
  CLI::App* verb =
      app.add_subcommand("certificate", "make the job's own authority, and a certificate and a key for each node");
  add_file_options(*verb, options.file);
  verb->add_option("--out", options.out, "the folder for them; made if it is missing")
      ->required()
      ->check([](const std::string& text) { return text.empty() ? "expected a folder, got ''" : ""; });
  verb->add_option("--node", options.node, "only for this node, signed by the authority in the folder");
  verb->add_option("--days", options.days, "how long they are valid (default 365)")->check(CLI::Range(1, 3650));
  verb->add_flag("--force", options.force, "write over what is there");
  verb->add_flag("--json", options.file.json, "one object on one line");
  verb->callback([&options, &code] { code = certificate_command(options); });
}

// The verbs below `scenario`. What they fill in outlives the parsing.
void add_scenario_verbs(CLI::App& app, ScenarioOptions& options, int& code) {
  CLI::App* scenario = app.add_subcommand("scenario", "faults that strike a run, and what is expected of it");
  scenario->require_subcommand(1);
  CLI::App* check = scenario->add_subcommand("check", "read and validate scenarios with their topologies; run nothing");
  check->add_option("FILE", options.files, "scenario files (docs/scenarios.md)")->required();
  check->add_flag("--json", options.json, "one object on one line per file");
  check->callback([&options, &code] { code = scenario_check_command(options); });

  const auto add_runner = [&](const char* verb, const char* text, const char* files, auto command) {
    CLI::App* sub = scenario->add_subcommand(verb, text);
    sub->add_option("FILE", options.files, files)->required();
    sub->add_option_function<std::string>(
        "--seeds",
        [&options](const std::string& seeds) {
          options.seeds = parse_seeds(seeds);
          if (!options.seeds)
            throw CLI::ValidationError(
                "--seeds", "expected a number below 2^64, or A..B for up to 1,000,000 of them, got '" + seeds + "'");
        },
        "a number or a range of seeds, A..B");
    sub->add_flag("--json", options.json, "one object on one line per run");
    sub->callback([&options, &code, command] { code = command(options); });
    return sub;
  };
  add_runner("run", "run scenarios and compare with what they expect", "scenario files", scenario_run_command);
  add_runner("swarm", "draw faults from seeds; a run that breaks is made smaller and kept as a scenario", "a topology",
             scenario_swarm_command)
      ->get_option("FILE")
      ->expected(1);
}

// The example of a verb, where a shell would take < and > for files.
std::string on_a_command_line(const Verb& verb) {
  std::string example(verb.example);
  if (example.find_first_of("<>") == std::string::npos) return example;
  const std::size_t behind = verb.name.size() + 1;
  return example.substr(0, behind) + "'" + example.substr(behind) + "'";
}

// The verbs that talk to a running job: their names and words stand in one table. What they fill in outlives the
// parsing.
void add_talk_verbs(CLI::App& app, TalkOptions& options, int& code) {
  for (const Verb& verb : verbs()) {
    const std::string name(verb.name);
    const bool is_there =
        !app.get_subcommands([&](const CLI::App* known) { return known->get_name() == name; }).empty();
    if (verb.kind == Verb::Kind::shell || is_there) continue;
    const std::size_t space = name.find(' ');
    CLI::App* above = space == std::string::npos ? &app : app.get_subcommand(name.substr(0, space));
    CLI::App* sub =
        above->add_subcommand(name.substr(space == std::string::npos ? 0 : space + 1), std::string(verb.what));
    if (verb.name == "status") {
      CLI::Option* check =
          sub->add_flag("--check", options.check, "exit 4 when no iteration was committed for longer than it may take");
      sub->add_option("--within", options.within,
                      "what is too long, such as 30s (default: the topology's timeouts.iteration)")
          ->needs(check)
          ->check([](const std::string& text) { return text.empty() ? "expected a time such as 30s, got ''" : ""; });
    } else if (!verb.words.empty()) {
      sub->add_option("WORDS", options.words, std::string(verb.words));
    }
    sub->add_option("--socket", options.socket,
                    "the job's control socket, or the folder of its run (default: the newest run here)");
    sub->add_flag("--json", options.json, "one object on one line");
    sub->footer("For example: stagecraft " + on_a_command_line(verb));
    sub->callback([&options, &code, name, space] {
      std::vector<std::string> words{name.substr(0, space)};
      if (space != std::string::npos) words.push_back(name.substr(space + 1));
      words.insert(words.end(), options.words.begin(), options.words.end());
      if (options.check) words.emplace_back("--check");
      if (!options.within.empty()) words.insert(words.end(), {"--within", options.within});
      options.words = std::move(words);
      code = talk_command(options);
    });
  }
}

// What it fills in outlives the parsing.
void add_shell_verb(CLI::App& app, ShellOptions& options, int& code) {
  CLI::App* shell = app.add_subcommand("shell", "talk to a running job, line by line: by hand, or from a script");
  add_file_options(*shell, options.file);
  CLI::Option* file = shell->get_option("FILE");
  file->required(false)->description("a topology: start its job, and end it with the shell (default: attach to one)");
  for (const auto& [name, wanted, text] :
       {std::tuple("--fresh", &options.fresh, "start the job anew; checkpoints of it are moved aside"),
        std::tuple("--resume", &options.resume, "the job continues its newest sound checkpoint"),
        std::tuple("--processes", &options.processes, "each node of the file in a process of its own")})
    shell->add_flag(name, *wanted, text)->needs(file);
  shell->get_option("--fresh")->excludes(shell->get_option("--resume"));
  shell
      ->add_option("--socket", options.socket,
                   "the job's control socket, or the folder of its run (default: the newest run here)")
      ->excludes(file);
  shell->add_option("-f,--script", options.script, "lines from this file; the first one that fails ends it");
  shell->add_flag("--json", options.file.json, "answers as one object on one line");
  shell->footer("For example: stagecraft shell --script moves.txt");
  shell->callback([&options, &code] { code = shell_command(options); });
}

// What it fills in outlives the parsing.
void add_script_verb(CLI::App& app, ScriptOptions& options, int& code) {
  CLI::App* script = app.add_subcommand("script", "an experiment in Lua: starts topologies, compares, prints tables");
  add_file_options(*script, options.file);
  script->get_option("FILE")->description("a Lua 5.4 script (docs/scripting.md)");
  script->get_option("--set")->description("override a value of each topology that the script starts, after its own");
  script->add_option("ARGUMENTS", options.arguments,
                     "what the script sees as `arg`; behind -- they may begin with one");
  add_one_seed(*script, options.seed, "of math.random (default 1)");
  script->add_flag("--trusted", options.trusted, "it may use io, os and require, and write files anywhere");
  script->add_flag("--json", options.file.json, "tables as one object on one line per row");
  script->footer("For example: stagecraft script examples/shell/delay-sweep.lua");
  script->callback([&options, &code] { code = script_command(options); });
}

// The verbs below `trace`. What they fill in outlives the parsing.
void add_trace_verbs(CLI::App& app, TraceOptions& options, int& code) {
  CLI::App* trace = app.add_subcommand("trace", "look into a trace that a run has left");
  trace->require_subcommand(1);
  CLI::App* summary =
      trace->add_subcommand("summary", "per stage: what it computed, what was on its way to it, how long it was idle");
  summary->add_option("FILE", options.file, "a trace of `run`, `sim --trace` or `plan --trace`")->required();
  summary->add_flag("--iterations", options.iterations, "each iteration, too");
  summary->add_flag("--json", options.json, "one object on one line");
  summary->footer("For example: stagecraft trace summary stagecraft-runs/quickstart-1/trace.json");
  summary->callback([&options, &code] { code = trace_summary_command(options); });
}

int command(int argc, char** argv) {
  CLI::App app{"trains transformers with pipeline parallelism as a system of actors", "stagecraft"};
  app.require_subcommand(1);
  app.set_version_flag("--version", "stagecraft 0.1.0");
  int code = done;
  FileOptions file;
  RunCommandOptions run_options;
  SimOptions sim;
  std::string seed, seeds, lateness, page;

  CLI::App* check = app.add_subcommand("check", "parse, resolve and validate a file; print stages, memory, timeouts");
  add_file_options(*check, file);
  check->add_flag("--json", file.json, "one object on one line, with the resolved file");
  check->callback([&] { code = check_command(file); });

  CLI::App* run = app.add_subcommand("run", "train: all nodes of the file on this machine");
  add_file_options(*run, file);
  run->add_flag("--json", file.json, "end with one object on one line");
  CLI::Option* resume =
      run->add_option("--resume", run_options.resume_path, "continue the newest sound checkpoint, or the one at PATH");
  resume->expected(0, 1)->option_text("[PATH]");
  run->add_flag("--fresh", run_options.fresh, "start anew; checkpoints of this job are moved aside")->excludes(resume);
  run->add_flag("--processes", run_options.processes, "each node of the file in a process of its own");
  run->add_flag("--faults", run_options.faults, "people may break it while it runs: `stagecraft inject`")
      ->excludes(run->get_option("--processes"));
  run->add_option("--metrics", run_options.metrics, "Prometheus finds /metrics on this port of 127.0.0.1; 0: any")
      ->check(CLI::Range(0, 65535));
  run->callback([&] {
    run_options.file = file;
    run_options.resume = resume->count() > 0;
    code = run_command(run_options);
  });

  NodeOptions node_options;
  add_node_verb(app, node_options, code);

  CLI::App* simulate = app.add_subcommand("sim", "the same under the virtual clock, replayable from a seed");
  add_file_options(*simulate, sim.file);
  simulate->add_flag("--json", sim.file.json, "one object on one line per run");
  CLI::Option* one = simulate->add_option("--seed", seed, "one seed (default 1)");
  simulate->add_option("--seeds", seeds, "a range of seeds, A..B")->excludes(one);
  simulate->add_option("--lateness", lateness, "every message between actors comes up to this much late, e.g. 20ms");
  simulate->add_option("--trace", sim.trace, "write the Chrome trace of the run to this file (one seed only)");
  simulate->callback([&] {
    const std::string text = !seeds.empty() ? seeds : !seed.empty() ? seed : "1";
    const auto range = parse_seeds(text);
    if (!range)
      throw CLI::ValidationError(
          "--seed, --seeds", "expected a number below 2^64, or A..B for up to 1,000,000 of them, got '" + text + "'");
    std::tie(sim.first_seed, sim.last_seed) = *range;
    if (!lateness.empty()) {
      const auto duration = parse_duration(lateness);
      if (!duration)
        throw CLI::ValidationError("--lateness", "expected a duration such as 20ms, got '" + lateness + "'");
      sim.lateness = *duration;
    }
    if (!sim.trace.empty() && sim.first_seed != sim.last_seed)
      throw CLI::ValidationError("--trace", "expected one seed, got " + text);
    code = sim_command(sim);
  });

  PlanOptions plan;
  add_plan_verb(app, plan, code);

  ReproduceOptions reproduce;
  add_reproduce_verb(app, reproduce, code);

  CheckpointOptions checkpoint;
  add_checkpoint_verbs(app, checkpoint, code);

  TalkOptions talk;
  add_talk_verbs(app, talk, code);

  ShellOptions shell;
  add_shell_verb(app, shell, code);

  ScriptOptions script;
  add_script_verb(app, script, code);

  ScenarioOptions scenario;
  add_scenario_verbs(app, scenario, code);

  CertificateOptions certificate;
  add_certificate_verb(app, certificate, code);

  TraceOptions trace;
  add_trace_verbs(app, trace, code);

  CLI::App* explain = app.add_subcommand("explain", "the page of an error code, for example SC0203");
  explain->add_option("CODE", page, "the code")->required();
  explain->callback([&] { code = explain_command(page); });

  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? done : bad_input;
  }
  return code;
}

// Descriptors 0 to 2 that are closed would go to the next file that is opened.
void fill_standard_descriptors() {
  int descriptor = 0;
  do {
    descriptor = open("/dev/null", O_RDWR);
  } while (descriptor >= 0 && descriptor <= STDERR_FILENO);
  if (descriptor > STDERR_FILENO) close(descriptor);
}

}  // namespace

}  // namespace stagecraft::tools

int main(int argc, char** argv) {
  using stagecraft::tools::complain;
  stagecraft::tools::fill_standard_descriptors();
  std::signal(SIGPIPE, SIG_IGN);  // a reader that has gone is an error of the write, no death
  std::signal(SIGXFSZ, SIG_IGN);
  try {
    const int code = stagecraft::tools::command(argc, argv);
    if (stagecraft::tools::output_is_sound() || code != stagecraft::tools::done) return code;
    complain("standard output can't be written to: what was printed is not complete\n");
    return stagecraft::tools::fault;
  } catch (const stagecraft::Bug& e) {
    complain("this is a bug in stagecraft: {}\n", e.what());
  } catch (const std::exception& e) {
    complain("stagecraft met an error it did not expect: {}\n", e.what());
  }
  return stagecraft::tools::bug;
}
