// What latency on the links costs a pipeline with one chunk per stage whose stages alternate strictly: slack and budget
// of every link, the period, and the time of an iteration with several slow links at once. Pure; any thread.
//
// The order: stage i runs x_i forwards (its warm-up), then backward and forward in turn. Its steady state is a timed
// event graph. "Gradient up from stage j to stage i, activation down from i to j" is a cycle that serves
// x_i - x_j + 1 micro-batches (its tokens), so the period is at least its time / its tokens, and the largest such
// ratio over all intervals i <= j is the period: longer walks are sums of such cycles.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "planning/cost.hpp"
#include "planning/ids.hpp"

namespace stagecraft {

/// Where the weight gradients run.
enum class WeightWork : std::uint8_t {
  deferred,  ///< after everything else: not part of the period
  in_place,  ///< each right after its backward, whose gradient has left by then
  fused,     ///< part of the backward: the gradient leaves after both
};

/// A pipeline of one chunk per stage in strict alternation.
struct AlternatingPipeline {
  std::vector<OperatorTimes> times;   ///< per stage, at least one
  std::vector<std::uint32_t> warmup;  ///< per stage: forwards before the first backward; see `check_warmup`
  std::vector<Duration> down, up;     ///< per link (stage k to k+1, and back): latency; empty: none
  std::uint32_t micro_batches = 1;    ///< at least one
  WeightWork weights = WeightWork::deferred;

  std::uint32_t stages() const { return static_cast<std::uint32_t>(times.size()); }
  /// Latency of both directions of a link.
  Duration round_trip(std::uint32_t link) const;
  /// What a stage does per micro-batch within the period.
  Duration work(std::uint32_t stage) const;
};

/// What is wrong with warm-ups; empty when nothing is: one per stage, the last 1, none above the one before it or above
/// the number of micro-batches (a stage that waits for more forwards than the one before it sends waits for ever).
std::optional<std::string> check_warmup(const AlternatingPipeline& pipeline);

/// A cycle over the stages first .. last; over one stage it is the stage's own work.
struct StageCycle {
  StageId first, last;
  Duration time{};           ///< work and latencies on the way round
  std::uint32_t tokens = 1;  ///< micro-batches served each time round
  /// Nanoseconds per micro-batch.
  double period() const { return static_cast<double>(time.count()) / tokens; }
};

/// Time of the cycle over an interval of stages, whatever the warm-ups: all forwards and backwards, all latencies both
/// ways, and the first stage's weight gradient where it stands between backward and forward. first <= last.
Duration cycle_time(const AlternatingPipeline& pipeline, std::uint32_t first, std::uint32_t last);

/// One link (stage k to k+1). All times are of the round trip: half of it is the latency per direction of a link that
/// is equally slow both ways.
struct LinkDelay {
  std::uint32_t slack = 0;  ///< x_k - x_{k+1}
  Duration round_trip{};    ///< what it is now
  /// The largest round trip at which the period stays what it is with this link at zero, all others as they are. None:
  /// any, because no cycle passes the link (all forwards come first above it); it then costs its fill only.
  std::optional<Duration> budget;
  std::optional<StageCycle> limit;  ///< the cycle that gives the budget, timed with this link at zero
  /// With this link at zero the period is the slowest stage's work. If not, something else limits the pipeline already.
  bool at_work_bound = true;
  /// The published condition (PipeMorph, Equation 1): 2c <= slack * (F + B of stage k+1) - (F + B of stage k). Negative
  /// where it can't hold even without latency. It looks at this pair of stages alone.
  Duration published_budget{};
};

/// T ~ fill + (N - 1) * period + the weight gradients that are left.
struct IterationForecast {
  StageId stage;       ///< that ends last
  Duration fill{};     ///< until its first backward has ended
  Duration steady{};   ///< N - 1 periods
  Duration weights{};  ///< weight gradients after its last backward
  Duration total() const { return fill + steady + weights; }
};

struct DelayAnalysis {
  Duration work_bound{};  ///< the slowest stage's work: no period is shorter
  StageCycle binding;     ///< the cycle that sets the period; the shortest interval among equals
  std::vector<LinkDelay> links;
  IterationForecast forecast;
};

/// The period takes O(stages^2), the budgets O(stages^2) per link. Warm-ups must pass `check_warmup`. An interval whose
/// first stage runs all its forwards first is no cycle. The forecast takes every stage at the period until its last
/// backward; stages drain faster than that, so it is never below `alternating_iteration`.
DelayAnalysis analyse_delay(const AlternatingPipeline& pipeline);

/// The exact time of one iteration in that order, links as pure latency; operator by operator, O(stages * N).
Duration alternating_iteration(const AlternatingPipeline& pipeline);

/// The published budget for equal operator times (PipeMorph, Theorem 1): (slack - 1) * t of latency each way.
Duration published_budget(std::uint32_t slack, Duration operator_time);

/// What one more unit of latency (each way) costs beyond the budget: each round over the link serves slack + 1
/// micro-batches and pays both ways, so 2 * ceil(N / (slack + 1)); `hidden` rounds are covered by other work.
double cost_per_delay(std::uint32_t micro_batches, std::uint32_t slack, std::uint32_t hidden = 0);

/// The period with its cycle, then one line per link: "link 0-1: slack 3, round trip 40 ms, budget 40 ms ...".
std::string to_text(const DelayAnalysis& analysis);

}  // namespace stagecraft
