// Made-up input for the straggler detector: a pipeline with noise, outliers, spikes and clocks that drift and step, and
// faults on top. A seed is a trace, the same as in the recorded vectors (tests/data/detector). One owner.
//
// Messages leave at the times of a nominal 1f1b-like schedule: delays do not feed back. Times are milliseconds here,
// nanoseconds in the samples.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "planning/detector/samples.hpp"

namespace stagecraft::traces {

/// How the size of a fault changes within its time.
struct FaultShape {
  enum class Kind { constant, ramp, periodic, burst, normal, lognormal } kind = Kind::constant;
  double over = 0;                   ///< ramp: iterations until it is all there
  double on = 0, off = 0;            ///< periodic, and means of burst: ms
  double mean = 0, sd = 0;           ///< normal
  double p50 = 0, p99 = 0;           ///< lognormal
  double shortest = 0, longest = 0;  ///< normal and lognormal: ms until the next draw
};

struct Fault {
  enum class Kind { stage, latency, bandwidth, occupancy, clock_step } kind = Kind::latency;
  std::vector<std::uint32_t> stages;                         ///< stage
  std::array<bool, 3> operators{true, true, true};           ///< stage: F, B, W
  std::vector<std::pair<std::uint32_t, std::size_t>> lanes;  ///< links: link and direction
  std::uint32_t node = 0;                                    ///< clock_step
  double size = 0;  ///< stage: share more; latency, occupancy: ms more; bandwidth: times slower; clock_step: ms
  double from = 0, to = 1e9;  ///< iterations
  FaultShape shape;
};

struct Parameters {
  std::uint64_t seed = 0;
  std::uint32_t stages = 8, micro_batches = 24, iterations = 60;
  double period = 700;                        ///< of an iteration, ms
  std::array<double, 3> operators{9, 10, 6};  ///< F, B, W, ms
  double variation = 0.03;                    ///< coefficient of variation of an operator
  double shared = 0;                          ///< share of the variance that a block has in common
  double outliers = 0.01, outlier_factor = 3;
  double latency = 0.5, jitter = 0.1;  ///< ms; exponential
  double spikes = 0.01, spike = 3;     ///< share of messages; mean, ms
  double bytes = 67108864, spread = 0, gbytes_per_s = 50;
  bool ack_over_link = true;
  double ack_latency = 0.2, turnaround = 0.05;  ///< ms
  double ppm = 25, offset = 5000;               ///< of clocks, at most; ms
  std::vector<std::uint32_t> nodes;             ///< of each stage; empty: one each
  bool announcements = true;
  std::vector<Fault> faults;
};

Parameters parameters_of(const nlohmann::json& record);

/// Independent draws, keyed by what they are for (SplitMix64's finaliser on counters).
class Draws {
 public:
  Draws(std::uint64_t seed, std::initializer_list<std::uint64_t> keys);
  double uniform();  ///< within (0, 1)
  double normal();
  double exponential(double mean);

 private:
  std::uint64_t state_;
};

/// Its iterations, one after the other, counted from 1.
class Trace {
 public:
  explicit Trace(Parameters parameters);
  IterationSamples next();
  const Parameters& parameters() const { return p_; }

 private:
  // What a fault is worth over time.
  struct Course {
    std::vector<double> times, values;
  };
  Course course_of(std::size_t fault) const;
  double value(std::size_t fault, double at) const;
  double clock(std::uint32_t node, double at) const;
  double forward_start(std::uint32_t stage, std::uint32_t micro_batch) const;
  double backward_start(std::uint32_t stage, std::uint32_t micro_batch) const;
  std::vector<OperatorSample> operators(std::uint32_t stage, std::size_t kind) const;
  std::vector<MessageStamps> messages(std::uint32_t link, std::size_t direction);
  double latency(std::uint32_t link, std::size_t direction, double at) const;
  double service(std::uint32_t link, std::size_t direction, double at, double bytes) const;

  Parameters p_;
  std::vector<double> offsets_, ppm_;        // of nodes
  std::vector<Course> courses_;              // of faults
  std::vector<std::array<double, 2>> free_;  // from when the wire is; by link and direction
  std::uint32_t iteration_ = 0;              // counted from 0
};

}  // namespace stagecraft::traces
