#include "planning/delay.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "planning/bug.hpp"

namespace stagecraft {

Duration AlternatingPipeline::round_trip(std::uint32_t link) const {
  return (down.empty() ? Duration{} : down[link]) + (up.empty() ? Duration{} : up[link]);
}

Duration AlternatingPipeline::work(std::uint32_t stage) const {
  const OperatorTimes& t = times[stage];
  return weights == WeightWork::deferred ? t.forward + t.backward_input : t.sum();
}

std::optional<std::string> check_warmup(const AlternatingPipeline& pipeline) {
  const auto& x = pipeline.warmup;
  if (x.size() != pipeline.stages())
    return fmt::format("{} warm-ups for {} stages; give one per stage", x.size(), pipeline.stages());
  if (x.back() != 1) return fmt::format("the last stage's warm-up is {}; it must be 1", x.back());
  for (std::size_t i = 0; i < x.size(); ++i) {
    if (x[i] > pipeline.micro_batches)
      return fmt::format("stage {} waits for {} forwards, but there are {} micro-batches", i, x[i],
                         pipeline.micro_batches);
    if (i > 0 && x[i] > x[i - 1])
      return fmt::format(
          "stage {} waits for {} forwards, stage {} sends {} before it waits for a backward: neither "
          "could go on; give stage {} at least {}",
          i, x[i], i - 1, x[i - 1], i - 1, x[i]);
  }
  return std::nullopt;
}

Duration cycle_time(const AlternatingPipeline& pipeline, std::uint32_t first, std::uint32_t last) {
  if (first == last) return pipeline.work(first);
  Duration time{};
  for (std::uint32_t k = first; k <= last; ++k) {
    const OperatorTimes& t = pipeline.times[k];
    time += t.forward + t.backward_input;
    if (pipeline.weights == WeightWork::fused || (pipeline.weights == WeightWork::in_place && k == first))
      time += t.backward_weight;
    if (k < last) time += pipeline.round_trip(k);
  }
  return time;
}

namespace {

void require_valid(const AlternatingPipeline& pipeline) {
  STAGECRAFT_ASSERT(!pipeline.times.empty() && pipeline.micro_batches > 0, "an empty pipeline has no period");
  const std::size_t links = pipeline.times.size() - 1;
  STAGECRAFT_ASSERT(
      (pipeline.down.empty() || pipeline.down.size() == links) && (pipeline.up.empty() || pipeline.up.size() == links),
      "latencies of {} and {} links for {} stages", pipeline.down.size(), pipeline.up.size(), pipeline.times.size());
  const auto problem = check_warmup(pipeline);
  STAGECRAFT_ASSERT(!problem, "{}", *problem);
}

// All cycles of a pipeline, by prefix sums: each interval in constant time.
class Cycles {
 public:
  explicit Cycles(const AlternatingPipeline& pipeline) : pipeline_(pipeline), sum_(pipeline.stages() + 1) {
    for (std::uint32_t k = 0; k < pipeline.stages(); ++k) {
      const bool linked = k + 1 < pipeline.stages();
      const OperatorTimes& t = pipeline.times[k];
      const Duration both = pipeline.weights == WeightWork::fused ? t.sum() : t.forward + t.backward_input;
      sum_[k + 1] = sum_[k] + both + (linked ? pipeline.round_trip(k) : Duration{});
    }
  }

  // None where the first stage runs all its forwards before its first backward: nothing comes round.
  std::optional<StageCycle> over(std::uint32_t first, std::uint32_t last) const {
    const auto& x = pipeline_.warmup;
    if (first == last) return StageCycle{{first}, {last}, pipeline_.work(first), 1};
    if (x[first] >= pipeline_.micro_batches) return std::nullopt;
    const bool linked = last + 1 < pipeline_.stages();
    Duration time = sum_[last + 1] - sum_[first] - (linked ? pipeline_.round_trip(last) : Duration{});
    if (pipeline_.weights == WeightWork::in_place) time += pipeline_.times[first].backward_weight;
    return StageCycle{{first}, {last}, time, x[first] - x[last] + 1};
  }

  // The same with one link at zero.
  std::optional<StageCycle> without(std::uint32_t link, std::uint32_t first, std::uint32_t last) const {
    auto cycle = over(first, last);
    if (cycle && first <= link && link < last) cycle->time -= pipeline_.round_trip(link);
    return cycle;
  }

 private:
  const AlternatingPipeline& pipeline_;
  std::vector<Duration> sum_;
};

// time_a / tokens_a > time_b / tokens_b, without rounding.
bool slower(const StageCycle& a, const StageCycle& b) {
  __extension__ using Wide = __int128;
  return static_cast<Wide>(a.time.count()) * b.tokens > static_cast<Wide>(b.time.count()) * a.tokens;
}

// The slowest of the given cycles; among equals the one over the fewest stages.
template <class Cycle>
StageCycle slowest(std::uint32_t stages, const Cycle& cycle) {
  StageCycle worst;
  for (std::uint32_t length = 0; length < stages; ++length) {
    for (std::uint32_t first = 0; first + length < stages; ++first) {
      const std::optional<StageCycle> candidate = cycle(first, first + length);
      if (candidate && slower(*candidate, worst)) worst = *candidate;
    }
  }
  return worst;
}

// What the cycles over a link leave it at the period of a reference: the least of them, with its cycle.
struct Room {
  std::optional<Duration> budget;
  std::optional<StageCycle> limit;
  void offer(const StageCycle& cycle, const StageCycle& reference) {
    __extension__ using Wide = __int128;
    const Wide whole = static_cast<Wide>(cycle.tokens) * reference.time.count() / reference.tokens;
    const Duration room{static_cast<std::int64_t>(whole) - cycle.time.count()};
    if (!budget || room < *budget) budget = room, limit = cycle;
  }
};

LinkDelay analyse_link(const AlternatingPipeline& pipeline, const Cycles& cycles, std::uint32_t link) {
  const auto free = [&](std::uint32_t first, std::uint32_t last) { return cycles.without(link, first, last); };
  const StageCycle reference = slowest(pipeline.stages(), free);
  LinkDelay result;
  result.slack = pipeline.warmup[link] - pipeline.warmup[link + 1];
  result.round_trip = pipeline.round_trip(link);
  result.at_work_bound = reference.first == reference.last;
  Room room;
  for (std::uint32_t first = 0; first <= link; ++first) {
    for (std::uint32_t last = link + 1; last < pipeline.stages(); ++last) {
      if (const auto cycle = free(first, last)) room.offer(*cycle, reference);
    }
  }
  result.budget = room.budget;
  result.limit = room.limit;
  const OperatorTimes &here = pipeline.times[link], &next = pipeline.times[link + 1];
  result.published_budget = static_cast<std::int64_t>(result.slack) * (next.forward + next.backward_input) -
                            (here.forward + here.backward_input);
  return result;
}

// When the first backward of every stage has ended: its own warm-up forwards have come through (a flow shop of equal
// jobs), and the gradient has come up.
std::vector<Duration> first_backward_ends(const AlternatingPipeline& pipeline) {
  const std::uint32_t stages = pipeline.stages();
  std::vector<Duration> warm(stages), ends(stages);
  Duration through{}, slowest_forward{};
  for (std::uint32_t s = 0; s < stages; ++s) {
    const Duration forward = pipeline.times[s].forward;
    through += forward;
    slowest_forward = std::max(slowest_forward, forward);
    warm[s] = through + static_cast<std::int64_t>(pipeline.warmup[s] - 1) * slowest_forward;
    if (s + 1 < stages && !pipeline.down.empty()) through += pipeline.down[s];
  }
  for (std::uint32_t s = stages; s-- > 0;) {
    Duration start = warm[s];
    if (s + 1 < stages) {
      Duration gradient = ends[s + 1] + (pipeline.up.empty() ? Duration{} : pipeline.up[s]);
      start = std::max(start, gradient);
    }
    const OperatorTimes& t = pipeline.times[s];
    ends[s] = start + t.backward_input + (pipeline.weights == WeightWork::fused ? t.backward_weight : Duration{});
  }
  return ends;
}

IterationForecast forecast_of(const AlternatingPipeline& pipeline, const StageCycle& binding) {
  const std::int64_t n = pipeline.micro_batches;
  const Duration steady{static_cast<std::int64_t>(std::ceil(binding.period() * static_cast<double>(n - 1)))};
  const std::vector<Duration> fill = first_backward_ends(pipeline);
  IterationForecast worst;
  for (std::uint32_t s = 0; s < pipeline.stages(); ++s) {
    const Duration weight = pipeline.times[s].backward_weight;
    const Duration left = pipeline.weights == WeightWork::deferred   ? n * weight
                          : pipeline.weights == WeightWork::in_place ? weight
                                                                     : Duration{};
    const IterationForecast here{{s}, fill[s], steady, left};
    if (s == 0 || here.total() > worst.total()) worst = here;
  }
  return worst;
}

}  // namespace

DelayAnalysis analyse_delay(const AlternatingPipeline& pipeline) {
  require_valid(pipeline);
  const Cycles cycles(pipeline);
  DelayAnalysis analysis;
  for (std::uint32_t s = 0; s < pipeline.stages(); ++s)
    analysis.work_bound = std::max(analysis.work_bound, pipeline.work(s));
  analysis.binding = slowest(pipeline.stages(), [&](std::uint32_t i, std::uint32_t j) { return cycles.over(i, j); });
  for (std::uint32_t link = 0; link + 1 < pipeline.stages(); ++link)
    analysis.links.push_back(analyse_link(pipeline, cycles, link));
  analysis.forecast = forecast_of(pipeline, analysis.binding);
  return analysis;
}

namespace {

// One pipeline played operator by operator: each stage in its fixed order as far as its inputs go.
class Alternation {
 public:
  explicit Alternation(const AlternatingPipeline& pipeline)
      : p_(pipeline),
        n_(pipeline.micro_batches),
        forward_(pipeline.stages(), std::vector<Duration>(n_)),
        backward_(forward_),
        free_(pipeline.stages()),
        forwards_(pipeline.stages()),
        backwards_(pipeline.stages()) {}

  Duration run() {
    const std::uint32_t stages = p_.stages();
    while (backwards_[0] < n_) {
      for (std::uint32_t s = 0; s < stages; ++s) advance(s);
      for (std::uint32_t s = stages - 1; s-- > 0;) advance(s);
    }
    Duration end{};
    for (std::uint32_t s = 0; s < stages; ++s) {
      const bool deferred = p_.weights == WeightWork::deferred;
      end = std::max(end, free_[s] + (deferred ? n_ * p_.times[s].backward_weight : Duration{}));
    }
    return end;
  }

 private:
  void advance(std::uint32_t s) {
    while (true) {
      const bool forward_next = forwards_[s] < n_ && forwards_[s] < backwards_[s] + p_.warmup[s];
      if (!(forward_next ? forward(s) : backward(s))) return;
    }
  }

  bool forward(std::uint32_t s) {
    const std::uint32_t j = forwards_[s];
    if (s > 0 && forwards_[s - 1] <= j) return false;
    Duration start = free_[s];
    if (s > 0) start = std::max(start, forward_[s - 1][j] + (p_.down.empty() ? Duration{} : p_.down[s - 1]));
    free_[s] = forward_[s][j] = start + p_.times[s].forward;
    ++forwards_[s];
    return true;
  }

  bool backward(std::uint32_t s) {
    const std::uint32_t j = backwards_[s];
    const bool last = s + 1 == p_.stages();
    if (j >= n_ || (!last && backwards_[s + 1] <= j)) return false;
    Duration start = free_[s];
    if (!last) start = std::max(start, backward_[s + 1][j] + (p_.up.empty() ? Duration{} : p_.up[s]));
    const OperatorTimes& t = p_.times[s];
    backward_[s][j] = start + t.backward_input;
    if (p_.weights == WeightWork::fused) backward_[s][j] += t.backward_weight;
    free_[s] = backward_[s][j] + (p_.weights == WeightWork::in_place ? t.backward_weight : Duration{});
    ++backwards_[s];
    return true;
  }

  const AlternatingPipeline& p_;
  std::uint32_t n_;
  std::vector<std::vector<Duration>> forward_, backward_;  // [stage][micro-batch]: when it ended
  std::vector<Duration> free_;
  std::vector<std::uint32_t> forwards_, backwards_;
};

}  // namespace

Duration alternating_iteration(const AlternatingPipeline& pipeline) {
  require_valid(pipeline);
  return Alternation(pipeline).run();
}

Duration published_budget(std::uint32_t slack, Duration operator_time) {
  return (static_cast<std::int64_t>(slack) - 1) * operator_time;
}

double cost_per_delay(std::uint32_t micro_batches, std::uint32_t slack, std::uint32_t hidden) {
  const std::uint32_t rounds = (micro_batches + slack) / (slack + 1);
  return 2.0 * (rounds - std::min(hidden, rounds));
}

std::string to_text(const DelayAnalysis& analysis) {
  const StageCycle& binding = analysis.binding;
  const Duration period{static_cast<std::int64_t>(std::llround(binding.period()))};
  std::string text = binding.first == binding.last
                         ? fmt::format("period {}: the work of stage {}\n", format(period), binding.first.value)
                         : fmt::format("period {}: stages {} to {}, {} for {} micro-batches\n", format(period),
                                       binding.first.value, binding.last.value, format(binding.time), binding.tokens);
  for (std::size_t k = 0; k < analysis.links.size(); ++k) {
    const LinkDelay& link = analysis.links[k];
    text +=
        fmt::format("link {}-{}: slack {}, round trip {}, budget {} (published {}){}\n", k, k + 1, link.slack,
                    format(link.round_trip), link.budget ? format(*link.budget) : "any", format(link.published_budget),
                    link.at_work_bound ? "" : ", above the slowest stage's work without it");
  }
  return text;
}

}  // namespace stagecraft
