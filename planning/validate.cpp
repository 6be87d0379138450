#include "planning/validate.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "planning/replay.hpp"

namespace stagecraft {

namespace {

using Kind = ScheduleFault::Kind;

bool has_backward(OperatorKind kind) { return kind == OperatorKind::backward_input || kind == OperatorKind::backward; }
bool has_weight(OperatorKind kind) { return kind == OperatorKind::backward_weight || kind == OperatorKind::backward; }

std::string plural(std::size_t n, std::string_view thing) {
  return fmt::format("{} {}{}", n, thing, n == 1 ? "" : "s");
}

// What the lists themselves show, before anything runs.
class ListCheck {
 public:
  ListCheck(const PipelineProblem& problem, const Schedule& schedule)
      : shape_(problem.shape), problem_(problem), schedule_(schedule) {}

  std::vector<ScheduleFault> run() {
    for (std::uint32_t s = 0; s < schedule_.operators.size(); ++s)
      for (const Operator& op : schedule_.operators[s]) note(StageId{s}, op);
    for (const auto& [op, n] : count_)
      if (n > 1) repeated(op, n);
    for (std::uint32_t c = 0; c < shape_.total_chunks(); ++c) complete(ChunkId{c});
    for (std::uint32_t s = 0; s < shape_.stages; ++s) weight_order(StageId{s});
    for (std::uint32_t s = 0; s < problem_.caps.size(); ++s) caps(StageId{s});
    std::stable_sort(faults_.begin(), faults_.end(), [](const auto& a, const auto& b) {
      return std::pair(a.kind, a.stage) < std::pair(b.kind, b.stage);
    });
    return std::move(faults_);
  }

 private:
  void add(Kind kind, StageId stage, std::optional<Operator> op, std::string text) {
    faults_.push_back({kind, stage, op, std::move(text)});
  }

  void note(StageId stage, const Operator& op) {
    const std::uint32_t first = shape_.first.value;
    if (op.chunk.value >= shape_.total_chunks()) {
      add(Kind::foreign, stage, op,
          fmt::format("stage {} lists {}, but the model has chunks 0 to {}: take it out", stage.value, to_text(op),
                      shape_.total_chunks() - 1));
    } else if (shape_.stage_of(op.chunk) != stage) {
      const std::uint32_t host = shape_.stage_of(op.chunk).value;
      add(Kind::foreign, stage, op,
          fmt::format("stage {} lists {}, but chunk {} lives on stage {}: move it there", stage.value, to_text(op),
                      op.chunk.value, host));
    } else if (op.micro_batch < shape_.first || op.micro_batch.value - first >= shape_.micro_batches) {
      add(Kind::foreign, stage, op,
          fmt::format(
              "stage {} lists {}, but this replica has {} from {} on: take it out", stage.value, to_text(op),
              shape_.micro_batches == 1 ? "one micro-batch" : fmt::format("{} micro-batches", shape_.micro_batches),
              first));
    } else {
      ++count_[op];
    }
  }

  void repeated(const Operator& op, std::uint32_t times) {
    const StageId stage = shape_.stage_of(op.chunk);
    add(Kind::repeated, stage, op,
        fmt::format("stage {} lists {} {} times, but an operator runs once: keep one of them", stage.value, to_text(op),
                    times));
  }

  bool listed(OperatorKind kind, ChunkId chunk, MicroBatch m) const { return count_.count({kind, chunk, m}) > 0; }

  // Every micro-batch has F, and X or both B and W.
  void complete(ChunkId chunk) {
    std::map<OperatorKind, std::vector<MicroBatch>> missing;
    for (std::uint32_t i = 0; i < shape_.micro_batches; ++i) {
      const MicroBatch m{shape_.first.value + i};
      const bool fused = listed(OperatorKind::backward, chunk, m);
      const bool input = listed(OperatorKind::backward_input, chunk, m);
      const bool weight = listed(OperatorKind::backward_weight, chunk, m);
      if (!listed(OperatorKind::forward, chunk, m)) missing[OperatorKind::forward].push_back(m);
      if (fused && (input || weight)) mixed(chunk, m, input);
      if (fused) continue;
      if (!input) missing[OperatorKind::backward_input].push_back(m);
      if (!weight) missing[OperatorKind::backward_weight].push_back(m);
    }
    for (const auto& [kind, of] : missing) absent({kind, chunk, of.front()}, of.size());
  }

  void mixed(ChunkId chunk, MicroBatch m, bool input) {
    const StageId stage = shape_.stage_of(chunk);
    const Operator half{input ? OperatorKind::backward_input : OperatorKind::backward_weight, chunk, m};
    add(Kind::mixed_backward, stage, half,
        fmt::format("stage {} lists {} and also {}, which holds the same work: write X, or B and W", stage.value,
                    to_text(half), to_text(Operator{OperatorKind::backward, chunk, m})));
  }

  void absent(const Operator& first, std::size_t n) {
    const StageId stage = shape_.stage_of(first.chunk);
    const std::string others = n > 1 ? fmt::format(" and {} more like it", n - 1) : std::string();
    add(Kind::missing, stage, first,
        fmt::format("stage {} lacks {}{}: every micro-batch runs forward and backward once on every chunk; add {}",
                    stage.value, to_text(first), others, n > 1 ? "them" : "it"));
  }

  void weight_order(StageId stage) {
    std::map<ChunkId, Operator> before;
    if (stage.value >= schedule_.operators.size()) return;
    for (const Operator& op : schedule_.operators[stage.value]) {
      if (!has_weight(op.kind)) continue;
      const auto [last, first_of_chunk] = before.try_emplace(op.chunk, op);
      if (!first_of_chunk && op.micro_batch < last->second.micro_batch)
        return add(Kind::weight_order, stage, op,
                   fmt::format("stage {} lists {} after {}, but the weight gradients of a chunk add up in increasing "
                               "order, which keeps the bits: put {} first",
                               stage.value, to_text(op), to_text(last->second), to_text(op)));
      last->second = op;
    }
  }

  void caps(StageId stage) {
    if (stage.value >= schedule_.operators.size()) return;
    const StageCaps& caps = problem_.caps[stage.value];
    std::int64_t forwards = 0, backwards = 0, weights = 0;
    Exceeded activations{caps.activations}, pending{caps.pending_weights}, held{caps.held};
    for (const Operator& op : schedule_.operators[stage.value]) {
      forwards += op.kind == OperatorKind::forward;
      backwards += has_backward(op.kind);
      weights += has_weight(op.kind);
      activations.note(forwards - backwards, op);
      pending.note(backwards - weights, op);
      held.note(forwards - weights, op);
    }
    over(stage, activations, "activations (F - B)", "run backwards before it");
    over(stage, pending, "pending weight gradients (B - W)", "run W before it");
    over(stage, held, "micro-batches until their weight gradient (F - W)", "run W before it");
  }

  struct Exceeded {
    std::optional<std::uint32_t> cap;
    std::int64_t peak = 0;
    std::optional<Operator> first{};
    void note(std::int64_t level, const Operator& op) {
      peak = std::max(peak, level);
      if (cap && level > *cap && !first) first = op;
    }
  };
  void over(StageId stage, const Exceeded& count, std::string_view what, std::string_view remedy) {
    if (!count.first) return;
    add(Kind::cap, stage, count.first,
        fmt::format("stage {} may hold {} {}, and {} is the first to exceed that; the list needs {}: {}, or raise the "
                    "cap to {}",
                    stage.value, *count.cap, what, to_text(*count.first), count.peak, remedy, count.peak));
  }

  const PipelineShape& shape_;
  const PipelineProblem& problem_;
  const Schedule& schedule_;
  std::map<Operator, std::uint32_t> count_;  // of those that belong where they stand
  std::vector<ScheduleFault> faults_;
};

// A run that hung: what each stage waits for, and whom.
class BlockedRun {
 public:
  BlockedRun(const PipelineProblem& problem, const Schedule& schedule, const SimulationResult& result)
      : shape_(problem.shape), schedule_(schedule), result_(result), ran_(problem.shape.stages) {
    for (const TimedOperator& timed : result.timeline) {
      ran_[timed.place.stage.value].push_back(timed.op);
      done_.insert(timed.op);
    }
  }

  const std::vector<Operator>& ran(StageId stage) const { return ran_[stage.value]; }
  std::optional<Operator> stuck(StageId stage) const { return result_.stuck[stage.value]; }
  bool done(const Operator& op) const { return done_.count(op) > 0; }

  // The operator that has to run first; none if all that have to have run.
  std::optional<Operator> needs(const Operator& op) const {
    std::vector<Operator> before;
    if (op.kind == OperatorKind::forward) {
      if (op.chunk.value > 0) before.push_back({OperatorKind::forward, {op.chunk.value - 1}, op.micro_batch});
    } else if (op.kind == OperatorKind::backward_weight) {
      before.push_back({OperatorKind::backward_input, op.chunk, op.micro_batch});
    } else {
      before.push_back({OperatorKind::forward, op.chunk, op.micro_batch});
      if (op.chunk.value + 1 < shape_.total_chunks())
        before.push_back(backward_of({op.chunk.value + 1}, op.micro_batch));
    }
    if (has_weight(op.kind) && op.micro_batch > shape_.first) before.push_back(weight_before(op));
    for (const Operator& needed : before)
      if (!done(needed)) return needed;
    return std::nullopt;
  }

  std::string missing(const Operator& op) const {
    const auto needed = needs(op);
    if (!needed) return "a free slot on the link: its input is ready, but other tensors hold every credit";
    const std::string reason =
        fmt::format("({} of stage {} {})", to_text(*needed), shape_.stage_of(needed->chunk).value,
                    is_listed(*needed) ? "has not run" : "is in no list");
    if (needed->chunk == op.chunk)
      return fmt::format("{} {}",
                         has_weight(needed->kind) && has_weight(op.kind) ? "the weight gradient before it"
                         : needed->kind == OperatorKind::forward         ? "its own forward"
                                                                         : "its backward",
                         reason);
    return fmt::format("its {} from chunk {} {}", op.kind == OperatorKind::forward ? "input" : "gradient",
                       needed->chunk.value, reason);
  }

  // Stages that wait for each other, each with the operator that it waits for: from a blocked operator to the stage of
  // what it needs, until one comes again.
  std::vector<StageId> circle() const {
    std::vector<StageId> path;
    std::optional<StageId> at = first_stuck();
    while (at && std::find(path.begin(), path.end(), *at) == path.end()) {
      path.push_back(*at);
      const auto op = stuck(*at);
      const auto needed = op ? needs(*op) : std::nullopt;
      at = needed ? std::optional(shape_.stage_of(needed->chunk)) : std::nullopt;
    }
    if (!at) return {};
    path.erase(path.begin(), std::find(path.begin(), path.end(), *at));
    return path;
  }

  std::optional<StageId> first_stuck() const {
    for (std::uint32_t s = 0; s < shape_.stages; ++s)
      if (stuck(StageId{s})) return StageId{s};
    return std::nullopt;
  }
  bool is_listed(const Operator& op) const {
    const auto& list = schedule_.operators[shape_.stage_of(op.chunk).value];
    return std::find(list.begin(), list.end(), op) != list.end();
  }

 private:
  // In the form in which the lists have it.
  Operator backward_of(ChunkId chunk, MicroBatch m) const {
    const Operator fused{OperatorKind::backward, chunk, m};
    return is_listed(fused) ? fused : Operator{OperatorKind::backward_input, chunk, m};
  }
  Operator weight_before(const Operator& op) const {
    const MicroBatch m{op.micro_batch.value - 1};
    const Operator fused{OperatorKind::backward, op.chunk, m};
    return is_listed(fused) ? fused : Operator{OperatorKind::backward_weight, op.chunk, m};
  }

  const PipelineShape& shape_;
  const Schedule& schedule_;
  const SimulationResult& result_;
  std::vector<std::vector<Operator>> ran_;  // per stage, in order
  std::set<Operator> done_;
};

std::string circle_text(const BlockedRun& run, const PipelineShape& shape) {
  std::vector<std::string> parts;
  for (const StageId stage : run.circle()) {
    const Operator op = *run.stuck(stage), needed = *run.needs(op);
    const Operator head = *run.stuck(shape.stage_of(needed.chunk));
    parts.push_back(fmt::format("{} waits for {}, which {} after {} in the list of stage {}", to_text(op),
                                to_text(needed), run.is_listed(needed) ? "comes" : "would come", to_text(head),
                                shape.stage_of(needed.chunk).value));
  }
  return fmt::format("{}", fmt::join(parts, "; "));
}

void check_progress(const PipelineProblem& problem, const Schedule& schedule, std::vector<ScheduleFault>& faults) {
  const SimulationResult result = replay(problem, schedule);
  if (!result.hung) return;
  const BlockedRun run(problem, schedule, result);
  const std::vector<StageId> circle = run.circle();
  const std::string why = circle_text(run, problem.shape);
  for (std::uint32_t s = 0; s < problem.shape.stages; ++s) {
    const auto op = run.stuck(StageId{s});
    if (!op) continue;
    const bool in_circle = std::find(circle.begin(), circle.end(), StageId{s}) != circle.end();
    std::string text = fmt::format("stage {} can't proceed: {} waits for {}", s, to_text(*op), run.missing(*op));
    if (in_circle) text += fmt::format(", in a circle: {}; change the order of one of these lists", why);
    faults.push_back({Kind::blocked, StageId{s}, op, std::move(text)});
  }
}

SimulationResult run_with_credits(const PipelineProblem& problem, const Schedule& schedule, std::uint32_t credits) {
  std::vector<StagePlan> plans = bare_plans(problem.shape);
  for (std::uint32_t s = 0; s < problem.shape.stages; ++s) {
    plans[s].dispatch = Dispatch::in_order;
    plans[s].order = schedule.operators[s];
  }
  SimulationInput input = simulation_of(problem, std::move(plans));
  input.credits = credits;
  return simulate(input);
}

void check_credits(const PipelineProblem& problem, const Schedule& schedule, std::uint32_t credits,
                   std::vector<ScheduleFault>& faults) {
  const SimulationResult result = run_with_credits(problem, schedule, credits);
  if (!result.hung) return;
  std::uint32_t enough = credits + 1;
  while (enough < problem.shape.micro_batches && run_with_credits(problem, schedule, enough).hung) ++enough;
  const BlockedRun run(problem, schedule, result);
  for (std::uint32_t s = 0; s < problem.shape.stages; ++s) {
    const auto op = run.stuck(StageId{s});
    if (!op) continue;
    faults.push_back({Kind::credits, StageId{s}, op,
                      fmt::format("with {} per link direction stage {} can't proceed: {} waits for {}; give it {}, or "
                                  "list the micro-batches in the same order on both sides",
                                  plural(credits, "credit"), s, to_text(*op), run.missing(*op), enough)});
  }
}

}  // namespace

std::vector<ScheduleFault> validate(const PipelineProblem& problem, const Schedule& schedule,
                                    std::optional<std::uint32_t> credits) {
  const PipelineShape& shape = problem.shape;
  if (schedule.operators.size() != shape.stages)
    return {{Kind::stages, StageId{0}, std::nullopt,
             fmt::format("the schedule has {} for a pipeline of {}: write one line per stage",
                         plural(schedule.operators.size(), "list"), plural(shape.stages, "stage"))}};
  std::vector<ScheduleFault> faults = ListCheck(problem, schedule).run();
  const bool playable =
      std::none_of(faults.begin(), faults.end(), [](const auto& fault) { return fault.kind <= Kind::mixed_backward; });
  if (!playable) return faults;
  std::vector<ScheduleFault> stuck;
  check_progress(problem, schedule, stuck);
  if (stuck.empty() && credits) check_credits(problem, schedule, *credits, stuck);
  // Before the caps where the list itself can't proceed, after them where only the credits are too few.
  const auto at = std::find_if(faults.begin(), faults.end(),
                               [&](const auto& fault) { return !stuck.empty() && fault.kind > stuck.front().kind; });
  faults.insert(at, stuck.begin(), stuck.end());
  return faults;
}

std::string draw_blocked(const PipelineProblem& problem, const Schedule& schedule, const SimulationResult& result) {
  constexpr std::size_t shown = 4;
  const BlockedRun run(problem, schedule, result);
  std::vector<std::string> before;
  for (std::uint32_t s = 0; s < problem.shape.stages; ++s) {
    const auto& ran = run.ran(StageId{s});
    std::string text = ran.size() > shown ? ".." : "";
    for (std::size_t i = ran.size() - std::min(shown, ran.size()); i < ran.size(); ++i)
      text += (text.empty() ? "" : " ") + to_text(ran[i]);
    before.push_back(std::move(text));
  }
  const std::size_t width = std::max_element(before.begin(), before.end(), [](const auto& a, const auto& b) {
                              return a.size() < b.size();
                            })->size();
  const std::size_t digits = std::to_string(problem.shape.stages - 1).size();
  std::string grid;
  for (std::uint32_t s = 0; s < problem.shape.stages; ++s) {
    const auto op = run.stuck(StageId{s});
    const std::size_t left = schedule.operators[s].size() - run.ran(StageId{s}).size();
    const std::string state = op          ? fmt::format("> {} waits for {}", to_text(*op), run.missing(*op))
                              : left == 0 ? "  end of the list"
                                          : fmt::format("  {} left", plural(left, "operator"));
    grid += fmt::format("stage {:>{}} | {:>{}} {}\n", s, digits, before[s], width, state);
  }
  if (!run.circle().empty()) grid += fmt::format("a circle: {}\n", circle_text(run, problem.shape));
  return grid;
}

}  // namespace stagecraft
