// Links whose delay changes faster than iterations: courses of delays drawn from a seed, and a system that runs one
// iteration after the other under them. Pure functions on values; any thread.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "planning/reproduce/experiment.hpp"

namespace stagecraft::reproduce {

/// A delay that holds from some moment until the next one.
struct Hold {
  Instant from{};
  Duration delay{};
};
using DelayCourse = std::vector<Hold>;  // in order of time, the first at zero

/// For how long draws hold: uniform between the two.
struct HoldTimes {
  Duration shortest{}, longest{};
};

/// Delays from a normal distribution, those below zero cut to zero, until `end`.
DelayCourse normal_course(std::uint64_t seed, std::string_view name, Duration mean, Duration deviation,
                          const HoldTimes& holds, Instant end);

/// The distribution of a delay by its median, mean and 99th percentile: its quantile function is linear up to the
/// median, geometric from there to the 99th percentile, and linear to `most`. It starts where the mean comes out right.
class DelayQuantiles {
 public:
  /// 0 < median < p99 <= most; the mean must be one that such a curve can have.
  DelayQuantiles(double median_ms, double mean_ms, double p99_ms, double most_ms);
  /// `share` from 0 to 1.
  double at(double share) const;
  double least() const { return least_; }

 private:
  double median_, p99_, most_, least_;
};

/// Delays of that distribution.
DelayCourse quantile_course(std::uint64_t seed, std::string_view name, const DelayQuantiles& quantiles,
                            const HoldTimes& holds, Instant end);

/// The delay at a moment.
Duration delay_at(const DelayCourse& course, Instant now);

/// A pipeline under changing delays.
struct ChangingSetting {
  Setting setting;  ///< `slow` names the links, in the order of `courses`; its delays are not looked at
  std::vector<DelayCourse> courses;  ///< one per slow link
  std::vector<DelayCourse> past;     ///< of the same kind: what has been seen of the links before
  std::vector<Duration> beliefs;     ///< delays that `ours` and `hindsight` have plans for, beside the zero-bubble list
  Duration span{};                   ///< how long the pipeline runs
};

struct ChangingOutcome {
  std::uint32_t iterations = 0;
  double mean_ms = 0;  ///< of an iteration
  std::uint32_t activations = 0, held = 0;
};

/// Iterations one after the other until `span` is over, each with `fixed` time besides its operators. `pipemorph` plans
/// anew before each, told the delays of that moment. `ours` keeps to the one of its plans that would have been the best
/// in the past; `hindsight` takes the best of them in each iteration.
ChangingOutcome play_changing(const ChangingSetting& changing, System system, Duration fixed);

}  // namespace stagecraft::reproduce
