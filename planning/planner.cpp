#include "planning/planner.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "planning/beam.hpp"
#include "planning/bug.hpp"
#include "planning/exact.hpp"
#include "planning/follow.hpp"
#include "planning/generate.hpp"
#include "planning/generate/greedy.hpp"
#include "planning/generate/pipemorph.hpp"
#include "planning/replay.hpp"

namespace stagecraft {

namespace {

constexpr std::size_t beam_operators = 4096;    // larger problems are left to the greedy runs
constexpr std::size_t large_operators = 10000;  // and from here on to a few of them, without a look at slow links
constexpr std::size_t exact_cells = 50;         // stages x micro-batches
constexpr std::uint64_t exact_nodes = 20'000;
constexpr std::size_t finalists = 4;  // plans of equal length that are tried under slow links

bool within(const StagePeaks& peaks, const StageCaps& caps) {
  const auto at_most = [](std::uint32_t n, std::optional<std::uint32_t> cap) { return !cap || n <= *cap; };
  return at_most(peaks.activations, caps.activations) && at_most(peaks.pending_weights, caps.pending_weights) &&
         at_most(peaks.held, caps.held);
}

struct Entry {
  std::string name;
  Schedule schedule;
  SimulationResult result;
};

// All that was tried, and the best of it.
class Contest {
 public:
  Contest(const PipelineProblem& problem, PlannedPipeline& record) : problem_(problem), record_(record) {}

  void enter(std::string name, Schedule schedule) {
    SimulationResult result = replay(problem_, schedule);
    const bool fits = !result.hung && keeps_caps(result);
    record_.candidates.push_back({name, result.makespan, fits});
    if (!fits) return;
    const bool better = best_.empty() || result.makespan < best_.front().result.makespan;
    if (better) best_.clear();
    if (!better && (result.makespan > best_.front().result.makespan || best_.size() >= finalists)) return;
    for (const Entry& entry : best_)
      if (entry.schedule == schedule) return;
    best_.push_back({std::move(name), std::move(schedule), std::move(result)});
  }
  bool is_empty() const { return best_.empty(); }
  const Entry& best() const { return best_.front(); }
  // The entries of equal length.
  std::vector<Entry>& equals() { return best_; }

 private:
  bool keeps_caps(const SimulationResult& result) const {
    for (std::size_t s = 0; s < problem_.caps.size(); ++s)
      if (!within(result.peaks[s], problem_.caps[s])) return false;
    return true;
  }

  const PipelineProblem& problem_;
  PlannedPipeline& record_;
  std::vector<Entry> best_;
};

// Warm-ups clipped to what the caps and the number of micro-batches allow.
std::vector<std::uint32_t> clipped(const PipelineProblem& problem, std::vector<std::uint32_t> warmup) {
  const std::uint32_t n = std::max(problem.shape.micro_batches, 1U);
  for (std::size_t s = 0; s < warmup.size(); ++s) {
    std::uint32_t most = n;
    if (!problem.caps.empty()) {
      most = std::min(most, problem.caps[s].activations.value_or(n));
      most = std::min(most, problem.caps[s].held.value_or(n));
    }
    warmup[s] = std::clamp(warmup[s], 1U, most);
  }
  return warmup;
}

// How long the first micro-batch is away from a stage: down to the last stage and back.
Duration round_trip(const PipelineProblem& problem, std::uint32_t stage) {
  Duration trip{};
  for (std::uint32_t k = stage; k + 1 < problem.shape.stages; ++k) {
    trip += problem.crossing(Direction::forward, k) + problem.crossing(Direction::backward, k);
    trip += problem.times[k + 1].forward + problem.times[k + 1].backward_input;
  }
  return trip;
}

// One forward, and as many as fit into the round trip when a stage takes `step` for each micro-batch.
std::uint32_t forwards_of_trip(const PipelineProblem& problem, std::uint32_t stage, Duration step) {
  const std::uint32_t n = std::max(problem.shape.micro_batches, 1U);
  if (step.count() == 0) return 1;
  const std::int64_t fit = (round_trip(problem, stage) + step - Duration{1}) / step;
  return static_cast<std::uint32_t>(std::min<std::int64_t>(n, 1 + fit));
}

struct NamedWarmup {
  std::string name;
  std::vector<std::uint32_t> warmup;
};

// Warm-ups worth trying. Those that wait for the round trip count how many micro-batches fit into it.
std::vector<NamedWarmup> warmups(const PipelineProblem& problem) {
  const std::uint32_t p = problem.shape.stages, n = std::max(problem.shape.micro_batches, 1U);
  std::vector<std::uint32_t> all(p, n), h1, h2, trip, long_trip;
  for (std::uint32_t s = 0; s < p; ++s) {
    h1.push_back(p - s);
    h2.push_back(2 * (p - 1 - s) + 1);
    const OperatorTimes& t = problem.times[s];
    trip.push_back(forwards_of_trip(problem, s, t.forward + t.backward_input));
    long_trip.push_back(forwards_of_trip(problem, s, t.sum()));
  }
  std::vector<NamedWarmup> result;
  std::set<std::vector<std::uint32_t>> seen;
  for (NamedWarmup choice : {NamedWarmup{"zb-h2", h2}, NamedWarmup{"round trip", trip}, NamedWarmup{"1f1b", h1},
                             NamedWarmup{"round trip with W", long_trip}, NamedWarmup{"caps", all}}) {
    choice.warmup = clipped(problem, choice.warmup);
    if (seen.insert(choice.warmup).second) result.push_back(std::move(choice));
  }
  return result;
}

// The best closed form: warm-ups that fall evenly from what the memory of the first stage allows (two operators per
// link at most, or the round trip where links are slow), then B and F in turn, and W as late as the caps let it.
Schedule closed_form(const PipelineProblem& problem) {
  const std::uint32_t p = problem.shape.stages, n = problem.shape.micro_batches, first = problem.shape.first.value;
  std::uint32_t most = 2 * p - 1;
  for (const StageCaps& caps : problem.caps)
    most = std::min({most, caps.held.value_or(most), caps.activations.value_or(most)});
  const std::vector<std::int64_t> spread = spread_warmup(p, std::max(most, 1U));
  Schedule schedule;
  for (std::uint32_t s = 0; s < p; ++s) {
    const StageCaps caps = problem.caps.empty() ? StageCaps{} : problem.caps[s];
    const std::uint32_t held = caps.held.value_or(n), pending = caps.pending_weights.value_or(n);
    const std::uint32_t lag = caps.held ? n : static_cast<std::uint32_t>(2 * s);  // with room, W fills the wait for B
    const auto even = static_cast<std::uint32_t>(std::max<std::int64_t>(spread[s], 1));
    const OperatorTimes& t = problem.times[s];
    const std::uint32_t trip = most < 2 * p - 1 ? 0 : forwards_of_trip(problem, s, t.forward + t.backward_input);
    const std::uint32_t warmup = std::min({std::max(even, trip), n, held, caps.activations.value_or(n)});
    auto& order = schedule.operators.emplace_back();
    std::uint32_t f = 0, b = 0, w = 0;
    const auto add = [&](OperatorKind kind, std::uint32_t& count) {
      order.push_back({kind, ChunkId{s}, MicroBatch{first + count++}});
    };
    while (f < warmup) add(OperatorKind::forward, f);
    while (b < n) {
      if (b - w >= pending) add(OperatorKind::backward_weight, w);
      add(OperatorKind::backward_input, b);
      if (b > lag || (f < n && f - w >= held)) add(OperatorKind::backward_weight, w);
      if (f < n && f - w < held) add(OperatorKind::forward, f);
    }
    while (w < n) add(OperatorKind::backward_weight, w);
  }
  return schedule;
}

// The lists that stages make when they run by these plans.
Schedule dispatched(const PipelineProblem& problem, std::vector<StagePlan> plans) {
  const SimulationResult result = simulate(simulation_of(problem, std::move(plans)));
  Schedule schedule{std::vector<std::vector<Operator>>(problem.shape.stages)};
  for (const TimedOperator& timed : result.timeline) schedule.operators[timed.place.stage.value].push_back(timed.op);
  return schedule;
}

// No list: what is ready and within the caps. Always possible when the caps are.
Schedule reactive(const PipelineProblem& problem) {
  std::vector<StagePlan> plans = bare_plans(problem.shape);
  for (std::size_t s = 0; s < problem.caps.size(); ++s) plans[s].caps = problem.caps[s];
  return dispatched(problem, std::move(plans));
}

// What stages make of a list by following it; impatient ones start whatever fits at once.
Schedule redispatched(const PipelineProblem& problem, const Entry& entry, bool patient) {
  std::vector<StagePlan> plans = follow_plans(problem, entry.schedule, entry.result);
  if (!patient)
    for (StagePlan& plan : plans) std::fill(plan.paces.begin(), plan.paces.end(), Pace{});
  return dispatched(problem, std::move(plans));
}

void enter_published(const PipelineProblem& problem, Contest& contest) {
  const PipelineShape& shape = problem.shape;
  for (const ScheduleKind kind :
       {ScheduleKind::one_f_one_b, ScheduleKind::zb_h1, ScheduleKind::zb_h2, ScheduleKind::zb_auto,
        ScheduleKind::pipemorph, ScheduleKind::gpipe, ScheduleKind::interleaved, ScheduleKind::bfs, ScheduleKind::zb_v,
        ScheduleKind::v_half, ScheduleKind::v_min}) {
    const bool several = kind == ScheduleKind::interleaved || kind == ScheduleKind::bfs;
    const std::optional<std::uint32_t> chunks = chunks_needed(kind);
    if ((chunks && *chunks != shape.chunks) || (several && shape.chunks == 1)) continue;
    if (shape.chunks > 1 && placement_of(kind) != shape.placement) continue;
    contest.enter(std::string(name_of(kind)), generate(kind, problem, {{}, is_fused(kind)}));
  }
  contest.enter("reactive", reactive(problem));
}

std::size_t operators_of(const PipelineShape& shape) {
  return std::size_t{3} * shape.total_chunks() * shape.micro_batches;
}

// Greedy runs under every combination; the shortest ones enter.
void enter_greedy(const PipelineProblem& problem, Contest& contest) {
  using Priority = GreedyOptions::Priority;
  using Hold = GreedyOptions::Hold;
  struct Run {
    std::string name;
    GreedyResult result;
  };
  std::vector<Run> runs;
  const bool is_large = operators_of(problem.shape) > large_operators;
  for (const NamedWarmup& choice : warmups(problem))
    for (const Priority priority : {Priority::backward_first, Priority::forward_first, Priority::alternate})
      for (const Hold hold : {Hold::never, Hold::strict, Hold::half})
        for (const bool force : {true, false}) {
          static constexpr std::string_view priorities[] = {"B first", "F first", "in turn"},
                                            holds[] = {"", ", held", ", half held"};
          if (hold == Hold::never && !force) continue;  // nothing is held back
          if (is_large && (priority != Priority::backward_first || hold == Hold::strict || !force)) continue;
          runs.push_back(
              {fmt::format("greedy, warm-up of {}, {}{}{}", choice.name, priorities[static_cast<std::size_t>(priority)],
                           holds[static_cast<std::size_t>(hold)], force ? "" : ", W too"),
               greedy(problem, {priority, hold, force, choice.warmup})});
        }
  std::stable_sort(runs.begin(), runs.end(),
                   [](const Run& a, const Run& b) { return a.result.makespan < b.result.makespan; });
  for (std::size_t i = 0; i < std::min<std::size_t>(runs.size(), is_large ? 2 : 6); ++i)
    contest.enter(std::move(runs[i].name), std::move(runs[i].result.schedule));
}

void improve(const PipelineProblem& problem, Contest& contest) {
  for (int round = 0; round < 4; ++round) {
    const Duration before = contest.best().result.makespan;
    const Entry best = contest.best();
    for (const bool patient : {false, true})
      contest.enter(best.name + ", dispatched again", redispatched(problem, best, patient));
    if (contest.best().result.makespan == before) return;
  }
}

void search(const PipelineProblem& problem, Contest& contest, const LowerBound& bound) {
  const PipelineShape& shape = problem.shape;
  const std::size_t cells = std::size_t{shape.stages} * shape.micro_batches;
  if (shape.chunks > 1 || operators_of(shape) > beam_operators) return;
  if (contest.best().result.makespan == bound.makespan) return;
  const auto beam = beam_search(problem, 16);
  if (const auto* found = std::get_if<BeamResult>(&beam)) contest.enter("beam search", found->schedule);
  if (cells > exact_cells || contest.best().result.makespan == bound.makespan) return;
  ExactOptions options;
  options.nodes = exact_nodes;
  options.incumbent = contest.best().schedule;
  const auto exact = exact_search(problem, options);
  if (const auto* found = std::get_if<ExactResult>(&exact))
    contest.enter(found->proven ? "exact search" : "exact search, cut short", found->schedule);
}

// The makespans, summed, when the schedule is followed and one link is slower than planned, by an operator or by two.
Duration under_slow_links(const PipelineProblem& problem, const Entry& entry) {
  SimulationInput input = simulation_of(problem, follow_plans(problem, entry.schedule, entry.result));
  Duration sum{};
  const std::uint32_t links = problem.shape.total_chunks() - 1;
  for (std::uint32_t link = 0; link < links; ++link)
    for (const int factor : {1, 2}) {
      input.forward_links = problem.forward_links.empty() ? std::vector<LinkCost>(links) : problem.forward_links;
      input.backward_links = problem.backward_links.empty() ? std::vector<LinkCost>(links) : problem.backward_links;
      const Duration extra = factor * problem.times[link].forward;
      input.forward_links[link].latency += extra;
      input.backward_links[link].latency += extra;
      sum += simulate(input).makespan;
    }
  return sum;
}

// Of plans of equal length, the one that loses least under slow links.
std::size_t most_robust(const PipelineProblem& problem, const std::vector<Entry>& equals) {
  std::size_t best = 0;
  if (equals.size() < 2 || operators_of(problem.shape) > large_operators) return best;
  Duration least = Duration::max();
  for (std::size_t i = 0; i < equals.size(); ++i) {
    const Duration sum = under_slow_links(problem, equals[i]);
    if (sum < least) least = sum, best = i;
  }
  return best;
}

}  // namespace

std::variant<PlannedPipeline, ImpossibleCap> plan_pipeline(const PipelineProblem& problem, Effort effort) {
  if (const auto impossible = find_impossible_cap(problem)) return *impossible;
  PlannedPipeline plan;
  if (problem.shape.micro_batches == 0) {
    plan.name = "nothing to do";
    plan.schedule.operators.resize(problem.shape.stages);
    plan.forecast = replay(problem, plan.schedule);
    return plan;
  }
  plan.bound = lower_bound(problem);
  Contest contest(problem, plan);
  if (effort == Effort::quick && problem.shape.chunks == 1) contest.enter("closed form", closed_form(problem));
  if (contest.is_empty()) {
    enter_published(problem, contest);
    if (problem.shape.chunks == 1) enter_greedy(problem, contest);
    STAGECRAFT_ASSERT(!contest.is_empty(), "no schedule keeps caps that one keeps");
    improve(problem, contest);
    search(problem, contest, plan.bound);
  }
  Entry& winner = contest.equals()[effort == Effort::full ? most_robust(problem, contest.equals()) : 0];
  plan.name = std::move(winner.name);
  plan.schedule = std::move(winner.schedule);
  plan.forecast = std::move(winner.result);
  return plan;
}

}  // namespace stagecraft
