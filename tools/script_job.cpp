#include "tools/script_job.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <optional>
#include <utility>

#include "actors/faults/fault_board.hpp"
#include "tools/node.hpp"
#include "tools/report.hpp"
#include "tools/script_request.hpp"
#include "tools/shell_input.hpp"
#include "tools/stop_signals.hpp"
#include "tools/verbs.hpp"
#include "transport/memory_disk.hpp"
#include "transport/real_disk.hpp"

namespace stagecraft::tools {

namespace {

using Turn = ScriptState::Turn;

constexpr const char* no_job = "no such job runs: stagecraft.start gives one, and it is gone once it is finished";
const std::string simulated_checkpoints = "/simulated/checkpoints";

// The script has failed: the job is of no use any more.
struct ScriptIsOver {};

// What the script has asked: a verb, of which job, and with what.
struct Asked {
  std::string verb;
  std::uint64_t job = 0;  // 0: of none
  ScriptValue what;
};

Asked asked_in(const Turn& turn) {
  Asked asked;
  asked.verb = turn.asked.at(0).get<std::string>();  // of our library
  if (turn.asked.size() > 1 && turn.asked[1].is_number_integer()) asked.job = turn.asked[1].get<std::uint64_t>();
  if (turn.asked.size() > 2) asked.what = turn.asked[2];
  return asked;
}

ScriptValue value_of(const Answer& answer) {
  ScriptValue value{{"outcome", to_text(answer.outcome)}, {"text", answer.text}};
  for (const auto& [key, item] : answer.data.items()) value[key] = item;
  return value;
}

ScriptValue answer_with(ScriptValue value) { return ScriptValue{{"value", std::move(value)}}; }

// One job, from its start until it has ended and the script has been told.
class ScriptJob {
 public:
  ScriptJob(ScriptSession& session, ScriptState& state, std::uint64_t id) : session_(session), state_(state), id_(id) {}

  // `start`: the argument of stagecraft.start. The turn of the script in which the job is over: it is still to be
  // answered where it asks. Throws ScriptError when the job can't be had.
  Turn run(const ScriptValue& start);

 private:
  void prepare_faults(const ScriptRequest& request, const std::string& world_word, FaultyDisk* disk);
  void attend(RunningJob& job);
  void go_on(const ScriptValue& answer);
  std::optional<ScriptValue> look(RunningJob& job);
  void wait_for(RunningJob& job, const ScriptRequest& request);
  std::optional<ScriptValue> begin(RunningJob& job);
  ScriptValue switch_fault(RunningJob& job, bool on);
  void ask_job(RunningJob& job, const char* verb, const ScriptValue& arguments);
  std::optional<ScriptValue> say(RunningJob& job);
  ScriptValue status_of(RunningJob& job) const;

  ScriptSession& session_;
  ScriptState& state_;
  const std::uint64_t id_;
  std::optional<Topology> topology_;
  std::shared_ptr<FaultBoard> board_;
  std::size_t by_hand_ = 0;  // the last so many faults of the board
  caf::weak_actor_ptr node_;

  Turn turn_;  // the newest
  bool begun_ = false, over_ = false;
  std::optional<Asked> asked_;  // and not answered
  bool accepted_ = false;       // what was asked has begun, and takes its time
  std::optional<Iteration> until_iteration_;
  std::optional<Instant> until_;
  const Verb* verb_ = nullptr;  // of the wish
  std::optional<WishId> wish_;
};

void ScriptJob::prepare_faults(const ScriptRequest& request, const std::string& world_word, FaultyDisk* disk) {
  const std::string text = script_scenario_text(request, world_word);
  if (text.empty()) {  // an empty list: whatever `inject` says later
    if (request.has("faults"))
      board_ = std::make_shared<FaultBoard>(Scenario{}, *topology_, request.number("seed").value_or(1));
    return;
  }
  Scenario scenario = script_scenario(session_, request, *topology_, text);
  by_hand_ = request.has(script_by_hand) ? request.value(script_by_hand).size() : 0;
  for (std::size_t i = scenario.faults.size() - by_hand_; i < scenario.faults.size(); ++i) {
    FaultSpec& fault = scenario.faults[i];
    if (fault.trigger.kind != Trigger::Kind::start || fault.iterations || fault.time)
      request.refuse(script_by_hand,
                     fmt::format("'{}' has a trigger or a duration; it strikes with job:inject('{}') and "
                                 "heals with job:heal('{}')",
                                 fault.id, fault.id, fault.id));
    fault.trigger.kind = Trigger::Kind::iteration;  // that never comes
    fault.trigger.iteration = {std::numeric_limits<std::uint32_t>::max()};
  }
  board_ = std::make_shared<FaultBoard>(scenario, *topology_, request.number("seed").value_or(1));
  if (disk) board_->use(*disk);
}

Turn ScriptJob::run(const ScriptValue& start) {
  const ScriptRequest request("stagecraft.start", {start},
                              {"file", "world", "seed", "set", "iterations", "faults", script_by_hand});
  const std::string word = request.has("world") ? request.text("world") : "virtual";
  if (word != "virtual" && word != "real") request.refuse("world", "expected virtual or real, got '" + word + "'");
  if (request.has(script_by_hand) && !request.value(script_by_hand).is_array())
    request.refuse(script_by_hand, "expected a list of faults");
  const bool is_virtual = word == "virtual";
  topology_ = script_topology(session_, request);
  const std::uint64_t seed = request.number("seed").value_or(1);
  // The disk outlives the board, which outlives the world.
  const auto memory = std::make_shared<MemoryDisk>(std::make_shared<RealDisk>());
  const auto faulty = std::make_shared<FaultyDisk>(*memory);
  prepare_faults(request, word, is_virtual ? faulty.get() : nullptr);
  const auto world = is_virtual ? make_virtual_world({.seed = seed, .serialise = topology_->nodes.size() > 1}, faulty)
                                : make_real_world(worker_threads());
  RunOptions run;
  if (is_virtual) {
    if (const DiskStatus error = faulty->make_directories(simulated_checkpoints)) throw CannotStart(error->text());
    run.checkpoint_folder = simulated_checkpoints;
  }
  if (board_) world->inject(board_);
  run.stop_asked = stop_is_asked;
  run.started = [&](const std::vector<NodeHandles>& nodes) {
    node_ = caf::actor_cast<caf::weak_actor_ptr>(nodes.front().node);
  };
  run.attend = [&](RunningJob& job) { attend(job); };
  RunResult result;
  session_.job_runs = true;
  try {
    result = run_job(*world, *topology_, run);
  } catch (const ScriptIsOver&) {
    over_ = true;
  } catch (...) {
    session_.job_runs = false;
    throw;
  }
  session_.job_runs = false;
  node_ = nullptr;
  if (over_) return std::move(turn_);
  // The job has ended; the script hears of it when it asks.
  if (!begun_) turn_ = state_.resume(answer_with(id_)), begun_ = true;
  while (turn_.kind == Turn::Kind::asks) {
    asked_ = asked_in(turn_);
    if (asked_->job != id_) break;
    if (asked_->verb == "finish") {
      turn_ = state_.resume(answer_with(script_result(*topology_, result, is_virtual ? seed : topology_->job.seed)));
      break;
    }
    turn_ = state_.resume_with_error(
        fmt::format("job:{}: the job has ended: {}; job:finish() gives its result", asked_->verb, result.reason));
  }
  return std::move(turn_);
}

// The script runs in here, as far as it can without the job's time passing.
void ScriptJob::attend(RunningJob& job) {
  if (over_ || job.end()) return;
  if (!std::exchange(begun_, true)) go_on(answer_with(id_));
  while (!over_) {
    std::optional<ScriptValue> answer;
    try {
      answer = look(job);
    } catch (const ScriptError& problem) {
      const std::string_view what = problem.what();
      const std::string call = fmt::format("job:{}: ", asked_->verb);
      answer = ScriptValue{{"error", fmt::format("{}{}", what.starts_with(call) ? "" : call, what)}};
    }
    if (!answer) return;
    go_on(*answer);
  }
  job.stop();
}

void ScriptJob::go_on(const ScriptValue& answer) {
  asked_.reset();
  accepted_ = false;
  until_iteration_.reset();
  until_.reset();
  wish_.reset();
  verb_ = nullptr;
  turn_ = state_.resume(answer);
  if (turn_.kind == Turn::Kind::asks) {
    asked_ = asked_in(turn_);
  } else {
    over_ = true;
    if (turn_.kind != Turn::Kind::ended) throw ScriptIsOver{};
  }
}

// The answer to what was asked; none: it takes its time.
std::optional<ScriptValue> ScriptJob::look(RunningJob& job) {
  if (asked_->job != id_) {
    if (asked_->verb == "start") throw ScriptError("a job runs already: finish it first");
    throw ScriptError(no_job);
  }
  if (!std::exchange(accepted_, true))
    if (auto at_once = begin(job)) return at_once;
  if (until_iteration_ && job.newest() && job.newest()->iteration >= *until_iteration_)
    return answer_with(status_of(job));
  if (until_ && job.world().now() >= *until_) return answer_with(status_of(job));
  if (wish_)
    for (const WishAnswer& x : job.take_answers()) {
      if (x.wish != *wish_) continue;
      return answer_with(value_of(settled(*verb_, x, job)));
    }
  return std::nullopt;
}

std::optional<ScriptValue> ScriptJob::begin(RunningJob& job) {
  const std::string& verb = asked_->verb;
  const ScriptValue& what = asked_->what;
  if (verb == "status") return answer_with(status_of(job));
  if (verb == "inject" || verb == "heal") return answer_with(switch_fault(job, verb == "inject"));
  if (verb == "stop") {
    job.stop();
    return answer_with(true);
  }
  if (verb == "say") return say(job);
  if (verb == "wait") {
    wait_for(job, ScriptRequest("job:wait", {what}, {"iteration", "ms"}));
  } else if (verb == "checkpoint") {
    ask_job(job, "checkpoint now", ScriptValue::object());
  } else if (verb == "migrate") {
    const ScriptRequest request("job:migrate", {what}, {"layers", "to", "layout"});
    ScriptValue arguments = what;
    if (arguments.contains("layers") && arguments["layers"].is_number_integer())
      arguments["layers"] = std::to_string(arguments["layers"].get<std::int64_t>());
    if (arguments.contains("to")) {
      if (!arguments["to"].is_object() || !arguments["to"].contains("stage"))
        request.refuse("to", "expected {stage = N}");
      arguments["stage"] = arguments["to"]["stage"];
      arguments.erase("to");
    }
    for (const char* key : {"stage", "layout"})  // the verb takes numbers without a sign
      if (arguments.contains(key)) arguments[key] = ScriptValue::parse(arguments[key].dump());
    ask_job(job, "migrate", arguments);
  }
  return std::nullopt;  // finish: when the job has ended
}

void ScriptJob::wait_for(RunningJob& job, const ScriptRequest& request) {
  if (request.has("iteration") == request.has("ms")) throw ScriptError("expected one of {iteration = N} and {ms = N}");
  if (const auto iteration = request.number("iteration")) {
    const std::uint32_t most = job.topology().job.iterations;
    if (*iteration > most)
      request.refuse("iteration", fmt::format("the job has {} iterations, got {}", most, *iteration));
    until_iteration_ = Iteration{static_cast<std::uint32_t>(*iteration)};
    if (*iteration == 0) until_ = job.world().now();
    return;
  }
  const ScriptValue ms = request.value("ms");
  constexpr double longest = 1e12;
  if (!ms.is_number() || !(ms.get<double>() >= 0) || ms.get<double>() > longest)
    request.refuse("ms", fmt::format("expected milliseconds, 0 to {:.0e}, got {}", longest, ms.dump()));
  until_ = job.world().now() + Duration(std::llround(ms.get<double>() * 1e6));
}

void ScriptJob::ask_job(RunningJob& job, const char* verb, const ScriptValue& arguments) {
  verb_ = find_verb(verb);
  const Served served = verb_->serve(arguments, job, 0);
  if (const auto* at_once = std::get_if<Answer>(&served)) throw ScriptError(at_once->text);
  wish_ = std::get<Waiting>(served).wish;
}

// A line of the shell.
std::optional<ScriptValue> ScriptJob::say(RunningJob& job) {
  if (!asked_->what.is_string()) throw ScriptError("expected a line such as 'pause', as the shell takes it");
  const auto typed = parse_line(words_of(asked_->what.get<std::string>()));
  if (const auto* wrong = std::get_if<Senseless>(&typed)) throw ScriptError(wrong->why);
  const auto& [verb, words] = std::get<Typed>(typed);
  if (!verb->serve || verb->kind != Verb::Kind::asks)
    throw ScriptError(fmt::format("'{}' is for the shell alone", verb->name));
  const auto arguments = verb->read(words);
  if (const auto* wrong = std::get_if<Senseless>(&arguments)) throw ScriptError(wrong->why);
  const Served served = verb->serve(std::get<Json>(arguments), job, 0);
  if (const auto* at_once = std::get_if<Answer>(&served)) {
    if (at_once->outcome == Outcome::bad_request) throw ScriptError(at_once->text);
    return answer_with(value_of(*at_once));
  }
  verb_ = verb;
  wish_ = std::get<Waiting>(served).wish;
  if (!wish_) return answer_with(value_of({Outcome::done, "it ends after the iteration that runs"}));  // stop
  return std::nullopt;
}

ScriptValue ScriptJob::status_of(RunningJob& job) const {
  const Served served = find_verb("status")->serve(ScriptValue::object(), job, 0);
  ScriptValue status = std::get<Answer>(served).data;
  status.erase("process");
  status["now_ms"] = static_cast<double>(job.age().count()) / 1e6;
  return status;
}

ScriptValue ScriptJob::switch_fault(RunningJob& job, bool on) {
  if (!asked_->what.is_string()) throw ScriptError("expected the id of a fault among by_hand of stagecraft.start");
  const auto id = asked_->what.get<std::string>();
  const std::size_t count = board_ ? board_->scenario().faults.size() : 0;
  std::vector<std::string> ids;
  for (std::size_t i = count - by_hand_; i < count; ++i) {
    const FaultSpec& fault = board_->scenario().faults[i];
    ids.push_back(fault.id);
    if (fault.id != id) continue;
    if (!on && strikes_once(fault.kind)) throw ScriptError(fmt::format("'{}' strikes once: nothing is to heal", id));
    board_->note({i, on, job.world().now(), job.newest() ? job.newest()->iteration : job.start()});
    if (fault.kind == FaultKind::kill) {
      const auto role = fault.on.kind == FaultTarget::Kind::twin ? Member::Role::twin : Member::Role::stage;
      if (const auto node = caf::actor_cast<NodeActor>(node_))
        tell_from_outside(node, KillOrder{{role, {fault.on.stage, fault.on.replica.value_or(ReplicaId{0})}}});
    } else if (on) {
      board_->strike(i);
    } else {
      board_->heal(i);
    }
    return true;
  }
  throw ScriptError(fmt::format("there is no fault '{}' among by_hand of stagecraft.start; it has {}", id,
                                ids.empty() ? std::string("none") : fmt::format("{}", fmt::join(ids, ", "))));
}

}  // namespace

Turn drive_script(ScriptSession& session, ScriptState& state) {
  Turn turn = state.resume(nullptr);
  std::uint64_t jobs = 0;
  while (turn.kind == Turn::Kind::asks) {
    const Asked asked = asked_in(turn);
    if (asked.verb != "start") {
      turn = state.resume_with_error(fmt::format("job:{}: {}", asked.verb, no_job));
      continue;
    }
    try {
      turn = ScriptJob(session, state, ++jobs).run(asked.what);
    } catch (const ScriptError& problem) {
      turn = state.resume_with_error(problem.what());
    } catch (const CannotStart& problem) {
      turn = state.resume_with_error(fmt::format("stagecraft.start: {}", problem.what()));
    }
  }
  return turn;
}

}  // namespace stagecraft::tools
